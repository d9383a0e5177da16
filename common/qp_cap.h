/* SPDX-License-Identifier: BSD-3-Clause */
/* QPCap: the sizes of a queue pair, under the names of struct ibv_qp_cap. */
#ifndef CORE_QP_CAP_H
#define CORE_QP_CAP_H

#include <infiniband/verbs.h>

#include "state.h"

extern const PyType_Spec core_qp_cap_spec;

PyObject *core_qp_cap_new(struct core_state *state, const struct ibv_qp_cap *cap);

/* The structure inside of a QPCap object. */
const struct ibv_qp_cap *core_qp_cap_get(PyObject *cap);

#endif
