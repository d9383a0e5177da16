/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.QP: its states, its queries, and the class. qp_make.c makes one, qp_post.c gives it requests. */
#include "args.h"
#include "attrs.h"
#include "classes.h"
#include "comp_cntr.h"
#include "efa_context.h"
#include "efa_qp.h"
#include "error.h"
#include "verbs.h"

/* ---- the states --------------------------------------------------------------------------------------------------------- */

static int to_init(struct core_qp *self, uint32_t qkey, uint8_t port, uint16_t pkey_index, const char *method)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .qkey = qkey, .port_num = port, .pkey_index = pkey_index};

    return core_qp_modify(self, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, method);
}

static int to_rtr(struct core_qp *self, const char *method)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

    return core_qp_modify(self, &attr, IBV_QP_STATE, method);
}

/* rnr_retry: -1 where it is left to the device. */
static int to_rts(struct core_qp *self, uint32_t psn, int rnr_retry, const char *method)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = psn};
    uint32_t mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (rnr_retry >= 0) {
        attr.rnr_retry = (uint8_t)rnr_retry;
        mask |= IBV_QP_RNR_RETRY;
    }
    return core_qp_modify(self, &attr, mask, method);
}

/* An rnr_retry that was given, else -1; refused where the device cannot be told it. */
static int read_rnr_retry(struct core_qp *self, PyObject *value, const char *method, int *ret)
{
    struct efa_context *context = efa_context_of(&self->base);
    const struct dv_device_attr *device;
    uint64_t number;

    *ret = -1;
    if (!value || value == Py_None)
        return 0;
    if (core_integer(self->base.state, value, "rnr_retry", 0, 7, &number) < 0 ||
        core_check_open(&self->base, method) < 0 || efa_context_ask(context, method, &device) < 0)
        return -1;
    if (device && !(device->device_caps & DV_CAP_RNR_RETRY)) {
        core_raise_unsupported_format(self->base.state, "ibv_modify_qp", "rnr_retry=%d: device %s cannot be told it",
                                      (int)number, context->core.name);
        return -1;
    }
    *ret = (int)number;
    return 0;
}

static const struct core_params to_init_params = {
    "QP.to_init", 3, 1, {CORE_NAME_qkey, CORE_NAME_port, CORE_NAME_pkey_index}};

static PyObject *qp_to_init(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_qp *self = (struct core_qp *)op;
    struct core_state *state = self->base.state;
    uint16_t pkey_index = 0;
    PyObject *values[3];
    uint8_t port = 1;
    uint32_t qkey;

    if (core_parse(state, &to_init_params, args, nargs, kwnames, values) < 0 ||
        core_u32(state, values[0], "qkey", &qkey) < 0 || (values[1] && core_u8(state, values[1], "port", &port) < 0) ||
        (values[2] && core_u16(state, values[2], "pkey_index", &pkey_index) < 0) ||
        to_init(self, qkey, port, pkey_index, "to_init") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *qp_to_rtr(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    if (to_rtr((struct core_qp *)self, "to_rtr") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static const struct core_params to_rts_params = {"QP.to_rts", 2, 0, {CORE_NAME_psn, CORE_NAME_rnr_retry}};

static PyObject *qp_to_rts(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_qp *self = (struct core_qp *)op;
    struct core_state *state = self->base.state;
    PyObject *values[2];
    uint64_t psn = 0;
    int rnr_retry;

    if (core_parse(state, &to_rts_params, args, nargs, kwnames, values) < 0 ||
        (values[0] && core_integer(state, values[0], "psn", 0, WR_PSN_MOST, &psn) < 0) ||
        read_rnr_retry(self, values[1], "to_rts", &rnr_retry) < 0 ||
        to_rts(self, (uint32_t)psn, rnr_retry, "to_rts") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static const struct core_params prepare_params = {
    "QP.prepare", 4, 1, {CORE_NAME_qkey, CORE_NAME_port, CORE_NAME_psn, CORE_NAME_rnr_retry}};

static PyObject *qp_prepare(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_qp *self = (struct core_qp *)op;
    struct core_state *state = self->base.state;
    PyObject *values[4];
    uint64_t psn = 0;
    uint8_t port = 1;
    uint32_t qkey;
    int rnr_retry;

    if (core_parse(state, &prepare_params, args, nargs, kwnames, values) < 0 ||
        core_u32(state, values[0], "qkey", &qkey) < 0 || (values[1] && core_u8(state, values[1], "port", &port) < 0) ||
        (values[2] && core_integer(state, values[2], "psn", 0, WR_PSN_MOST, &psn) < 0) ||
        read_rnr_retry(self, values[3], "prepare", &rnr_retry) < 0)
        return NULL;
    if (to_init(self, qkey, port, 0, "prepare") < 0 || to_rtr(self, "prepare") < 0 ||
        to_rts(self, (uint32_t)psn, rnr_retry, "prepare") < 0)
        return NULL;
    Py_INCREF(op);
    return op;
}

/* ---- the verbs themselves ----------------------------------------------------------------------------------------------- */

static PyObject *qp_modify(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return core_qp_method_modify(self, args, kwargs, NULL);
}

static PyObject *qp_query(PyObject *op, PyObject *ignored)
{
    static const char *const names[] = {"qp_state", "qkey", "sq_psn", "port_num", "pkey_index", "rnr_retry", NULL};
    uint32_t mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_SQ_PSN | IBV_QP_CAP;

    (void)ignored;
    if (efa_context_of((struct core_object *)op)->attr.device_caps & DV_CAP_RNR_RETRY)
        mask |= IBV_QP_RNR_RETRY;
    return core_qp_method_query(op, mask, names);
}

static PyObject *qp_query_wqs(PyObject *op, PyObject *ignored)
{
    struct core_object *self = (struct core_object *)op;
    struct dv_wq_attr send = {0}, receive = {0};
    PyObject *first, *second;
    int err;

    (void)ignored;
    if (core_check_open(self, "query_wqs") < 0)
        return NULL;
    if (!efadv.query_qp_wqs)
        return core_raise_unsupported(self->state, &efadv_library, "efadv_query_qp_wqs");
    err = verbs_errno(efadv.query_qp_wqs(self->handle, &send, &receive, sizeof send)); /* asks nobody but the library */
    if (err)
        return core_raise(self->state, err, "efadv_query_qp_wqs", NULL);
    first = efa_wq_attr_new(self->state, &send);
    second = first ? efa_wq_attr_new(self->state, &receive) : NULL;
    if (!second) {
        Py_XDECREF(first);
        return NULL;
    }
    return Py_BuildValue("(NN)", first, second);
}

static PyObject *qp_attach_comp_cntr(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return efa_comp_cntr_attach((struct core_object *)self, &((struct efa_qp *)self)->counters, args, nargs, kwnames);
}

/* The queue pair goes before its counters. None of them leads back to it, so the collector need not know of them. */
static void qp_dealloc(PyObject *self)
{
    PyObject *counters = ((struct efa_qp *)self)->counters;

    core_object_dealloc(self);
    Py_XDECREF(counters);
}

static PyObject *qp_get_send_ops_flags(PyObject *op, void *ignored)
{
    struct efa_qp *self = (struct efa_qp *)op;

    (void)ignored;
    return core_check_open(&self->core.base, "send_ops_flags") < 0 ? NULL
                                                                   : PyLong_FromUnsignedLongLong(self->limits.ops);
}

static PyObject *qp_repr(PyObject *self)
{
    return core_qp_repr(self, ((struct core_qp *)self)->limits.qp_type == IBV_QPT_UD ? "UD" : "SRD");
}

/* ---- the class ----------------------------------------------------------------------------------------------------------- */

static PyMethodDef qp_methods[] = {
    CORE_LIFETIME_METHODS,
    CORE_METHOD("post_send", efa_qp_post_send,
                "post_send($self, wrs)\n--\n\n"
                "Post one SendWR, or every one of an iterable: all of them or none. ibv_wr_start, ibv_wr_complete."),
    CORE_METHOD("post_recv", efa_qp_post_recv,
                "post_recv($self, wrs)\n--\n\n"
                "Post one RecvWR, or every one of an iterable, to the receive queue. ibv_post_recv."),
    CORE_METHOD("prepare", qp_prepare,
                "prepare($self, qkey, port=1, psn=0, rnr_retry=None)\n--\n\n"
                "Take the queue pair from RESET to RTS and return it. ibv_modify_qp, three times."),
    CORE_METHOD("to_init", qp_to_init,
                "to_init($self, qkey, port=1, pkey_index=0)\n--\n\n"
                "Take the queue pair from RESET to INIT. ibv_modify_qp."),
    {"to_rtr", qp_to_rtr, METH_NOARGS,
     "to_rtr($self)\n--\n\nTake the queue pair from INIT to RTR. ibv_modify_qp."},
    CORE_METHOD("to_rts", qp_to_rts,
                "to_rts($self, psn=0, rnr_retry=None)\n--\n\n"
                "Take the queue pair from RTR to RTS. ibv_modify_qp."),
    {"modify", (PyCFunction)(void (*)(void))qp_modify, METH_VARARGS | METH_KEYWORDS,
     "modify($self, attr_mask, **fields)\n--\n\n"
     "Set those fields of struct ibv_qp_attr that attr_mask names. ibv_modify_qp."},
    {"query", qp_query, METH_NOARGS,
     "query($self)\n--\n\nReturn a dict of the fields of struct ibv_qp_attr that EFA has, and a QPCap. ibv_query_qp."},
    CORE_METHOD("attach_comp_cntr", qp_attach_comp_cntr,
                "attach_comp_cntr($self, cntr, ops)\n--\n\n"
                "Have a CompCntr count what completes, CompCntrOps bits say what. ibv_qp_attach_comp_cntr."),
    {"query_wqs", qp_query_wqs, METH_NOARGS,
     "query_wqs($self)\n--\n\nReturn the rings behind the send and the receive queue, as WQAttr. efadv_query_qp_wqs."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef qp_getset[] = {
    CORE_LIFETIME_GETSET,
    CORE_QP_GETSET,
    {"send_ops_flags", qp_get_send_ops_flags, NULL, "The operations that it was made for: QPExSendOpsFlags bits.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef qp_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot qp_slots[] = {
    {Py_tp_doc, "QP()\n--\n\nA queue pair; PD.create_qp() makes one."},
    {Py_tp_new, core_qp_no_constructor},
    {Py_tp_traverse, core_object_traverse},
    {Py_tp_dealloc, qp_dealloc},
    {Py_tp_repr, qp_repr},
    {Py_tp_methods, qp_methods},
    {Py_tp_getset, qp_getset},
    {Py_tp_members, qp_members},
    {0, NULL},
};

const PyType_Spec efa_qp_spec = {
    .basicsize = sizeof(struct efa_qp),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = qp_slots,
};
