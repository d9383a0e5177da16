/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of other processes that this one has mapped. */
#ifndef SOFTRDMA_FABRIC_PEER_H
#define SOFTRDMA_FABRIC_PEER_H

#include "../region.h"

/* The living region of a slot, this process's own included, attached if need be; NULL when there is none.
 * Give it back with peer_put. Attaching waits for the other process's service thread, half a second at most.
 */
struct region *peer_get(uint32_t slot);
void peer_put(struct region *r);

/* The same without attaching: only what is known already. */
struct region *peer_get_known(uint32_t slot);

/* Is any process of that region alive? */
bool peer_is_alive(struct region *r);

/* Attach every slot that is taken, for multicast, whose receivers nobody names; at most once in PEER_SCAN_NS.
 * Whoever joins a group waits that long, so that no sender can have missed him. */
#define PEER_SCAN_NS 10000000u
void peer_attach_all(void);

void peer_before_fork(void);
void peer_after_fork(bool child);

#endif
