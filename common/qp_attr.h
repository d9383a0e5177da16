/* SPDX-License-Identifier: BSD-3-Clause */
/* struct ibv_qp_attr: its fields by name, for modify() and query(). */
#ifndef CORE_QP_ATTR_H
#define CORE_QP_ATTR_H

#include <infiniband/verbs.h>

#include "state.h"

/* Sets one field by its name. Returns 0; -1 with TypeError for a name that the structure does not have. */
int core_qp_attr_set(struct core_state *state, struct ibv_qp_attr *attr, PyObject *name, PyObject *value);

/* Fields as a dictionary: those called `names` (ended by NULL), or all where that is NULL, without cap. */
PyObject *core_qp_attr_dict(struct core_state *state, const struct ibv_qp_attr *attr, const char *const *names);

#endif
