/* SPDX-License-Identifier: BSD-3-Clause */
/* EfaDeviceAttr, MRAttr, CQAttr and WQAttr: what the queries of libefa say, under the names of its structures. */
#ifndef EFA_ATTRS_H
#define EFA_ATTRS_H

#include "efadv.h"
#include "state.h"

PyObject *efa_device_attr_new(struct core_state *state, const struct dv_device_attr *attr);
PyObject *efa_mr_attr_new(struct core_state *state, const struct dv_mr_attr *attr);
PyObject *efa_cq_attr_new(struct core_state *state, const struct dv_cq_attr *attr);
PyObject *efa_wq_attr_new(struct core_state *state, const struct dv_wq_attr *attr);

#endif
