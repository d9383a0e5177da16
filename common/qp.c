/* SPDX-License-Identifier: BSD-3-Clause */
/* What a queue pair does once there is one: states, posting, queries. See qp.h. */
#include "qp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "cause.h"
#include "context.h"
#include "error.h"
#include "qp_attr.h"
#include "qp_rules.h"
#include "qp_cap.h"
#include "verbs.h"
#include "wc.h"

/* ---- states ------------------------------------------------------------------------------------------------------ */

static int raise_not_modified(struct core_qp *self, int err, uint32_t from, const struct ibv_qp_attr *attr,
                              uint32_t mask, const struct cause *cause)
{
    const char *join = cause->used ? ": " : "";
    char with[320];

    qp_mask_text(mask, with, sizeof with);
    if (mask & IBV_QP_STATE)
        core_raise_format(self->base.state, err, "ibv_modify_qp", "QP 0x%x, from %s to %s with %s%s%s", self->qp_num,
                          qp_state_name(from), qp_state_name(attr->qp_state), with, join, cause->text);
    else
        core_raise_format(self->base.state, err, "ibv_modify_qp", "QP 0x%x in %s, with %s%s%s", self->qp_num,
                          qp_state_name(from), with, join, cause->text);
    return -1;
}

/* The provider's rings would go on where they were while the device begins anew. */
static int refuse_restart(struct core_qp *self, const struct ibv_qp_attr *attr, uint32_t mask, const char *method)
{
    if (!self->once || !self->was_sent || !(mask & IBV_QP_STATE) || attr->qp_state != IBV_QPS_INIT)
        return 0;
    core_raise_method(&self->base, EINVAL, method,
                      "QP 0x%x was in RTS already; a queue pair of this provider cannot be used again after RESET: make "
                      "a new one", self->qp_num);
    return -1;
}

/*
 * Whether nothing that went wrong before concerns a queue pair that came to this state. Up to RTR nothing has gone wrong:
 * what was polled since RESET is of its life before that, of which the queue may have been full.
 */
static bool begins_anew(uint32_t state)
{
    return state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR;
}

int core_qp_modify(struct core_qp *self, struct ibv_qp_attr *attr, uint32_t mask, const char *method)
{
    struct ibv_qp *qp = self->base.handle;
    struct cause cause = {0};
    uint32_t from;
    int err;

    if (refuse_restart(self, attr, mask, method) < 0 || core_enter(&self->base, method) < 0)
        return -1;
    from = qp->state;
    Py_BEGIN_ALLOW_THREADS
    if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
        core_qp_tell_cqs(self, false);
    errno = 0;
    err = verbs_errno(verbs.modify_qp(qp, attr, (int)mask));
    if (err) {
        from = cause_qp_state(qp, from);
        cause_of_modify(&cause, qp->context, self->limits.qp_type, from, attr, mask, self->port_num, err);
    }
    Py_END_ALLOW_THREADS
    if (!err && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS)
        self->was_sent = true;
    if (!err && (mask & IBV_QP_PORT))
        self->port_num = attr->port_num;
    core_exit(&self->base);
    if (err)
        return raise_not_modified(self, err, from, attr, mask, &cause);
    if ((mask & IBV_QP_STATE) && begins_anew(attr->qp_state))
        Py_CLEAR(self->first_error);
    return 0;
}

int core_qp_query(struct core_qp *self, uint32_t mask, struct ibv_qp_attr *ret_attr, struct ibv_qp_init_attr *ret_init,
                  const char *method)
{
    int err;

    memset(ret_attr, 0, sizeof *ret_attr);
    memset(ret_init, 0, sizeof *ret_init);
    if (core_enter(&self->base, method) < 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    err = verbs_errno(verbs.query_qp(self->base.handle, ret_attr, (int)mask, ret_init));
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    if (!err)
        return 0;
    core_raise_format(self->base.state, err, "ibv_query_qp", "QP 0x%x", self->qp_num);
    return -1;
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

void core_qp_note_failure(struct core_context *context, PyObject *op)
{
    const struct ibv_wc *wc = &((struct core_wc *)op)->wc;
    struct core_qp *qp = (struct core_qp *)core_context_find(context, core_qp_num_key(wc->qp_num));

    if (!qp)
        return;
    if (wc->status != IBV_WC_WR_FLUSH_ERR) {
        if (!qp->first_error) {
            Py_INCREF(op);
            qp->first_error = op;
        }
    } else if (qp->first_error) {
        Py_INCREF(qp->first_error);
        *core_wc_first_error(op) = qp->first_error;
    }
}

/* ---- the verbs themselves ------------------------------------------------------------------------------------------ */

/* A field of modify() by keyword. The value is held: a conversion may empty the dictionary that it is in. */
static int set_field(struct core_state *state, struct ibv_qp_attr *attr, PyObject *name, PyObject *value)
{
    int failed;

    Py_INCREF(value);
    failed = core_qp_attr_set(state, attr, name, value);
    Py_DECREF(value);
    return failed;
}

/* Sets modify()'s fields by keyword, and holds `mask`. Returns 0 or -1 with an exception. */
static int read_fields(struct core_state *state, PyObject *kwargs, PyObject *second, const char *second_name,
                       PyObject **mask, struct ibv_qp_attr *attr)
{
    PyObject *name, *value;
    Py_ssize_t position = 0;

    while (kwargs && PyDict_Next(kwargs, &position, &name, &value)) {
        bool is_mask = PyUnicode_Compare(name, state->names[CORE_NAME_attr_mask]) == 0;
        bool is_second = second_name && PyUnicode_CompareWithASCIIString(name, second_name) == 0;

        if ((is_mask && *mask) || (is_second && second)) {
            PyErr_Format(PyExc_TypeError, "QP.modify() got %R twice", name);
            return -1;
        }
        if (is_mask) {
            Py_INCREF(value);
            *mask = value;
        } else if (!(is_second && value == Py_None) && set_field(state, attr, name, value) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Sorts modify()'s arguments: a mask, perhaps a second one, and any field of struct ibv_qp_attr by keyword. */
static int read_modify(struct core_state *state, PyObject *args, PyObject *kwargs, const char *second_name,
                       uint32_t *ret_mask, struct ibv_qp_attr *attr)
{
    Py_ssize_t nargs = PyTuple_Size(args), most = second_name ? 2 : 1;
    PyObject *mask = nargs > 0 ? PyTuple_GetItem(args, 0) : NULL, *name;
    PyObject *second = nargs > 1 ? PyTuple_GetItem(args, 1) : NULL;
    int failed = -1;

    if (nargs > most) {
        PyErr_Format(PyExc_TypeError, "QP.modify() takes at most %zd arguments by position, got %zd", most, nargs);
        return -1;
    }
    Py_XINCREF(mask);
    if (read_fields(state, kwargs, second, second_name, &mask, attr) < 0)
        goto done;
    if (!mask) {
        PyErr_SetString(PyExc_TypeError, "QP.modify() lacks its argument 'attr_mask'");
        goto done;
    }
    if (second && second != Py_None) {
        name = PyUnicode_FromString(second_name);
        failed = name ? core_qp_attr_set(state, attr, name, second) : -1;
        Py_XDECREF(name);
        if (failed)
            goto done;
    }
    failed = core_u32(state, mask, "attr_mask", ret_mask);
done:
    Py_XDECREF(mask);
    return failed;
}

PyObject *core_qp_method_modify(PyObject *op, PyObject *args, PyObject *kwargs, const char *second_name)
{
    struct core_qp *self = (struct core_qp *)op;
    struct ibv_qp_attr attr = {0};
    uint32_t mask;

    if (read_modify(self->base.state, args, kwargs, second_name, &mask, &attr) < 0 ||
        core_qp_modify(self, &attr, mask, "modify") < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *core_qp_method_query(PyObject *op, uint32_t mask, const char *const *names)
{
    struct core_qp *self = (struct core_qp *)op;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    PyObject *fields, *cap;

    if (core_qp_query(self, mask, &attr, &init, "query") < 0)
        return NULL;
    fields = core_qp_attr_dict(self->base.state, &attr, names);
    cap = fields ? core_qp_cap_new(self->base.state, &init.cap) : NULL;
    if (!cap) {
        Py_XDECREF(fields);
        return NULL;
    }
    return Py_BuildValue("(NN)", fields, cap);
}

/* ---- posting ----------------------------------------------------------------------------------------------------- */

/* What differs between the two queues of a queue pair when one refuses a request. */
struct refusal {
    const char *queue;
    const char *limit;
    uint32_t first_state; /* that it takes requests in, and in all after it */
};

static void explain(struct core_object *self, const struct refusal *refusal, uint32_t depth, int err, char *text,
                    size_t size)
{
    struct ibv_qp *qp = self->handle;
    uint32_t state;

    if (!qp) /* closed by another thread since */
        return;
    if (err == ENOMEM || err == ENOSPC) {
        snprintf(text, size, ": the %s queue is full; it was granted %s=%u, and polled completions make room",
                 refusal->queue, refusal->limit, depth);
        return;
    }
    state = cause_qp_state(qp, qp->state);
    if (state < refusal->first_state)
        snprintf(text, size, ": QP 0x%x is in state %s, and its %s queue needs %s", ((struct core_qp *)self)->qp_num,
                 qp_state_name(state), refusal->queue, qp_state_name(refusal->first_state));
    else
        snprintf(text, size, "; QP 0x%x is in state %s", ((struct core_qp *)self)->qp_num, qp_state_name(state));
}

void core_qp_explain_send(struct core_object *self, int err, char *text, size_t size)
{
    static const struct refusal refusal = {"send", "max_send_wr", IBV_QPS_RTS};

    explain(self, &refusal, ((struct core_qp *)self)->limits.max_send_wr, err, text, size);
}

void core_qp_explain_recv(struct core_object *self, int err, char *text, size_t size)
{
    static const struct refusal refusal = {"receive", "max_recv_wr", IBV_QPS_INIT};

    explain(self, &refusal, ((struct core_qp *)self)->limits.max_recv_wr, err, text, size);
}

static int submit_send(struct core_object *self, void *chain, Py_ssize_t count, void **ret_bad_wr)
{
    struct ibv_send_wr *bad_wr = NULL;
    int err = ibv_post_send(self->handle, chain, &bad_wr);

    (void)count;
    *ret_bad_wr = bad_wr;
    return err;
}

int core_qp_submit_recv(struct core_object *self, void *chain, Py_ssize_t count, void **ret_bad_wr)
{
    struct ibv_recv_wr *bad_wr = NULL;
    int err = ibv_post_recv(self->handle, chain, &bad_wr);

    (void)count;
    *ret_bad_wr = bad_wr;
    return err;
}

static const struct core_params post_send_params = {"QP.post_send", 1, 1, {CORE_NAME_wrs}};
static const struct core_params post_recv_params = {"QP.post_recv", 1, 1, {CORE_NAME_wrs}};

PyObject *core_qp_post_send(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                            const struct core_post_queue *queue)
{
    struct core_qp *self = (struct core_qp *)op;
    PyObject *wrs;

    if (core_parse(self->base.state, &post_send_params, args, nargs, kwnames, &wrs) < 0 ||
        core_post(&self->base, &self->limits, wrs, queue) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *core_qp_post_recv(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                            const struct core_post_queue *queue)
{
    struct core_qp *self = (struct core_qp *)op;
    PyObject *wrs;

    if (core_parse(self->base.state, &post_recv_params, args, nargs, kwnames, &wrs) < 0)
        return NULL;
    if (self->srq && core_check_open(&self->base, "post_recv") < 0)
        return NULL;
    if (self->srq)
        return core_raise_method(&self->base, EINVAL, "post_recv", "this QP receives from its SRQ: post there");
    if (core_post(&self->base, &self->limits, wrs, queue) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static const struct core_post_queue send_queue = {"post_send", "ibv_post_send", &core_post_sends, false, submit_send, core_qp_explain_send};
static const struct core_post_queue recv_queue = {"post_recv",     "ibv_post_recv",     &core_post_receives,
                                             false,           core_qp_submit_recv, core_qp_explain_recv};

PyObject *core_qp_method_post_send(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_qp_post_send(self, args, nargs, kwnames, &send_queue);
}

PyObject *core_qp_method_post_recv(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_qp_post_recv(self, args, nargs, kwnames, &recv_queue);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

PyObject *core_qp_get_state(PyObject *op, void *ignored)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    (void)ignored;
    if (core_qp_query((struct core_qp *)op, IBV_QP_STATE, &attr, &init, "state") < 0)
        return NULL;
    return PyLong_FromLong(attr.qp_state);
}

PyObject *core_qp_get_qp_num(PyObject *op, void *ignored)
{
    struct core_qp *self = (struct core_qp *)op;

    (void)ignored;
    return core_check_open(&self->base, "qp_num") < 0 ? NULL : PyLong_FromUnsignedLong(self->qp_num);
}

PyObject *core_qp_get_qp_type(PyObject *op, void *ignored)
{
    struct core_qp *self = (struct core_qp *)op;

    (void)ignored;
    return core_check_open(&self->base, "qp_type") < 0 ? NULL : PyLong_FromUnsignedLong(self->limits.qp_type);
}

static PyObject *get_object(struct core_object *object)
{
    if (!object)
        Py_RETURN_NONE;
    Py_INCREF(object);
    return (PyObject *)object;
}

PyObject *core_qp_get_send_cq(PyObject *self, void *ignored)
{
    (void)ignored;
    return get_object(((struct core_qp *)self)->send_cq);
}

PyObject *core_qp_get_recv_cq(PyObject *self, void *ignored)
{
    (void)ignored;
    return get_object(((struct core_qp *)self)->recv_cq);
}

PyObject *core_qp_get_first_error(PyObject *op, void *ignored)
{
    PyObject *first_error = ((struct core_qp *)op)->first_error;

    (void)ignored;
    if (!first_error)
        Py_RETURN_NONE;
    Py_INCREF(first_error);
    return first_error;
}

PyObject *core_qp_get_srq(PyObject *self, void *ignored)
{
    (void)ignored;
    return get_object(((struct core_qp *)self)->srq);
}

PyObject *core_qp_repr(PyObject *op, const char *type_name)
{
    struct core_qp *self = (struct core_qp *)op;

    return PyUnicode_FromFormat("<QP 0x%x %s%s>", self->qp_num, type_name, self->base.handle ? "" : ", closed");
}
