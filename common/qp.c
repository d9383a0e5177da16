/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs. See qp.h. */
#include "qp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "cause.h"
#include "context.h"
#include "cq.h"
#include "error.h"
#include "qp_attr.h"
#include "qp_rules.h"
#include "qp_cap.h"
#include "verbs.h"
#include "wc.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Its completions may outlive it: the queues are told before it goes, and afterwards. */
static void tell_cqs(struct core_qp *self, bool gone)
{
    struct core_cq *cqs[] = {(struct core_cq *)self->send_cq, (struct core_cq *)self->recv_cq};

    for (int i = 0; i < (cqs[0] == cqs[1] ? 1 : 2); i++) {
        __atomic_store_n(&cqs[i]->lost_qps, true, __ATOMIC_RELAXED);
        if (cqs[i]->source->leave)
            cqs[i]->source->leave(cqs[i], self->qp_num, gone);
    }
}

static int qp_destroy(struct core_object *self)
{
    struct core_context *context = core_context_of(self);
    int err;

    tell_cqs((struct core_qp *)self, false);
    core_events_hold(&context->async);
    err = verbs_errno(verbs.destroy_qp(self->handle));
    core_events_release(&context->async);
    if (!err)
        tell_cqs((struct core_qp *)self, true);
    return err;
}

static void qp_release(struct core_object *self, void *handle)
{
    struct core_context *context = core_context_of(self);

    if (!handle) {
        Py_CLEAR(((struct core_qp *)self)->first_error);
        return;
    }
    core_context_remove(context, core_pointer_key(handle), self);
    core_context_remove(context, core_qp_num_key(((struct core_qp *)self)->qp_num), self);
}

static const struct core_kind qp_kind = {CORE_KIND_QP, "ibv_destroy_qp", qp_destroy, NULL, qp_release};

PyObject *core_qp_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "PD.create_qp()");
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* An attribute of what a queue pair is to be made from. */
static PyObject *read_attr(struct core_state *state, PyObject *init, enum core_name name)
{
    return core_get_attr(state, init, name, "init_attr", "a QPInitAttr or an object with all of its attributes");
}

/* One of the objects that an init attribute names, borrowed from the PD's context; None gives NULL if it may. */
static int read_parent(struct core_object *pd, PyObject *init, enum core_name name, enum core_type type,
                       const char *text, bool may_lack, const char *method, struct core_object **ret)
{
    PyObject *value = may_lack ? PyObject_GetAttr(init, pd->state->names[name]) : read_attr(pd->state, init, name);
    struct core_object *object = (struct core_object *)value;

    *ret = NULL;
    if (!value) {
        if (!may_lack || !PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    if (value == Py_None && may_lack) {
        Py_DECREF(value);
        return 0;
    }
    if (core_check_argument(pd, value, type, text, type == CORE_TYPE_CQ ? "a CQ" : "an SRQ or None", method) < 0)
        goto err_value;
    if (core_context_of(object) != core_context_of(pd)) {
        PyErr_Format(PyExc_ValueError, "%s belongs to another Context than the PD", text);
        goto err_value;
    }
    *ret = object; /* a new reference */
    return 0;

err_value:
    Py_DECREF(value);
    return -1;
}

int core_qp_init_number(struct core_state *state, PyObject *init, enum core_name name, const char *text, uint32_t *ret)
{
    PyObject *value = read_attr(state, init, name);
    int failed = value ? core_u32(state, value, text, ret) : -1;

    Py_XDECREF(value);
    return failed;
}

int core_qp_init_truth(struct core_state *state, PyObject *init, enum core_name name, int *ret)
{
    PyObject *value = read_attr(state, init, name);

    *ret = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return *ret < 0 ? -1 : 0;
}

static int read_sizes(struct core_state *state, PyObject *init, struct ibv_qp_cap *ret)
{
    if (core_qp_init_number(state, init, CORE_NAME_max_send_wr, "max_send_wr", &ret->max_send_wr) < 0 ||
        core_qp_init_number(state, init, CORE_NAME_max_recv_wr, "max_recv_wr", &ret->max_recv_wr) < 0 ||
        core_qp_init_number(state, init, CORE_NAME_max_send_sge, "max_send_sge", &ret->max_send_sge) < 0 ||
        core_qp_init_number(state, init, CORE_NAME_max_recv_sge, "max_recv_sge", &ret->max_recv_sge) < 0 ||
        core_qp_init_number(state, init, CORE_NAME_max_inline_data, "max_inline_data", &ret->max_inline_data) < 0)
        return -1;
    return 0;
}

/* The transport; None stands for the package's own, where it has one. */
static int read_type(struct core_state *state, PyObject *init, uint32_t default_type, uint32_t *ret)
{
    PyObject *value = read_attr(state, init, CORE_NAME_qp_type);
    int failed = 0;

    if (value == Py_None && default_type)
        *ret = default_type;
    else
        failed = value ? core_u32(state, value, "qp_type", ret) : -1;
    Py_XDECREF(value);
    return failed;
}

struct core_qp *core_qp_new(struct core_object *pd, PyObject *init, uint32_t default_type,
                            struct ibv_qp_init_attr *ret_init, const char *method)
{
    struct core_object *send_cq = NULL, *recv_cq = NULL, *srq = NULL;
    struct core_state *state = pd->state;
    struct core_qp *self = NULL;
    uint32_t qp_type;

    memset(ret_init, 0, sizeof *ret_init);
    if (read_type(state, init, default_type, &qp_type) < 0 ||
        read_sizes(state, init, &ret_init->cap) < 0 ||
        core_qp_init_truth(state, init, CORE_NAME_sq_sig_all, &ret_init->sq_sig_all) < 0 ||
        read_parent(pd, init, CORE_NAME_send_cq, CORE_TYPE_CQ, "send_cq", false, method, &send_cq) < 0 ||
        read_parent(pd, init, CORE_NAME_recv_cq, CORE_TYPE_CQ, "recv_cq", false, method, &recv_cq) < 0 ||
        (state->types[CORE_TYPE_SRQ] &&
         read_parent(pd, init, CORE_NAME_srq, CORE_TYPE_SRQ, "srq", true, method, &srq) < 0))
        goto done;
    ret_init->qp_type = (enum ibv_qp_type)qp_type;
    if (srq) { /* the receives are the SRQ's */
        ret_init->cap.max_recv_wr = 0;
        ret_init->cap.max_recv_sge = 0;
    }

    self = (struct core_qp *)core_object_new(state, pd->module, CORE_TYPE_QP, &qp_kind);
    if (!self)
        goto done;
    core_object_add_parent(&self->base, pd);
    core_object_add_parent(&self->base, send_cq);
    core_object_add_parent(&self->base, recv_cq);
    if (srq)
        core_object_add_parent(&self->base, srq);
    self->send_cq = send_cq;
    self->recv_cq = recv_cq;
    self->srq = srq;
done:
    Py_XDECREF(send_cq);
    Py_XDECREF(recv_cq);
    Py_XDECREF(srq);
    return self;
}

int core_qp_begin(struct core_qp *self, struct ibv_qp_init_attr *init, const char *method)
{
    if (core_object_begin(&self->base, method) < 0)
        return -1;
    if (core_context_reserve(core_context_of(&self->base), 2) < 0) {
        core_object_finish(&self->base, NULL);
        return -1;
    }
    init->send_cq = self->send_cq->handle;
    init->recv_cq = self->recv_cq->handle;
    init->srq = self->srq ? self->srq->handle : NULL;
    return 0;
}

static PyObject *raise_not_created(struct core_context *context, int err, const char *verb, const char *detail,
                                   const struct ibv_qp_init_attr *init)
{
    struct ibv_device_attr limits;
    struct cause cause = {0};

    if (*detail)
        cause_add(&cause, "%s", detail);
    else if (core_context_limits(context, &limits))
        cause_of_qp_sizes(&cause, &limits, &init->cap);
    if (!cause.used) {
        cause_add(&cause, "qp_type=%d, max_send_wr=%u, max_recv_wr=%u, max_send_sge=%u, max_recv_sge=%u, "
                  "max_inline_data=%u", (int)init->qp_type, init->cap.max_send_wr, init->cap.max_recv_wr,
                  init->cap.max_send_sge, init->cap.max_recv_sge, init->cap.max_inline_data);
        if (err == EINVAL && init->cap.max_inline_data)
            cause_add(&cause, "the device does not tell its limit of max_inline_data: try less");
    }
    if (err == ENOMEM)
        cause_of_locked_memory(&cause);
    return core_raise(context->base.state, err, verb, cause.text);
}

PyObject *core_qp_finish(struct core_qp *self, struct ibv_qp *qp, int err, const char *verb, const char *detail,
                         const struct ibv_qp_init_attr *init)
{
    struct core_context *context = core_context_of(&self->base);

    if (!qp) {
        core_context_unreserve(context, 2);
        Py_INCREF(context); /* the object may hold the last reference */
        core_object_finish(&self->base, NULL);
        raise_not_created(context, err, verb, detail, init);
        Py_DECREF(context);
        return NULL;
    }

    self->limits = (struct wr_limits){
        .qp_type = init->qp_type,
        .max_send_wr = init->cap.max_send_wr,
        .max_recv_wr = init->cap.max_recv_wr,
        .max_send_sge = init->cap.max_send_sge,
        .max_recv_sge = init->cap.max_recv_sge,
        .max_inline_data = init->cap.max_inline_data,
    };
    self->sq_sig_all = init->sq_sig_all;
    self->qp_num = qp->qp_num;
    core_object_finish(&self->base, qp);
    core_context_put(context, core_pointer_key(qp), &self->base);
    core_context_put(context, core_qp_num_key(self->qp_num), &self->base);
    return (PyObject *)self;
}

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
    if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET) /* it begins anew */
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
