/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.QP: a queue pair, the library's builders behind it, and what requests on it must keep to. */
#ifndef EFA_EFA_QP_H
#define EFA_EFA_QP_H

#include "efa_wr.h"
#include "efadv.h"
#include "qp.h"

struct efa_qp {
    struct core_qp core;
    struct ibv_qp_ex *ex; /* the library's, behind the queue pair, for builders */
    struct dv_qp *dv;     /* NULL where it was not made for processing hints */
    struct efa_wr_limits limits;
    PyObject *counters; /* a list of those that it was attached to, which live as long as it; NULL without any */
};

/* QP.post_send() and QP.post_recv() */
PyObject *efa_qp_post_send(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *efa_qp_post_recv(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

#endif
