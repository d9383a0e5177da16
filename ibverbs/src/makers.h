/* SPDX-License-Identifier: BSD-3-Clause */
/* What a Context and a PD of this package make, each in the file of what is made. */
#ifndef IBVERBS_MAKERS_H
#define IBVERBS_MAKERS_H

#include "pyapi.h"

PyObject *ibverbs_context_create_cq(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *ibverbs_pd_create_ah(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *ibverbs_pd_create_qp(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *ibverbs_pd_create_srq(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

#endif
