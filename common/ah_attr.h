/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AHAttr: an address vector: where a packet goes and how. struct ibv_ah_attr with the global route's fields beside
 * the others. The class is the module's, which chooses the parameters and their order.
 */
#ifndef CORE_AH_ATTR_H
#define CORE_AH_ATTR_H

#include <infiniband/verbs.h>

#include "state.h"

struct core_ah_attr {
    PyObject_HEAD
    struct ibv_ah_attr attr;
};

/* Whether an address vector can be used: a global route needs its destination. Returns 0, or -1 with ValueError. */
int core_ah_attr_check(const struct ibv_ah_attr *attr, const char *name);

#endif
