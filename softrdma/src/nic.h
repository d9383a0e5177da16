/* SPDX-License-Identifier: BSD-3-Clause */
/* What may change about a NIC while programs run: its link, its addresses, whether it works, whether it is
 * there. The state lies in the region; a process and the children it forks see the same. Nothing here changes
 * by itself: see fault/. */
#ifndef SOFTRDMA_NIC_H
#define SOFTRDMA_NIC_H

#include "region.h"

void nic_init(struct region *r); /* as device.h describes them */

bool nic_link_is_down(struct region *r, uint32_t device);
bool nic_is_removed(struct region *r, uint32_t device); /* r may be NULL: nobody has changed anything yet */
/* Neither broken nor removed. */
bool nic_works(struct region *r, uint32_t device);

/* What an entry of the GID table holds; false if nothing. */
bool nic_gid(struct region *r, uint32_t device, uint32_t index, uint8_t ret_gid[16]);
/* The NIC that has the address, or -1. */
int nic_by_gid(struct region *r, const uint8_t *gid);

/* Can the NIC reach that GID from its table entry sgid_index? 0, or what the kernel's address resolution
 * answers. */
int nic_resolve(struct region *r, uint32_t device, uint32_t sgid_index, const uint8_t *dgid,
                uint8_t ret_sgid[16]);

/* Can a packet leave from, or arrive at, that address of the NIC? One load while nothing has been changed. */
bool nic_carries_slowly(struct region *r, uint32_t device, const uint8_t *gid);

static inline bool nic_carries(struct region *r, uint32_t device, const uint8_t *gid)
{
    if (!atomic_load_explicit(&r->nic[device].disturbed, memory_order_relaxed))
        return true;
    return nic_carries_slowly(r, device, gid);
}

/* The changes, with their asynchronous events and the files that show them. Nothing happens when nothing
 * changes. The caller holds region.lock. */
void nic_set_link(struct region *r, uint32_t device, bool up);
/* The first half of that, under any lock: from now on packets pass or do not. */
void nic_begin_link(struct region *r, uint32_t device, bool up);
void nic_set_gid(struct region *r, uint32_t device, uint32_t index, const uint8_t *gid); /* NULL: empty */
/* It works no longer: an event, queue pairs in ERR, EIO to calls. */
void nic_fail(struct region *r, uint32_t device);
/* It is pulled out: an event, and what is open of it is of no use any more. */
void nic_remove(struct region *r, uint32_t device);
/* There again, working, linked up, with the addresses of the start. Contexts of a NIC that only broke work again, though
 * not their queue pairs; those of one that was pulled out stay dead. */
void nic_restore(struct region *r, uint32_t device);
/* Without a change of state: the event alone, in every context. */
void nic_raise(struct region *r, uint32_t device, uint32_t event);

#endif
