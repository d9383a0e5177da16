/* SPDX-License-Identifier: BSD-3-Clause */
/* What a queue pair is made from, as an object. See qp_init_attr.h. */
#include "qp_init_attr.h"

PyObject *core_qp_init_attr_make(struct core_state *state, PyTypeObject *type, PyObject **values,
                                 const struct core_record *record, uint32_t qp_type)
{
    struct core_qp_init_attr *self = (struct core_qp_init_attr *)PyType_GenericAlloc(type, 0);

    if (!self)
        return NULL;
    self->qp_type = qp_type;
    self->max_send_wr = self->max_recv_wr = 128;
    self->max_send_sge = self->max_recv_sge = 1;
    for (int i = 0; self && i < record->count; i++)
        if (values[i] && core_field_store(state, (PyObject *)self, &record->fields[i], values[i]) < 0)
            Py_CLEAR(self);
    return (PyObject *)self;
}

void core_qp_init_attr_dealloc(PyObject *self, const struct core_record *record)
{
    PyObject_GC_UnTrack(self);
    core_record_clear(self, record);
    core_watched_value_dealloc(self);
}

PyObject *core_qp_init_attr_repr(PyObject *op)
{
    const struct core_qp_init_attr *self = (struct core_qp_init_attr *)op;

    return PyUnicode_FromFormat("<QPInitAttr qp_type=%u max_send_wr=%u max_recv_wr=%u max_send_sge=%u max_recv_sge=%u "
                                "max_inline_data=%u sq_sig_all=%d>",
                                self->qp_type, self->max_send_wr, self->max_recv_wr, self->max_send_sge,
                                self->max_recv_sge, self->max_inline_data, self->sq_sig_all);
}
