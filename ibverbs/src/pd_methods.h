/* SPDX-License-Identifier: BSD-3-Clause */
/* What a PD of this package makes, each in the file of what is made. */
#ifndef IBVERBS_PD_METHODS_H
#define IBVERBS_PD_METHODS_H

#include "pyapi.h"

PyObject *ibverbs_pd_create_ah(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *ibverbs_pd_create_qp(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *ibverbs_pd_create_srq(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

#endif
