/* SPDX-License-Identifier: BSD-3-Clause */
/* PD: a protection domain, the parent of memory regions, queue pairs and address handles. */
#ifndef CORE_PD_H
#define CORE_PD_H

#include "object.h"

/* Context.alloc_pd() */
PyObject *core_context_method_alloc_pd(PyObject *self, PyObject *ignored);
PyObject *core_pd_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs);

#define CORE_ALLOC_PD_METHOD                                                                                           \
    {"alloc_pd", core_context_method_alloc_pd, METH_NOARGS,                                                            \
     "alloc_pd($self)\n--\n\nReturn a new protection domain. ibv_alloc_pd."}

#define CORE_PD_GETSET {"context", core_object_get_parent, NULL, "The Context it belongs to.", NULL}

#endif
