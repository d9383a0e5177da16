/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying where one process may not reach into another's memory (containers, hardened kernels): a thread of
 * the owner does it, through a box in the shared region. */
#ifndef SOFTRDMA_FABRIC_AGENT_H
#define SOFTRDMA_FABRIC_AGENT_H

#include "../region.h"

/* Client side: between `mine` and `theirs` in p's memory. 0, EFAULT, or ESRCH when p has died or does not
 * answer. */
int agent_move(struct proc *p, bool write, uint64_t theirs, void *mine, uint64_t length);

/* Owner side: start the thread if it does not run. */
void agent_start(void);

#endif
