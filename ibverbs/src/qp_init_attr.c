/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.QPInitAttr: what a queue pair is made from. Plain attributes; PD.create_qp() checks them. */
#include <stdbool.h>

#include "args.h"
#include "classes.h"
#include "field.h"
#include "state.h"

struct qp_init_attr {
    PyObject_HEAD
    PyObject *send_cq;
    PyObject *recv_cq;
    PyObject *srq;
    uint32_t qp_type;
    uint32_t max_send_wr;
    uint32_t max_recv_wr;
    uint32_t max_send_sge;
    uint32_t max_recv_sge;
    uint32_t max_inline_data;
    char sq_sig_all;
};

static const struct core_field fields[] = {
    CORE_FIELD(qp_init_attr, qp_type, "qp_type"),
    CORE_FIELD(qp_init_attr, max_send_wr, "max_send_wr"),
    CORE_FIELD(qp_init_attr, max_recv_wr, "max_recv_wr"),
    CORE_FIELD(qp_init_attr, max_send_sge, "max_send_sge"),
    CORE_FIELD(qp_init_attr, max_recv_sge, "max_recv_sge"),
    CORE_FIELD(qp_init_attr, max_inline_data, "max_inline_data"),
    CORE_FIELD_OF_KIND(qp_init_attr, sq_sig_all, "sq_sig_all", CORE_FIELD_BOOL),
};

static const struct core_params new_params = {
    "QPInitAttr",
    10,
    2,
    {CORE_NAME_send_cq, CORE_NAME_recv_cq, CORE_NAME_qp_type, CORE_NAME_max_send_wr, CORE_NAME_max_recv_wr,
     CORE_NAME_max_send_sge, CORE_NAME_max_recv_sge, CORE_NAME_max_inline_data, CORE_NAME_srq, CORE_NAME_sq_sig_all}};

/* ---- attributes that hold objects: the closure is the member's offset ---------------------------------------------- */

static PyObject **slot_at(PyObject *self, void *offset)
{
    return (PyObject **)((char *)self + (uintptr_t)offset);
}

static PyObject *get_object(PyObject *self, void *offset)
{
    PyObject *value = *slot_at(self, offset);

    if (!value)
        Py_RETURN_NONE;
    Py_INCREF(value);
    return value;
}

static int set_object(PyObject *self, PyObject *value, void *offset)
{
    PyObject **slot = slot_at(self, offset), *old = *slot;

    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "it cannot be deleted");
        return -1;
    }
    Py_INCREF(value);
    *slot = value;
    Py_XDECREF(old);
    return 0;
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

static PyObject *qp_init_attr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    /* Which field the third and later arguments go to; srq, the ninth, is an object. */
    static const signed char field_of[10] = {-1, -1, 0, 1, 2, 3, 4, 5, -1, 6};
    struct core_state *state = core_state_of(type);
    struct qp_init_attr *self;
    PyObject *values[10];

    if (!state || core_parse_tuple(state, &new_params, args, kwargs, values) < 0)
        return NULL;
    self = (struct qp_init_attr *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->qp_type = 2; /* RC */
    self->max_send_wr = self->max_recv_wr = 128;
    self->max_send_sge = self->max_recv_sge = 1;

    for (int i = 0; i < new_params.count; i++) {
        if (values[i] && field_of[i] >= 0 &&
            core_field_store(state, (PyObject *)self, &fields[field_of[i]], values[i]) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    Py_INCREF(values[0]);
    self->send_cq = values[0];
    Py_INCREF(values[1]);
    self->recv_cq = values[1];
    Py_XINCREF(values[8]);
    self->srq = values[8];
    return (PyObject *)self;
}

static int qp_init_attr_traverse(PyObject *op, visitproc visit, void *arg)
{
    struct qp_init_attr *self = (struct qp_init_attr *)op;

    Py_VISIT(self->send_cq);
    Py_VISIT(self->recv_cq);
    Py_VISIT(self->srq);
    Py_VISIT(Py_TYPE(op));
    return 0;
}

static int qp_init_attr_clear(PyObject *op)
{
    struct qp_init_attr *self = (struct qp_init_attr *)op;

    Py_CLEAR(self->send_cq);
    Py_CLEAR(self->recv_cq);
    Py_CLEAR(self->srq);
    return 0;
}

static void qp_init_attr_dealloc(PyObject *op)
{
    PyObject_GC_UnTrack(op);
    qp_init_attr_clear(op);
    core_watched_value_dealloc(op);
}

static PyObject *qp_init_attr_repr(PyObject *op)
{
    struct qp_init_attr *self = (struct qp_init_attr *)op;

    return PyUnicode_FromFormat("<QPInitAttr qp_type=%u max_send_wr=%u max_recv_wr=%u max_send_sge=%u max_recv_sge=%u "
                                "max_inline_data=%u sq_sig_all=%d>",
                                self->qp_type, self->max_send_wr, self->max_recv_wr, self->max_send_sge,
                                self->max_recv_sge, self->max_inline_data, self->sq_sig_all);
}

#define OBJECT_ROW(name, doc) {#name, get_object, set_object, doc, (void *)offsetof(struct qp_init_attr, name)}
#define FIELD_ROW(name, index, doc) {#name, core_field_get, core_field_set, doc, (void *)&fields[index]}

static PyGetSetDef qp_init_attr_getset[] = {
    OBJECT_ROW(send_cq, "The CQ for sends."),
    OBJECT_ROW(recv_cq, "The CQ for receives."),
    OBJECT_ROW(srq, "The SRQ to receive from, or None; then the receive limits are ignored."),
    FIELD_ROW(qp_type, 0, "The transport, a QPType value."),
    FIELD_ROW(max_send_wr, 1, "Requests that the send queue must hold."),
    FIELD_ROW(max_recv_wr, 2, "Requests that the receive queue must hold."),
    FIELD_ROW(max_send_sge, 3, "Scatter/gather entries that a send request may have."),
    FIELD_ROW(max_recv_sge, 4, "Scatter/gather entries that a receive request may have."),
    FIELD_ROW(max_inline_data, 5, "Bytes that a request may carry inline."),
    FIELD_ROW(sq_sig_all, 6, "Whether every send completes with a WC, signaled or not."),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot qp_init_attr_slots[] = {
    {Py_tp_doc, "QPInitAttr(send_cq, recv_cq, qp_type=2, max_send_wr=128, max_recv_wr=128, max_send_sge=1, "
                "max_recv_sge=1, max_inline_data=0, srq=None, sq_sig_all=False)\n--\n\n"
                "What PD.create_qp() makes a queue pair from. struct ibv_qp_init_attr."},
    {Py_tp_new, qp_init_attr_new},
    {Py_tp_dealloc, qp_init_attr_dealloc},
    {Py_tp_traverse, qp_init_attr_traverse},
    {Py_tp_clear, qp_init_attr_clear},
    {Py_tp_repr, qp_init_attr_repr},
    {Py_tp_getset, qp_init_attr_getset},
    {0, NULL},
};

const PyType_Spec ibverbs_qp_init_attr_spec = {
    .basicsize = sizeof(struct qp_init_attr),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = qp_init_attr_slots,
};
