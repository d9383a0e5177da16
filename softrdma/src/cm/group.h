/* SPDX-License-Identifier: BSD-3-Clause */
/* Membership of multicast groups. librdmacm attaches the queue pair itself, by verbs. The caller holds the region's
 * cm.lock. */
#ifndef SOFTRDMA_CM_GROUP_H
#define SOFTRDMA_CM_GROUP_H

#include "../region.h"

/* 0 or errno; *ret_group: the number of the membership, whose numbers are not those of identifiers. */
int cm_group_join(struct region *r, struct cm_id *id, uint64_t uid, const union cm_addr *addr, uint32_t *ret_group);
int cm_group_leave(struct region *r, uint32_t file, uint32_t group, uint32_t *ret_reported);

#endif
