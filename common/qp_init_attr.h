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

/* What a new object holds before its arguments are stored. */
static inline void core_qp_init_attr_defaults(struct core_qp_init_attr *self, uint32_t qp_type)
{
    self->qp_type = qp_type;
    self->max_send_wr = self->max_recv_wr = 128;
    self->max_send_sge = self->max_recv_sge = 1;
}

#endif
