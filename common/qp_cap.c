/* SPDX-License-Identifier: BSD-3-Clause */
/* The QPCap class. See qp_cap.h. */
#include "qp_cap.h"

#include "field.h"

struct core_qp_cap {
    PyObject_HEAD
    struct ibv_qp_cap cap;
};

static const struct core_field fields[] = {
    CORE_FIELD(core_qp_cap, cap.max_send_wr, "max_send_wr"),
    CORE_FIELD(core_qp_cap, cap.max_recv_wr, "max_recv_wr"),
    CORE_FIELD(core_qp_cap, cap.max_send_sge, "max_send_sge"),
    CORE_FIELD(core_qp_cap, cap.max_recv_sge, "max_recv_sge"),
    CORE_FIELD(core_qp_cap, cap.max_inline_data, "max_inline_data"),
};
static const struct core_record record = {fields, 5};

PyObject *core_qp_cap_new(struct core_state *state, const struct ibv_qp_cap *cap)
{
    struct core_qp_cap *self = (struct core_qp_cap *)core_record_alloc(state, CORE_TYPE_QP_CAP);

    if (self)
        self->cap = *cap;
    return (PyObject *)self;
}

const struct ibv_qp_cap *core_qp_cap_get(PyObject *cap)
{
    return &((struct core_qp_cap *)cap)->cap;
}

CORE_CONSTANT_RECORD_FUNCTIONS(qp_cap, record)

static PyMethodDef qp_cap_methods[] = {CORE_RECORD_METHOD(qp_cap), {NULL, NULL, 0, NULL}};

static PyGetSetDef qp_cap_getset[] = {
    {"max_send_wr", core_field_get, NULL, "Requests that the send queue holds.", (void *)&fields[0]},
    {"max_recv_wr", core_field_get, NULL, "Requests that the receive queue holds.", (void *)&fields[1]},
    {"max_send_sge", core_field_get, NULL, "Scatter/gather entries of a send request.", (void *)&fields[2]},
    {"max_recv_sge", core_field_get, NULL, "Scatter/gather entries of a receive request.", (void *)&fields[3]},
    {"max_inline_data", core_field_get, NULL, "Bytes that a request can carry inline.", (void *)&fields[4]},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot qp_cap_slots[] = {
    {Py_tp_doc, "QPCap(max_send_wr=0, max_recv_wr=0, max_send_sge=0, max_recv_sge=0, max_inline_data=0)\n--\n\n"
                "The sizes of a queue pair, as struct ibv_qp_cap; QP.query() gives those that were granted."},
    CORE_RECORD_SLOTS(qp_cap, qp_cap_new, qp_cap_hash),
    {Py_tp_getset, qp_cap_getset},
    {0, NULL},
};

const PyType_Spec core_qp_cap_spec = {
    .basicsize = sizeof(struct core_qp_cap),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = qp_cap_slots,
};
