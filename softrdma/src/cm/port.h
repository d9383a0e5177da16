/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: which identifier has which, on all of the fabric, and who listens. */
#ifndef SOFTRDMA_CM_PORT_H
#define SOFTRDMA_CM_PORT_H

#include "../region.h"
#include "message.h"

/* These lock by themselves: conflicts are looked for in every region. number: of an identifier of the file. */
int cm_port_bind(struct region *r, uint32_t file, uint32_t number, const union cm_addr *addr);
int cm_port_listen(struct region *r, uint32_t file, uint32_t number, int32_t backlog);

/* The listener in this region for which the request is meant, or NULL; the caller holds cm.lock. */
struct cm_id *cm_port_listener(struct region *r, const struct cm_message *m);

#endif
