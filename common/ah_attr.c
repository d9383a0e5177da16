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
