/* SPDX-License-Identifier: BSD-3-Clause */
/* PortAttr: what ibv_query_port says of a port, under the names of struct ibv_port_attr. */
#ifndef CORE_PORT_ATTR_H
#define CORE_PORT_ATTR_H

#include <infiniband/verbs.h>

#include "state.h"

extern const PyType_Spec core_port_attr_spec;

PyObject *core_port_attr_new(struct core_state *state, const struct ibv_port_attr *attr);

#endif
