/* SPDX-License-Identifier: BSD-3-Clause */
/* From an address to a NIC and a path. */
#ifndef SOFTRDMA_CM_RESOLVE_H
#define SOFTRDMA_CM_RESOLVE_H

#include "../region.h"

/* Locks by itself, since it may have to bind. src: of family 0, or what to bind to unless that was done before. */
int cm_resolve_addr(struct region *r, uint32_t file, uint32_t number, const union cm_addr *src,
                    const union cm_addr *dst, uint32_t timeout_ms);

/* The caller holds cm.lock. */
int cm_resolve_route(struct region *r, struct cm_id *id, uint32_t timeout_ms);

#endif
