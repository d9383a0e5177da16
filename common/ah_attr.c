/* SPDX-License-Identifier: BSD-3-Clause */
/* Address vectors. See ah_attr.h. */
#include "ah_attr.h"

#include <string.h>

int core_ah_attr_check(const struct ibv_ah_attr *attr, const char *name)
{
    static const union ibv_gid none;

    if (!attr->is_global || memcmp(&attr->grh.dgid, &none, sizeof none) != 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s has no dgid, which a global route (is_global=1) needs", name);
    return -1;
}

PyObject *core_ah_attr_copy(struct core_state *state, const struct ibv_ah_attr *attr)
{
    struct core_ah_attr *self = (struct core_ah_attr *)core_record_alloc(state, CORE_TYPE_AH_ATTR);

    if (self)
        self->attr = *attr;
    return (PyObject *)self;
}

void core_ah_attr_init(struct ibv_ah_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    attr->is_global = 1;
    attr->port_num = 1;
    attr->grh.hop_limit = 1;
}

PyObject *core_ah_attr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs, const struct core_record *record)
{
    struct core_state *state = core_state_of(type);
    struct core_ah_attr *self = state ? (struct core_ah_attr *)PyType_GenericAlloc(type, 0) : NULL;

    if (!self)
        return NULL;
    core_ah_attr_init(&self->attr);
    if (core_record_fill(state, (PyObject *)self, args, kwargs, record) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}
