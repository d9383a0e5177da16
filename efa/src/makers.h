/* SPDX-License-Identifier: BSD-3-Clause */
/* What a Context and a PD of this package make, each in the file of what is made. */
#ifndef EFA_MAKERS_H
#define EFA_MAKERS_H

#include "pyapi.h"

PyObject *efa_context_create_comp_cntr(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *efa_context_create_cq(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *efa_context_create_cq_ex(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *efa_pd_create_ah(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *efa_pd_create_qp(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

#endif
