/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues. See cq.h. */
#include "cq.h"

#include <errno.h>
#include <string.h>

#include "args.h"
#include "cause.h"
#include "channel.h"
#include "context.h"
#include "error.h"
#include "qp.h"
#include "verbs.h"
#include "wc.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int cq_destroy(struct core_object *op)
{
    struct core_channel *channel = ((struct core_cq *)op)->channel;
    struct core_context *context = core_context_of(op);
    int err;

    /* Nobody is between reading an event about this queue and acknowledging it, so this cannot hang. */
    core_events_hold(&context->async);
    if (channel)
        core_events_hold(&channel->events);
    err = verbs_errno(verbs.destroy_cq(op->handle));
    if (channel)
        core_events_release(&channel->events);
    core_events_release(&context->async);
    return err;
}

static void cq_wake(struct core_object *op, bool closing)
{
    struct core_cq *self = (struct core_cq *)op;

    atomic_store_explicit(&self->leaving, closing, memory_order_relaxed);
    if (closing)
        core_waiters_wake(&self->waiters);
}

static void cq_release(struct core_object *op, void *handle)
{
    struct core_cq *self = (struct core_cq *)op;

    if (handle) {
        core_context_remove(core_context_of(op), core_pointer_key(handle), op);
        if (self->channel)
            core_channel_forget(self->channel, self);
    }
    core_waiters_free(&self->waiters);
}

static const struct core_kind cq_kind = {CORE_KIND_CQ, "ibv_destroy_cq", cq_destroy, cq_wake, cq_release};

PyObject *core_cq_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "Context.create_cq()");
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

int core_cq_read_request(struct core_context *context, PyObject *const values[3], const char *method,
                         struct core_cq_request *ret)
{
    struct core_state *state = context->base.state;

    *ret = (struct core_cq_request){0, 0, NULL, NULL};
    if (core_count(state, values[0], "cqe", 1, &ret->cqe) < 0 ||
        (values[2] && core_count(state, values[2], "comp_vector", 0, &ret->comp_vector) < 0) ||
        core_check_open(&context->base, method) < 0)
        return -1;
    if (!values[1] || values[1] == Py_None)
        return 0;

    if (core_check_argument(&context->base, values[1], CORE_TYPE_CHANNEL, "channel", "a CompChannel or None", method) <
        0)
        return -1;
    ret->channel = (struct core_object *)values[1];
    if (ret->channel->parents[0] == &context->base)
        return 0;
    PyErr_Format(PyExc_ValueError, "channel belongs to another Context: %R", (PyObject *)ret->channel->parents[0]);
    return -1;
}

struct core_cq *core_cq_begin(struct core_context *context, int type, const struct core_cq_source *source,
                              const struct core_cq_request *request, const char *method)
{
    struct core_cq *self = (struct core_cq *)core_object_new(context->base.state, context->base.module, type, &cq_kind);

    if (!self)
        return NULL;
    self->source = source;
    self->channel = (struct core_channel *)request->channel;
    core_object_add_parent(&self->base, &context->base);
    if (request->channel)
        core_object_add_parent(&self->base, request->channel);
    if (core_object_begin(&self->base, method) < 0)
        return NULL;
    if (core_context_reserve(context, 1) < 0) {
        core_object_finish(&self->base, NULL);
        return NULL;
    }
    return self;
}

static PyObject *raise_refused(struct core_context *context, int err, const char *verb,
                               const struct core_cq_request *request)
{
    struct ibv_device_attr limits;
    struct cause cause = {0};

    if (core_context_limits(context, &limits))
        cause_of_cq_size(&cause, &limits, request->cqe);
    if (context->base.handle && request->comp_vector >= (uint32_t)core_context_handle(context)->num_comp_vectors)
        cause_add(&cause, "comp_vector=%u is none of the device's: it has %d, counted from 0", request->comp_vector,
                  core_context_handle(context)->num_comp_vectors);
    if (!cause.used && request->detail)
        cause_add(&cause, "cqe=%u, %s", request->cqe, request->detail);
    if (!cause.used)
        cause_add(&cause, "cqe=%u, comp_vector=%u", request->cqe, request->comp_vector);
    if (err == ENOMEM)
        cause_of_locked_memory(&cause);
    return core_raise(context->base.state, err, verb, cause.text);
}

PyObject *core_cq_finish(struct core_cq *self, struct ibv_cq *cq, int err, const char *verb,
                         const struct core_cq_request *request)
{
    struct core_context *context = core_context_of(&self->base);
    PyObject *result;

    Py_INCREF(context); /* the object may hold the last reference */
    result = core_object_finish(&self->base, cq);
    if (result) {
        core_context_put(context, core_pointer_key(cq), &self->base);
    } else {
        core_context_unreserve(context, 1);
        raise_refused(context, err, verb, request);
    }
    Py_DECREF(context);
    return result;
}

static const struct core_params create_cq_params = {
    "Context.create_cq", 3, 1, {CORE_NAME_cqe, CORE_NAME_channel, CORE_NAME_comp_vector}};

PyObject *core_context_create_cq(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int type,
                                 const struct core_cq_source *source)
{
    struct core_context *context = (struct core_context *)op;
    struct core_cq_request request;
    struct core_cq *self;
    PyObject *values[3];
    struct ibv_cq *cq;
    int err;

    if (core_parse(context->base.state, &create_cq_params, args, nargs, kwnames, values) < 0 ||
        core_cq_read_request(context, values, "create_cq", &request) < 0)
        return NULL;
    self = core_cq_begin(context, type, source, &request, "create_cq");
    if (!self)
        return NULL;

    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    cq = verbs.create_cq(context->base.handle, (int)request.cqe, NULL,
                         request.channel ? request.channel->handle : NULL, (int)request.comp_vector);
    err = cq ? 0 : verbs_last_errno();
    Py_END_ALLOW_THREADS
    return core_cq_finish(self, cq, err, "ibv_create_cq", &request);
}

/* ---- polling ----------------------------------------------------------------------------------------------------- */

/*
 * The errno for a poll that failed. mlx5, mlx4 and hns say -2 of a queue that is broken, which is no ENOENT; others say
 * -1, or a negative errno.
 */
static int poll_errno(int returned)
{
    return returned == -2 ? EIO : verbs_errno(returned);
}

static inline int reap_plain(struct core_cq *self, uint32_t at, uint32_t most, uint32_t *ret_found)
{
    int found;

    errno = 0;
    found = ibv_poll_cq(self->base.handle, (int)most, &self->ready[at]);
    if (found < 0)
        return poll_errno(found);
    *ret_found = (uint32_t)found;
    return (uint32_t)found > most ? EPROTO : 0; /* more than there is room for */
}

int core_cq_reap(struct core_cq *self, uint32_t at, uint32_t most, uint32_t *ret_found)
{
    return reap_plain(self, at, most, ret_found);
}

const struct core_cq_source core_cq_plain = {"ibv_poll_cq", core_cq_reap, NULL, false, NULL};

/* Raises for a poll that failed or lied. Always returns NULL. */
static PyObject *raise_poll(struct core_cq *self, int err)
{
    return core_raise(self->base.state, err, self->source->verb,
                      err == EPROTO ? "the library returned more completions than it was asked for" : NULL);
}

/* What is to come before anything else: completions of a thread that spun, then an error. Returns 0 or the errno. */
static __attribute__((noinline)) int take_left_over(struct core_cq *self)
{
    int err = 0;

    if (self->spun_count) {
        self->ready_at = CORE_CQ_REAP;
        self->ready_count = self->spun_count;
        self->spun_count = 0;
    } else {
        err = self->deferred_err;
        self->deferred_err = 0;
    }
    self->left_over = self->deferred_err;
    return err;
}

/* Asks the library for completions, if none are left over. Returns 0 or an errno. In line for poll() alone. */
static inline __attribute__((always_inline)) int reap(struct core_cq *self, uint32_t most)
{
    uint32_t found = 0;
    int err;

    if (self->ready_count)
        return 0;
    if (self->left_over)
        return take_left_over(self);
    if (most > CORE_CQ_REAP)
        most = CORE_CQ_REAP;

    /* The one that is asked most often is asked in line. */
    err = self->source == &core_cq_plain ? reap_plain(self, 0, most, &found) : self->source->reap(self, 0, most, &found);
    if (err) { /* perhaps in the midst of it */
        memset(self->ready, 0, CORE_CQ_REAP * sizeof *self->ready);
        return err;
    }
    self->ready_at = 0;
    self->ready_count = found;
    return 0;
}

static __attribute__((noinline)) int reap_more(struct core_cq *self, uint32_t most)
{
    return reap(self, most);
}

int core_cq_look(struct core_cq *self, uint32_t most)
{
    int err = reap_more(self, most);

    if (!err)
        return self->ready_count > 0;
    raise_poll(self, err);
    return -1;
}

int core_cq_spin(struct core_cq *self, uint32_t most, uint32_t *ret_found)
{
    if (most > CORE_CQ_SPIN)
        most = CORE_CQ_SPIN;
    *ret_found = 0;
    return self->source->reap(self, CORE_CQ_REAP, most, ret_found);
}

int core_cq_spun(struct core_cq *self, int err, uint32_t found)
{
    if (!err) {
        self->spun_count = found;
        self->left_over |= found > 0;
        return 0;
    }
    memset(&self->ready[CORE_CQ_REAP], 0, CORE_CQ_SPIN * sizeof *self->ready);
    raise_poll(self, err);
    return -1;
}

/* A completion that failed: its queue pair gets to know, or says why. */
static __attribute__((noinline)) PyObject *wrap_failed(struct core_cq *self, const struct ibv_wc *wc)
{
    PyObject *object = core_wc_new_failed(self->base.state, wc);

    if (object)
        core_qp_note_failure(core_context_of(&self->base), object);
    return object;
}

/*
 * The next completion that was reaped, as an object; NULL with MemoryError, and then it stays. In line, because it is
 * most of what a poll costs.
 */
static inline __attribute__((always_inline)) PyObject *take(struct core_cq *self)
{
    struct ibv_wc *wc = &self->ready[self->ready_at];
    PyObject *object =
        wc->status == IBV_WC_SUCCESS ? core_wc_new(self->base.state, wc) : wrap_failed(self, wc);

    if (object) {
        if (self->source->add)
            self->source->add(self, self->ready_at, object);
        memset(wc, 0, sizeof *wc);
        self->ready_at++;
        self->ready_count--;
    }
    return object;
}

/* Puts back the completion that was taken last. */
static void untake(struct core_cq *self, PyObject *object)
{
    struct ibv_wc *wc = &self->ready[--self->ready_at];

    *wc = ((struct core_wc *)object)->wc;
    if (wc->wc_flags & IBV_WC_WITH_IMM)
        wc->imm_data = htobe32(wc->imm_data);
    self->ready_count++;
}

/* A list of what is ready, at most so many. What the collector does in the meantime may have taken some of it. */
static PyObject *deliver(struct core_cq *self, uint32_t most)
{
    uint32_t wanted = self->ready_count < most ? self->ready_count : most, done = 0;
    PyObject *list = PyList_New((Py_ssize_t)wanted);

    if (!list)
        return NULL;
    while (done < wanted && self->ready_count) {
        PyObject *wc = take(self);
        if (!wc)
            break;
        PyList_SetItem(list, (Py_ssize_t)done++, wc);
    }
    if (done == wanted)
        return list;

    core_waiters_wake(&self->waiters); /* no event comes for what is left here */
    if (!done && PyErr_Occurred()) {
        Py_DECREF(list);
        return NULL;
    }
    PyErr_Clear(); /* what there is, is delivered; what is left comes with the next call */
    if (PyList_SetSlice(list, (Py_ssize_t)done, (Py_ssize_t)wanted, NULL) == 0)
        return list;
    while (done) /* not even memory to shorten it: all of it comes with the next call */
        untake(self, PyList_GetItem(list, (Py_ssize_t)--done));
    Py_DECREF(list);
    return NULL;
}

/* The rest of a poll for more than the library is asked for at once. An error is kept for the next call. */
static void deliver_more(struct core_cq *self, PyObject *list, uint32_t most)
{
    uint32_t done = (uint32_t)PyList_Size(list);

    while (done < most && self->base.open_in == core_generation) {
        PyObject *wc;

        if (!self->ready_count) {
            int err = reap_more(self, most - done);
            if (err) {
                self->deferred_err = err;
                self->left_over = true;
            }
            if (!self->ready_count)
                return;
        }
        wc = take(self);
        if (!wc || PyList_Append(list, wc) < 0) {
            /* Out of memory between taking and keeping: the completion goes back to where it came from. */
            if (wc)
                untake(self, wc);
            Py_XDECREF(wc);
            PyErr_Clear();
            core_waiters_wake(&self->waiters); /* as above */
            return;
        }
        Py_DECREF(wc);
        done++;
    }
}

static inline PyObject *deliver_all(struct core_cq *self, uint32_t most)
{
    PyObject *list = deliver(self, most);

    if (list && most > CORE_CQ_REAP && PyList_Size(list) == CORE_CQ_REAP)
        deliver_more(self, list, most);
    return list;
}

PyObject *core_cq_deliver(struct core_cq *self, uint32_t most)
{
    return deliver_all(self, most);
}

static const struct core_params poll_params = {"CQ.poll", 1, 1, {CORE_NAME_num_entries}};

PyObject *core_cq_method_poll(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_cq *self = (struct core_cq *)op;
    PyObject *value;
    uint32_t most;
    int err;

    if (core_parse(self->base.state, &poll_params, args, nargs, kwnames, &value) < 0 ||
        core_count(self->base.state, value, "num_entries", 1, &most) < 0 || core_check_open(&self->base, "poll") < 0)
        return NULL;

    err = reap(self, most);
    return err ? raise_poll(self, err) : deliver_all(self, most);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Returns 0, or -1 with an exception. */
static int arm(struct core_cq *self, int solicited_only)
{
    int err;

    if (self->source->needs_channel && !self->channel) {
        core_raise_method(&self->base, EINVAL, "req_notify",
                          "the queue was made without a channel, so it has nowhere to put an event");
        return -1;
    }
    errno = 0;
    err = verbs_errno(ibv_req_notify_cq(self->base.handle, solicited_only));
    if (!err)
        return 0;
    core_raise(self->base.state, err, "ibv_req_notify_cq", solicited_only ? "solicited_only=True" : NULL);
    return -1;
}

int core_cq_check_channel(const struct core_cq *self)
{
    if (self->channel)
        return 0;
    PyErr_SetString(PyExc_ValueError,
                    "this CQ has no completion channel to wait on: give create_cq() one that create_comp_channel() made");
    return -1;
}

int core_cq_arm(struct core_cq *self)
{
    if (arm(self, 0) < 0)
        return -1;
    self->waited_on = true;
    return 0;
}

static const struct core_params req_notify_params = {"CQ.req_notify", 1, 0, {CORE_NAME_solicited_only}};

PyObject *core_cq_method_req_notify(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_cq *self = (struct core_cq *)op;
    PyObject *value;
    int solicited_only = 0;

    if (core_parse(self->base.state, &req_notify_params, args, nargs, kwnames, &value) < 0)
        return NULL;
    if (value && (solicited_only = PyObject_IsTrue(value)) < 0)
        return NULL;
    if (core_check_open(&self->base, "req_notify") < 0 || arm(self, solicited_only) < 0)
        return NULL;
    if (self->asked < UINT32_MAX)
        self->asked++;
    Py_RETURN_NONE;
}

static const struct core_params ack_events_params = {"CQ.ack_events", 1, 0, {CORE_NAME_nevents}};

PyObject *core_cq_method_ack_events(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_cq *self = (struct core_cq *)op;
    uint64_t nevents = 1;
    PyObject *value;

    if (core_parse(self->base.state, &ack_events_params, args, nargs, kwnames, &value) < 0 ||
        (value && core_integer(self->base.state, value, "nevents", 1, UINT32_MAX, &nevents) < 0) ||
        core_check_open(&self->base, "ack_events") < 0)
        return NULL;
    if (nevents > self->events)
        return PyErr_Format(PyExc_ValueError, "nevents is %llu, but only %llu events are waiting for it",
                            (unsigned long long)nevents, (unsigned long long)self->events);
    self->events -= nevents;
    Py_RETURN_NONE;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

PyObject *core_cq_get_cqe(PyObject *op, void *ignored)
{
    struct core_cq *self = (struct core_cq *)op;

    (void)ignored;
    return core_check_open(&self->base, "cqe") < 0 ? NULL : PyLong_FromLong(core_cq_handle(self)->cqe);
}

PyObject *core_cq_get_channel(PyObject *op, void *ignored)
{
    PyObject *channel = (PyObject *)((struct core_cq *)op)->channel;

    (void)ignored;
    if (!channel)
        Py_RETURN_NONE;
    Py_INCREF(channel);
    return channel;
}
