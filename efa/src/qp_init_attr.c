/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.QPInitAttr */
#include "qp_init_attr.h"

#include <infiniband/verbs.h>

#include "args.h"
#include "classes.h"

struct qp_init_attr {
    struct core_qp_init_attr base;
    PyObject *send_ops_flags;
    uint8_t sl;
    char unsolicited_write_recv;
    char inline_write;
    char processing_hints;
};

/* Every parameter in order: member, name, kind, meaning. */
#define QP_INIT_ATTR_FIELDS(X)                                                                                         \
    CORE_QP_INIT_ATTR_CQS(X)                                                                                           \
    CORE_QP_INIT_ATTR_TYPE(X)                                                                                          \
    CORE_QP_INIT_ATTR_SIZES(X)                                                                                         \
    CORE_QP_INIT_ATTR_SIGNALING(X)                                                                                     \
    X(send_ops_flags, send_ops_flags, CORE_FIELD_OBJECT,                                                               \
      "The operations to send: QPExSendOpsFlags bits; None for all that there are.")                                   \
    X(sl, sl, CORE_FIELD_UNSIGNED, "The service level; 0 is the device's own.")                                        \
    X(unsolicited_write_recv, unsolicited_write_recv, CORE_FIELD_BOOL,                                                 \
      "Whether a peer's write with immediate completes without using up a receive.")                                   \
    X(inline_write, inline_write, CORE_FIELD_BOOL, "Whether RDMA writes may carry their data inline.")                 \
    X(processing_hints, processing_hints, CORE_FIELD_BOOL, "Whether requests may carry processing hints.")

enum field_index {
#define INDEX(member, name, kind, doc) AT_##name,
    QP_INIT_ATTR_FIELDS(INDEX)
#undef INDEX
        FIELD_COUNT
};

static const struct core_field fields[] = {
#define FIELD(member, name, kind, doc) CORE_FIELD_OF_KIND(qp_init_attr, member, #name, kind),
    QP_INIT_ATTR_FIELDS(FIELD)
#undef FIELD
};
static const struct core_record record = {fields, FIELD_COUNT};

static const struct core_params new_params = {
    "QPInitAttr",
    FIELD_COUNT,
    2,
    {
#define NAME(member, name, kind, doc) CORE_NAME_##name,
        QP_INIT_ATTR_FIELDS(NAME)
#undef NAME
    }};

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    struct qp_init_attr *self = (struct qp_init_attr *)PyType_GenericAlloc(type, 0);

    if (!self)
        return NULL;
    core_qp_init_attr_defaults(&self->base, IBV_QPT_DRIVER);
    if (values[AT_qp_type] == Py_None)
        values[AT_qp_type] = NULL;
    for (int i = 0; self && i < FIELD_COUNT; i++)
        if (values[i] && core_field_store(state, (PyObject *)self, &fields[i], values[i]) < 0)
            Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *qp_init_attr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_construct(type, args, kwargs, &new_params, make);
}

static int qp_init_attr_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return core_record_traverse(self, visit, arg, &record);
}

static int qp_init_attr_clear(PyObject *self)
{
    return core_record_clear(self, &record);
}

static void qp_init_attr_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    core_record_clear(self, &record);
    core_watched_value_dealloc(self);
}

static PyObject *qp_init_attr_repr(PyObject *op)
{
    const struct core_qp_init_attr *self = (struct core_qp_init_attr *)op;

    return PyUnicode_FromFormat("<QPInitAttr qp_type=%u max_send_wr=%u max_recv_wr=%u max_send_sge=%u max_recv_sge=%u "
                                "max_inline_data=%u sq_sig_all=%d>",
                                self->qp_type, self->max_send_wr, self->max_recv_wr, self->max_send_sge,
                                self->max_recv_sge, self->max_inline_data, self->sq_sig_all);
}

static PyGetSetDef qp_init_attr_getset[] = {
#define ROW(member, name, kind, doc) {#name, core_field_get, core_field_set, doc, (void *)&fields[AT_##name]},
    QP_INIT_ATTR_FIELDS(ROW)
#undef ROW
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot qp_init_attr_slots[] = {
    {Py_tp_doc, "QPInitAttr(send_cq, recv_cq, qp_type=None, max_send_wr=128, max_recv_wr=128, max_send_sge=1, "
                "max_recv_sge=1, max_inline_data=0, sq_sig_all=False, send_ops_flags=None, sl=0, "
                "unsolicited_write_recv=False, inline_write=False, processing_hints=False)\n--\n\n"
                "What PD.create_qp() makes a queue pair from. struct ibv_qp_init_attr_ex, struct efadv_qp_init_attr."},
    {Py_tp_new, qp_init_attr_new},
    {Py_tp_dealloc, qp_init_attr_dealloc},
    {Py_tp_traverse, qp_init_attr_traverse},
    {Py_tp_clear, qp_init_attr_clear},
    {Py_tp_repr, qp_init_attr_repr},
    {Py_tp_getset, qp_init_attr_getset},
    {0, NULL},
};

const PyType_Spec efa_qp_init_attr_spec = {
    .basicsize = sizeof(struct qp_init_attr),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = qp_init_attr_slots,
};
