/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.QPInitAttr */
#include "qp_init_attr.h"

#include <infiniband/verbs.h>

#include "args.h"
#include "classes.h"

struct qp_init_attr {
    struct core_qp_init_attr base;
    PyObject *srq;
};

/* Every parameter in order: member, name, kind, meaning. */
#define QP_INIT_ATTR_FIELDS(X)                                                                                         \
    CORE_QP_INIT_ATTR_CQS(X)                                                                                           \
    CORE_QP_INIT_ATTR_TYPE(X)                                                                                          \
    CORE_QP_INIT_ATTR_SIZES(X)                                                                                         \
    X(srq, srq, CORE_FIELD_OBJECT, "The SRQ to receive from, or None; then the receive limits are ignored.")           \
    CORE_QP_INIT_ATTR_SIGNALING(X)

enum field_index { QP_INIT_ATTR_FIELDS(CORE_QP_INIT_ATTR_INDEX) FIELD_COUNT };

static const struct core_field fields[] = {QP_INIT_ATTR_FIELDS(CORE_QP_INIT_ATTR_FIELD)};
static const struct core_record record = {fields, FIELD_COUNT};

static const struct core_params new_params = {
    "QPInitAttr", FIELD_COUNT, 2, {QP_INIT_ATTR_FIELDS(CORE_QP_INIT_ATTR_NAME)}};

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    return core_qp_init_attr_make(state, type, values, &record, IBV_QPT_RC);
}

CORE_QP_INIT_ATTR_FUNCTIONS(record, new_params)

static PyGetSetDef qp_init_attr_getset[] = {
    QP_INIT_ATTR_FIELDS(CORE_QP_INIT_ATTR_ROW){NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot qp_init_attr_slots[] = {
    {Py_tp_doc, "QPInitAttr(send_cq, recv_cq, qp_type=2, max_send_wr=128, max_recv_wr=128, max_send_sge=1, "
                "max_recv_sge=1, max_inline_data=0, srq=None, sq_sig_all=False)\n--\n\n"
                "What PD.create_qp() makes a queue pair from. struct ibv_qp_init_attr."},
    CORE_QP_INIT_ATTR_SLOTS,
    {Py_tp_getset, qp_init_attr_getset},
    {0, NULL},
};

const PyType_Spec ibverbs_qp_init_attr_spec = {
    .basicsize = sizeof(struct qp_init_attr),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = qp_init_attr_slots,
};
