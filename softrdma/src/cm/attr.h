/* SPDX-License-Identifier: BSD-3-Clause */
/* What identifiers know about queue pairs and paths: INIT_QP_ATTR, address vectors, and the answers to QUERY. The caller
 * holds the region's cm.lock. */
#ifndef SOFTRDMA_CM_ATTR_H
#define SOFTRDMA_CM_ATTR_H

#include "../region.h"

/* The attributes that the queue pair needs for that state: 0 or errno. */
int cm_attr_init(struct region *r, const struct cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *ret);

/* The same for a connection under way, and InfiniBand's way whatever the device. */
int cm_attr_connected(struct region *r, const struct cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *ret);

/* The path to the peer. */
void cm_attr_path(struct region *r, const struct cm_id *id, struct ib_uverbs_ah_attr *ret);
/* The label of its flow: the same on both sides. */
uint32_t cm_attr_flow(const struct cm_id *id);

#endif
