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

/* What fits on the stack: 4 KiB of requests (32 sends, 128 receives) and 2 KiB of entries. */
#define STACK_WR_BYTES 4096
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
            requests->from = core_list(wrs, "wrs", "a request or an iterable of requests");
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

int core_raise_fault(struct core_state *state, enum wr_fault fault, const struct wr_limits *limits, uint32_t opcode,
                     const struct ibv_sge *sge, uint32_t num_sge, Py_ssize_t index)
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
                                index, (unsigned long long)wr_total_length(sge, num_sge),
                                limits->max_inline_data);
        break;
    default:
        core_raise_range_format(state, "request %zd: sg_list has %u entries, more than the queue's max_send_sge=%u",
                                index, num_sge, limits->max_send_sge);
    }
    return -1;
}

static int raise_refused(struct core_object *self, int err, const struct core_post_queue *queue, Py_ssize_t posted,
                         Py_ssize_t count)
{
    char text[160] = "";

    queue->explain(self, err, text, sizeof text);
    if (queue->whole)
        core_raise_format(self->state, err, queue->verb, "none of %zd requests was taken%s", count, text);
    else if (posted >= 0)
        core_raise_format(self->state, err, queue->verb, "request %zd of %zd was refused%s", posted, count, text);
    else
        core_raise_format(self->state, err, queue->verb,
                          "the provider does not say which of %zd requests it refused%s", count, text);
    if (queue->whole) /* which one it was is not told, unless there is just one */
        core_error_set_index(self->state, count == 1 ? 0 : -1, 0);
    else
        core_error_set_index(self->state, posted, posted);
    return -1;
}

/* ---- the forms: from a request to its place in a chain ---------------------------------------------------------------- */

int core_send_ah(struct core_object *self, PyObject *item, Py_ssize_t index, struct ibv_ah **ret_ah)
{
    PyObject *ah = ((struct core_send_wr *)item)->ah;

    *ret_ah = NULL;
    if (!ah)
        return 0;
    if (((struct core_object *)ah)->open_in != core_generation) {
        core_raise_method(self, EBADF, "post_send", "request %zd: its ah is %R", index, ah);
        return -1;
    }
    *ret_ah = core_ah_handle(ah);
    return 0;
}

static int put_send(struct core_object *self, const struct wr_limits *limits, PyObject *item, Py_ssize_t index,
                    struct ibv_sge *sge, uint32_t num_sge, void *place)
{
    const struct wr_send *fields = &((struct core_send_wr *)item)->fields;
    struct ibv_send_wr *wr = place;
    enum wr_fault fault;
    struct ibv_ah *ah;

    if (core_send_ah(self, item, index, &ah) < 0)
        return -1;
    fault = wr_fill_send(wr, fields, limits, sge, num_sge, ah);
    if (fault != WR_OK)
        return core_raise_fault(self->state, fault, limits, fields->opcode, sge, num_sge, index);
    if (index)
        wr[-1].next = wr;
    return 0;
}

static int put_recv(struct core_object *self, const struct wr_limits *limits, PyObject *item, Py_ssize_t index,
                    struct ibv_sge *sge, uint32_t num_sge, void *place)
{
    struct ibv_recv_wr *wr = place;

    if (wr_fill_recv(wr, ((struct core_recv_wr *)item)->wr_id, limits->max_recv_sge, sge, num_sge) != WR_OK) {
        core_raise_range_format(self->state, "request %zd: sg_list has %u entries, more than the %u that the queue takes",
                                index, num_sge, limits->max_recv_sge);
        return -1;
    }
    if (index)
        wr[-1].next = wr;
    return 0;
}

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

bool core_receives_are_self_contained(const struct wr_limits *limits, const void *chain, Py_ssize_t count)
{
    (void)limits;
    (void)chain;
    (void)count;
    return true;
}

const struct core_post_form core_post_sends = {
    CORE_TYPE_SEND_WR, "a SendWR", sizeof(struct ibv_send_wr), offsetof(struct core_send_wr, sg_list),
    put_send,          sends_are_self_contained,
};
const struct core_post_form core_post_receives = {
    CORE_TYPE_RECV_WR, "a RecvWR", sizeof(struct ibv_recv_wr), offsetof(struct core_recv_wr, sg_list),
    put_recv,          core_receives_are_self_contained,
};

/* A request's entries, as it keeps them. */
static inline PyObject *entries_of(const struct core_post_form *form, PyObject *item)
{
    return *(PyObject **)((char *)item + form->sg_list);
}

/* The source: fills `chain` from the requests. Returns 0, or -1 with an exception. */
static int fill(struct core_object *self, const struct core_post_queue *queue, const struct wr_limits *limits,
                const struct requests *requests, char *chain, struct ibv_sge *sge)
{
    const struct core_post_form *form = queue->form;

    for (Py_ssize_t i = 0; i < requests->count; i++, chain += form->wr_size) {
        PyObject *item = requests_get(requests, i);
        Py_ssize_t num_sge = core_sge_copy_list(self, entries_of(form, item), sge, queue->method, i);

        if (num_sge < 0 || form->put(self, limits, item, i, sge, (uint32_t)num_sge, chain) < 0) {
            core_error_set_index(self->state, i, 0);
            return -1;
        }
        sge += num_sge;
    }
    return 0;
}

/* ---- the way to the library ---------------------------------------------------------------------------------------------- */

/* How many entries all requests have; -1 with an exception for one that is no request. */
static Py_ssize_t count_sges(struct core_state *state, const struct core_post_form *form, const struct requests *requests)
{
    Py_ssize_t total = 0;

    for (Py_ssize_t i = 0; i < requests->count; i++) {
        PyObject *item = requests_get(requests, i);
        if (!core_is(state, item, form->class))
            return raise_wrong_type(state, item, form->what, i);
        if (__builtin_add_overflow(total, core_sg_list_size(state, entries_of(form, item)), &total)) {
            PyErr_NoMemory(); /* one list in very many requests */
            return -1;
        }
    }
    return total;
}

/* The submitter. Returns 0 or an errno; `ret_posted` is how many went, -1 where the provider does not say. */
static int submit(struct core_object *self, const struct core_post_queue *queue, char *chain, Py_ssize_t count,
                  Py_ssize_t *ret_posted)
{
    Py_ssize_t size = (Py_ssize_t)queue->form->wr_size;
    void *bad_wr = NULL;
    int err;

    errno = 0;
    err = verbs_errno(queue->submit(self, chain, count, &bad_wr));
    if (err) {
        char *bad = bad_wr;
        *ret_posted = bad >= chain && bad < chain + count * size ? (bad - chain) / size : -1;
    }
    return err;
}

static int fill_and_submit(struct core_object *self, const struct core_post_queue *queue, const struct wr_limits *limits,
                           const struct requests *requests, char *chain, struct ibv_sge *sge)
{
    Py_ssize_t posted = -1;
    int err;

    if (fill(self, queue, limits, requests, chain, sge) < 0)
        return -1;
    if (requests->count > CORE_POST_LONG && queue->form->self_contained(limits, chain, requests->count)) {
        if (core_enter(self, queue->method) < 0)
            return -1;
        Py_BEGIN_ALLOW_THREADS
        err = submit(self, queue, chain, requests->count, &posted);
        Py_END_ALLOW_THREADS
        core_exit(self);
    } else {
        err = submit(self, queue, chain, requests->count, &posted);
    }
    return err ? raise_refused(self, err, queue, posted, requests->count) : 0;
}

/* The first comparison keeps the product from wrapping; a quotient would take longer than either. */
static inline bool fits_stack(Py_ssize_t wrs, size_t wr_size, Py_ssize_t sges)
{
    return wrs <= STACK_WR_BYTES && (size_t)wrs * wr_size <= STACK_WR_BYTES && sges <= STACK_SGES;
}

/* One block for a chain that is too long for the stack: its requests, then its entries. NULL with MemoryError. */
static char *allocate_chain(size_t wr_size, Py_ssize_t wrs, Py_ssize_t sges, struct ibv_sge **ret_sge)
{
    size_t wr_bytes, sge_bytes, bytes;
    char *block = NULL;

    if (!__builtin_mul_overflow((size_t)wrs, wr_size, &wr_bytes) &&
        !__builtin_mul_overflow((size_t)sges, sizeof **ret_sge, &sge_bytes) &&
        !__builtin_add_overflow(wr_bytes, sge_bytes, &bytes))
        block = malloc(bytes);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    *ret_sge = (struct ibv_sge *)(block + wr_bytes);
    return block;
}

int core_post(struct core_object *self, const struct wr_limits *limits, PyObject *wrs, const struct core_post_queue *queue)
{
    const struct core_post_form *form = queue->form;
    _Alignas(16) char stack_wr[STACK_WR_BYTES];
    struct ibv_sge stack_sge[STACK_SGES], *sge = stack_sge;
    struct requests requests;
    char *chain = stack_wr;
    Py_ssize_t sges;
    int result = -1;

    if (requests_open(&requests, wrs, self->state->types[form->class]) < 0)
        return -1;
    if (self->open_in != core_generation) { /* asked after the iterable was read, which may have closed it */
        core_raise_closed(self, queue->method);
        goto done;
    }
    if (!requests.count) {
        result = 0;
        goto done;
    }
    sges = count_sges(self->state, form, &requests);
    if (sges < 0)
        goto done;
    if (!fits_stack(requests.count, form->wr_size, sges)) {
        chain = allocate_chain(form->wr_size, requests.count, sges, &sge);
        if (!chain)
            goto done;
    }
    result = fill_and_submit(self, queue, limits, &requests, chain, sge);
    if (chain != stack_wr)
        free(chain);
done:
    requests_close(&requests);
    return result;
}
