/* SPDX-License-Identifier: BSD-3-Clause */
/* From request objects to the library. See post.h. */
#include "post.h"

#include <errno.h>
#include <stdlib.h>

#include "ah.h"
#include "args.h"
#include "error.h"
#include "recv_wr.h"
#include "send_wr.h"
#include "sge.h"
#include "verbs.h"

/* What fits on the stack: 4 KiB of requests and 2 KiB of entries. */
union stack_wrs {
    struct ibv_send_wr send[32];
    struct ibv_recv_wr recv[128];
};
#define STACK_SGES 128

/* ---- the requests of a call ----------------------------------------------------------------------------------------- */

/* One request, a list, a tuple, or the list that anything else was turned into. */
struct requests {
    PyObject *from;
    Py_ssize_t count;
    enum { ONE, LIST, TUPLE } form;
    bool owned;
};

static int requests_open(struct requests *requests, PyObject *wrs, PyTypeObject *class)
{
    requests->from = wrs;
    requests->owned = false;
    if (Py_TYPE(wrs) == class || PyType_IsSubtype(Py_TYPE(wrs), class)) {
        requests->form = ONE;
        requests->count = 1;
    } else if (PyTuple_CheckExact(wrs)) {
        requests->form = TUPLE;
        requests->count = PyTuple_Size(wrs);
    } else {
        if (!PyList_CheckExact(wrs)) {
            requests->from = PySequence_List(wrs);
            if (!requests->from)
                return -1;
            requests->owned = true;
        }
        requests->form = LIST;
        requests->count = PyList_Size(requests->from);
    }
    return 0;
}

static PyObject *requests_get(const struct requests *requests, Py_ssize_t i)
{
    switch (requests->form) {
    case LIST:
        return PyList_GetItem(requests->from, i);
    case TUPLE:
        return PyTuple_GetItem(requests->from, i);
    default:
        return requests->from;
    }
}

static void requests_close(struct requests *requests)
{
    if (requests->owned)
        Py_DECREF(requests->from);
}

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

static int raise_wrong_type(struct core_state *state, PyObject *item, const char *what, Py_ssize_t index)
{
    PyErr_Format(PyExc_TypeError, "request %zd must be %s, not %R", index, what, (PyObject *)Py_TYPE(item));
    core_error_set_index(state, index, 0);
    return -1;
}

static int raise_fault(struct core_state *state, enum wr_fault fault, const struct wr_limits *limits, uint32_t opcode,
                       const struct ibv_sge *sge, Py_ssize_t num_sge, Py_ssize_t index)
{
    switch (fault) {
    case WR_BAD_OPCODE:
        PyErr_Format(PyExc_ValueError, "request %zd: opcode %u cannot be posted by this package", index, opcode);
        break;
    case WR_NOT_FOR_UD:
        PyErr_Format(PyExc_ValueError, "request %zd: opcode %u is not for a UD queue pair, which only sends", index,
                     opcode);
        break;
    case WR_NEEDS_AH:
        PyErr_Format(PyExc_ValueError, "request %zd: a send on a UD queue pair needs ah", index);
        break;
    case WR_AH_NOT_FOR_QP:
        PyErr_Format(PyExc_ValueError, "request %zd: ah is for UD queue pairs; this one is connected", index);
        break;
    case WR_INLINE_OPCODE:
        PyErr_Format(PyExc_ValueError, "request %zd: opcode %u sends no data, so it cannot be INLINE", index, opcode);
        break;
    case WR_INLINE_TOO_LONG:
        core_raise_range_format(state, "request %zd: %llu bytes inline are more than the queue's max_inline_data=%u",
                                index, (unsigned long long)wr_total_length(sge, (uint32_t)num_sge),
                                limits->max_inline_data);
        break;
    default:
        core_raise_range_format(state, "request %zd: sg_list has %zd entries, more than the queue's max_send_sge=%u",
                                index, num_sge, limits->max_send_sge);
    }
    core_error_set_index(state, index, 0);
    return -1;
}

static int raise_refused(struct core_object *self, int err, const struct post_queue *queue, Py_ssize_t posted,
                         Py_ssize_t count)
{
    char text[160] = "";

    queue->explain(self, err, text, sizeof text);
    if (posted >= 0)
        core_raise_format(self->state, err, queue->verb, "request %zd of %zd was refused%s", posted, count, text);
    else
        core_raise_format(self->state, err, queue->verb,
                          "the provider does not say which of %zd requests it refused%s", count, text);
    core_error_set_index(self->state, posted, posted);
    return -1;
}

/* ---- the sources: from requests to a chain ----------------------------------------------------------------------------- */

/* The list of a request of either kind. */
static PyObject *send_list(PyObject *item)
{
    return ((struct core_send_wr *)item)->sg_list;
}

static PyObject *recv_list(PyObject *item)
{
    return ((struct core_recv_wr *)item)->sg_list;
}

/* Fills `chain` from the requests. Returns 0, or -1 with an exception. */
static int fill_send(struct core_object *self, const struct wr_limits *limits, const struct requests *requests,
                     void *chain, struct ibv_sge *sge, const char *method)
{
    struct core_state *state = self->state;
    struct ibv_send_wr *wr = chain;

    for (Py_ssize_t i = 0; i < requests->count; i++) {
        struct core_send_wr *item = (struct core_send_wr *)requests_get(requests, i);
        Py_ssize_t num_sge = core_sge_copy_list(self, item->sg_list, sge, method, i);
        struct ibv_ah *ah = NULL;
        enum wr_fault fault;

        if (num_sge < 0) {
            core_error_set_index(state, i, 0);
            return -1;
        }
        if (item->ah) {
            if (((struct core_object *)item->ah)->open_in != core_generation) {
                core_raise_method(self, EBADF, method, "request %zd: its ah is %R", i, item->ah);
                core_error_set_index(state, i, 0);
                return -1;
            }
            ah = core_ah_handle(item->ah);
        }

        fault = wr_fill_send(&wr[i], &item->fields, limits, sge, (uint32_t)num_sge, ah);
        if (fault != WR_OK)
            return raise_fault(state, fault, limits, item->fields.opcode, sge, num_sge, i);
        if (i)
            wr[i - 1].next = &wr[i];
        sge += num_sge;
    }
    return 0;
}

static int fill_recv(struct core_object *self, const struct wr_limits *limits, const struct requests *requests,
                     void *chain, struct ibv_sge *sge, const char *method)
{
    struct core_state *state = self->state;
    struct ibv_recv_wr *wr = chain;

    for (Py_ssize_t i = 0; i < requests->count; i++) {
        struct core_recv_wr *item = (struct core_recv_wr *)requests_get(requests, i);
        Py_ssize_t num_sge = core_sge_copy_list(self, item->sg_list, sge, method, i);

        if (num_sge >= 0 && wr_fill_recv(&wr[i], item->wr_id, limits->max_recv_sge, sge, (uint32_t)num_sge) != WR_OK) {
            core_raise_range_format(state, "request %zd: sg_list has %zd entries, more than the %u that the queue takes",
                                    i, num_sge, limits->max_recv_sge);
            num_sge = -1;
        }
        if (num_sge < 0) {
            core_error_set_index(state, i, 0);
            return -1;
        }
        if (i)
            wr[i - 1].next = &wr[i];
        sge += num_sge;
    }
    return 0;
}

/* Whether a chain of sends names nothing that another thread could take away if it had the GIL. */
static bool sends_are_self_contained(const struct wr_limits *limits, const void *chain, Py_ssize_t count)
{
    const struct ibv_send_wr *wr = chain;

    if (limits->qp_type == IBV_QPT_UD) /* address handles, which could be closed */
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (wr[i].send_flags & IBV_SEND_INLINE) /* memory that is read at once, and could be freed */
            return false;
    return true;
}

static bool receives_are_self_contained(const struct wr_limits *limits, const void *chain, Py_ssize_t count)
{
    (void)limits;
    (void)chain;
    (void)count;
    return true;
}

/* What differs between the two directions. */
struct direction {
    enum core_type class;
    const char *what; /* of the class, for messages */
    size_t wr_size;
    PyObject *(*list)(PyObject *item);
    int (*fill)(struct core_object *self, const struct wr_limits *limits, const struct requests *requests, void *chain,
                struct ibv_sge *sge, const char *method);
    bool (*self_contained)(const struct wr_limits *limits, const void *chain, Py_ssize_t count);
};

static const struct direction sends = {
    CORE_TYPE_SEND_WR, "a SendWR", sizeof(struct ibv_send_wr), send_list, fill_send, sends_are_self_contained,
};
static const struct direction receives = {
    CORE_TYPE_RECV_WR, "a RecvWR", sizeof(struct ibv_recv_wr), recv_list, fill_recv, receives_are_self_contained,
};

/* ---- the way to the library ---------------------------------------------------------------------------------------------- */

/* How many entries all requests have; -1 with an exception for one that is no request. */
static Py_ssize_t count_sges(struct core_state *state, const struct direction *direction,
                             const struct requests *requests)
{
    Py_ssize_t total = 0;

    for (Py_ssize_t i = 0; i < requests->count; i++) {
        PyObject *item = requests_get(requests, i);
        if (!core_is(state, item, direction->class))
            return raise_wrong_type(state, item, direction->what, i);
        total += core_sg_list_size(direction->list(item));
    }
    return total;
}

/* The submitter. Returns 0 or an errno; `ret_posted` is how many went, -1 where the provider does not say. */
static int submit(struct core_object *self, const struct post_queue *queue, const struct direction *direction,
                  char *chain, Py_ssize_t count, Py_ssize_t *ret_posted)
{
    void *bad_wr = NULL;
    int err;

    errno = 0;
    err = verbs_errno(queue->submit(self->handle, chain, &bad_wr));
    if (err) {
        char *bad = bad_wr, *end = chain + (size_t)count * direction->wr_size;
        *ret_posted = bad >= chain && bad < end ? (bad - chain) / (Py_ssize_t)direction->wr_size : -1;
    }
    return err;
}

static int fill_and_submit(struct core_object *self, const struct post_queue *queue, const struct direction *direction,
                           const struct wr_limits *limits, const struct requests *requests, char *chain,
                           struct ibv_sge *sge)
{
    Py_ssize_t posted = -1;
    int err;

    if (direction->fill(self, limits, requests, chain, sge, queue->method) < 0)
        return -1;
    if (requests->count > POST_LONG && direction->self_contained(limits, chain, requests->count)) {
        if (core_enter(self, queue->method) < 0)
            return -1;
        Py_BEGIN_ALLOW_THREADS
        err = submit(self, queue, direction, chain, requests->count, &posted);
        Py_END_ALLOW_THREADS
        core_exit(self);
    } else {
        err = submit(self, queue, direction, chain, requests->count, &posted);
    }
    return err ? raise_refused(self, err, queue, posted, requests->count) : 0;
}

/* One block for a chain that is too long for the stack: its requests, then its entries. NULL with MemoryError. */
static char *allocate_chain(size_t wr_size, Py_ssize_t wrs, Py_ssize_t sges, struct ibv_sge **ret_sge)
{
    char *block = malloc((size_t)wrs * wr_size + (size_t)sges * sizeof **ret_sge);

    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    *ret_sge = (struct ibv_sge *)(block + (size_t)wrs * wr_size);
    return block;
}

static int post(struct core_object *self, const struct post_queue *queue, const struct direction *direction,
                const struct wr_limits *limits, PyObject *wrs)
{
    union stack_wrs stack_wr;
    struct ibv_sge stack_sge[STACK_SGES], *sge = stack_sge;
    char *chain = (char *)&stack_wr;
    struct requests requests;
    Py_ssize_t sges;
    int result = -1;

    if (requests_open(&requests, wrs, self->state->types[direction->class]) < 0)
        return -1;
    if (self->open_in != core_generation) { /* asked after the iterable was read, which may have closed it */
        core_raise_closed(self, queue->method);
        goto done;
    }
    if (!requests.count) {
        result = 0;
        goto done;
    }
    sges = count_sges(self->state, direction, &requests);
    if (sges < 0)
        goto done;
    if ((size_t)requests.count > sizeof stack_wr / direction->wr_size || sges > STACK_SGES) {
        chain = allocate_chain(direction->wr_size, requests.count, sges, &sge);
        if (!chain)
            goto done;
    }
    result = fill_and_submit(self, queue, direction, limits, &requests, chain, sge);
    if (chain != (char *)&stack_wr)
        free(chain);
done:
    requests_close(&requests);
    return result;
}

int core_post_send(struct core_object *self, const struct wr_limits *limits, PyObject *wrs,
                   const struct post_queue *queue)
{
    return post(self, queue, &sends, limits, wrs);
}

int core_post_recv(struct core_object *self, const struct wr_limits *limits, PyObject *wrs,
                   const struct post_queue *queue)
{
    return post(self, queue, &receives, limits, wrs);
}
