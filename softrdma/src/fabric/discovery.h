/* SPDX-License-Identifier: BSD-3-Clause */
/* How processes find each other without a file or a server: abstract sockets named after the user, the fabric
 * and a slot number. The kernel gives a name to one process only and takes it back when the last holder is
 * gone. */
#ifndef SOFTRDMA_FABRIC_DISCOVERY_H
#define SOFTRDMA_FABRIC_DISCOVERY_H

#include "../region.h"

#define FABRIC_SLOTS 256

/* Claims the first free slot; 0 or errno. */
int fabric_claim(uint32_t *ret_slot, int *ret_listen_fd);

/* Hands the region to those who have connected; refuses other users. */
void fabric_answer(int listen_fd, struct region *r, int region_fd);

/* The region of a slot, mapped; NULL when nobody answers. */
struct region *fabric_attach(uint32_t slot);

/* Is there anybody at this slot? */
bool fabric_is_taken(uint32_t slot);

/* A lock for all of the fabric, for what has to be one thing and lies in many regions. Its holder may die. */
void fabric_lock(void);
void fabric_unlock(void);
void fabric_before_fork(void);
void fabric_after_fork(void);

/* The socket through which others wake one process, and its use. */
int fabric_bind_control(uint32_t slot); /* to which commands about faults are sent */
int fabric_bind_wake(uint32_t slot, uint32_t proc);
void fabric_wake(struct proc *p);
void fabric_drain_wake(int fd);

#endif
