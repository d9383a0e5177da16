/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPInitAttr: what a queue pair is made from, as plain attributes; PD.create_qp() checks them. The class is the module's,
 * which lists its parameters in order: these rows and its own, each X(member, name, kind, doc).
 */
#ifndef CORE_QP_INIT_ATTR_H
#define CORE_QP_INIT_ATTR_H

#include <stdint.h>

#include "field.h"

struct core_qp_init_attr {
    PyObject_HEAD
    PyObject *send_cq;
    PyObject *recv_cq;
    uint32_t qp_type;
    uint32_t max_send_wr;
    uint32_t max_recv_wr;
    uint32_t max_send_sge;
    uint32_t max_recv_sge;
    uint32_t max_inline_data;
    char sq_sig_all;
};

#define CORE_QP_INIT_ATTR_CQS(X)                                                                                       \
    X(base.send_cq, send_cq, CORE_FIELD_OBJECT, "The CQ for sends.")                                                   \
    X(base.recv_cq, recv_cq, CORE_FIELD_OBJECT, "The CQ for receives.")
#define CORE_QP_INIT_ATTR_TYPE(X) X(base.qp_type, qp_type, CORE_FIELD_UNSIGNED, "The transport, a QPType value.")
#define CORE_QP_INIT_ATTR_SIZES(X)                                                                                     \
    X(base.max_send_wr, max_send_wr, CORE_FIELD_UNSIGNED, "Requests that the send queue must hold.")                   \
    X(base.max_recv_wr, max_recv_wr, CORE_FIELD_UNSIGNED, "Requests that the receive queue must hold.")                \
    X(base.max_send_sge, max_send_sge, CORE_FIELD_UNSIGNED, "Scatter/gather entries that a send request may have.")    \
    X(base.max_recv_sge, max_recv_sge, CORE_FIELD_UNSIGNED, "Scatter/gather entries that a receive request may have.") \
    X(base.max_inline_data, max_inline_data, CORE_FIELD_UNSIGNED, "Bytes that a request may carry inline.")
#define CORE_QP_INIT_ATTR_SIGNALING(X)                                                                                 \
    X(base.sq_sig_all, sq_sig_all, CORE_FIELD_BOOL, "Whether every send completes with a WC, signaled or not.")

/* What a module makes of its list: numbers AT_..., fields of its structure, names of parameters, rows of attributes. */
#define CORE_QP_INIT_ATTR_INDEX(member, name, kind, doc) AT_##name,
#define CORE_QP_INIT_ATTR_FIELD(member, name, kind, doc) CORE_FIELD_OF_KIND(qp_init_attr, member, #name, kind),
#define CORE_QP_INIT_ATTR_NAME(member, name, kind, doc) CORE_NAME_##name,
#define CORE_QP_INIT_ATTR_ROW(member, name, kind, doc)                                                                 \
    {#name, core_field_get, core_field_set, doc, (void *)&fields[AT_##name]},

/* A new object with the defaults and then the values that were given, in the record's order. */
PyObject *core_qp_init_attr_make(struct core_state *state, PyTypeObject *type, PyObject **values,
                                 const struct core_record *record, uint32_t qp_type);
void core_qp_init_attr_dealloc(PyObject *self, const struct core_record *record);
PyObject *core_qp_init_attr_repr(PyObject *self);

/* The functions and slots of the class; the module's own `make` comes before them. */
#define CORE_QP_INIT_ATTR_FUNCTIONS(record, params)                                                                    \
    static PyObject *qp_init_attr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)                            \
    {                                                                                                                  \
        return core_construct(type, args, kwargs, &params, make);                                                      \
    }                                                                                                                  \
    static int qp_init_attr_traverse(PyObject *self, visitproc visit, void *arg)                                       \
    {                                                                                                                  \
        Py_VISIT(Py_TYPE(self));                                                                                       \
        return core_record_traverse(self, visit, arg, &record);                                                        \
    }                                                                                                                  \
    static int qp_init_attr_clear(PyObject *self)                                                                      \
    {                                                                                                                  \
        return core_record_clear(self, &record);                                                                       \
    }                                                                                                                  \
    static void qp_init_attr_dealloc(PyObject *self)                                                                   \
    {                                                                                                                  \
        core_qp_init_attr_dealloc(self, &record);                                                                      \
    }

#define CORE_QP_INIT_ATTR_SLOTS                                                                                        \
    {Py_tp_new, qp_init_attr_new}, {Py_tp_dealloc, qp_init_attr_dealloc}, {Py_tp_traverse, qp_init_attr_traverse},     \
        {Py_tp_clear, qp_init_attr_clear}, {Py_tp_repr, core_qp_init_attr_repr}

#endif
