/* SPDX-License-Identifier: BSD-3-Clause */
/* DeviceAttr: what ibv_query_device says of a device, under the names of struct ibv_device_attr. */
#ifndef CORE_DEVICE_ATTR_H
#define CORE_DEVICE_ATTR_H

#include <infiniband/verbs.h>

#include "state.h"

extern const PyType_Spec core_device_attr_spec;

PyObject *core_device_attr_new(struct core_state *state, const struct ibv_device_attr *attr);

#endif
