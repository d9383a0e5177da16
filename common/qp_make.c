/* SPDX-License-Identifier: BSD-3-Clause */
/* How a queue pair is made from what a QPInitAttr says, and how it goes. See qp.h. */
#include "qp.h"

#include <errno.h>
#include <string.h>

#include "args.h"
#include "cause.h"
#include "cq.h"
#include "error.h"
#include "verbs.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

void core_qp_tell_cqs(struct core_qp *self, bool gone)
{
    struct core_cq *cqs[] = {(struct core_cq *)self->send_cq, (struct core_cq *)self->recv_cq};

    for (int i = 0; i < (cqs[0] == cqs[1] ? 1 : 2); i++)
        if (cqs[i]->source->leave)
            cqs[i]->source->leave(cqs[i], self->qp_num, gone);
}

static void lose(struct core_object *cq)
{
    __atomic_store_n(&((struct core_cq *)cq)->lost_qps, true, __ATOMIC_RELAXED);
}

static int qp_destroy(struct core_object *self)
{
    struct core_context *context = core_context_of(self);
    int err;

    lose(((struct core_qp *)self)->send_cq);
    lose(((struct core_qp *)self)->recv_cq);
    core_qp_tell_cqs((struct core_qp *)self, false);
    core_events_hold(&context->async);
    err = verbs_errno(verbs.destroy_qp(self->handle));
    core_events_release(&context->async);
    if (!err)
        core_qp_tell_cqs((struct core_qp *)self, true);
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
    uint64_t type = default_type;
    int failed = 0;

    if (value != Py_None || !default_type) /* the kernel's command has 8 bits for it */
        failed = value ? core_integer(state, value, "qp_type", 0, UINT8_MAX, &type) : -1;
    *ret = (uint32_t)type;
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
