/* SPDX-License-Identifier: BSD-3-Clause */
/* AH: an address handle, which a datagram names its destination by. */
#ifndef CORE_AH_H
#define CORE_AH_H

#include <infiniband/verbs.h>

#include "object.h"

static inline struct ibv_ah *core_ah_handle(PyObject *ah)
{
    return ((struct core_object *)ah)->handle;
}

/* Makes an address handle in a protection domain; `method` is what the program called ("create_ah"). */
PyObject *core_ah_create(struct core_object *pd, struct ibv_ah_attr *attr, const char *method);
PyObject *core_ah_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs);

#define CORE_AH_GETSET {"pd", core_object_get_parent, NULL, "The PD it belongs to.", NULL}

#endif
