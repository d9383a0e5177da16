/* SPDX-License-Identifier: BSD-3-Clause */
/* The QPCap class. See qp_cap.h. */
#include "qp_cap.h"

#include "field.h"

struct qp_cap {
    PyObject_HEAD
    struct ibv_qp_cap attr;
};

#define QP_CAP(X, o)                                                                                                   \
    X(o, max_send_wr, max_send_wr, CORE_FIELD_UNSIGNED, "Requests that the send queue holds.")                         \
    X(o, max_recv_wr, max_recv_wr, CORE_FIELD_UNSIGNED, "Requests that the receive queue holds.")                      \
    X(o, max_send_sge, max_send_sge, CORE_FIELD_UNSIGNED, "Scatter/gather entries of a send request.")                 \
    X(o, max_recv_sge, max_recv_sge, CORE_FIELD_UNSIGNED, "Scatter/gather entries of a receive request.")              \
    X(o, max_inline_data, max_inline_data, CORE_FIELD_UNSIGNED, "Bytes that a request can carry inline.")

CORE_ATTR_CLASS(qp_cap, QP_CAP)

PyObject *core_qp_cap_new(struct core_state *state, const struct ibv_qp_cap *cap)
{
    return core_attr_new(state, CORE_TYPE_QP_CAP, cap, sizeof *cap);
}

const struct ibv_qp_cap *core_qp_cap_get(PyObject *cap)
{
    return &((struct qp_cap *)cap)->attr;
}

static PyType_Slot qp_cap_slots[] = {
    {Py_tp_doc, "QPCap(max_send_wr=0, max_recv_wr=0, max_send_sge=0, max_recv_sge=0, max_inline_data=0)\n--\n\n"
                "The sizes of a queue pair, as struct ibv_qp_cap; QP.query() gives those that were granted."},
    CORE_ATTR_SLOTS(qp_cap),
    {0, NULL},
};

const PyType_Spec core_qp_cap_spec = {
    .basicsize = sizeof(struct qp_cap),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = qp_cap_slots,
};
