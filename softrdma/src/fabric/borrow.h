/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing into a pipe of another process without waking a thread of it. */
#ifndef SOFTRDMA_FABRIC_BORROW_H
#define SOFTRDMA_FABRIC_BORROW_H

#include "../region.h"

/* Writes to the channel's pipe by a copy of its owner's descriptor; false where that is not possible, and the
 * owner's service thread has to do it. Raises no SIGPIPE. */
bool borrow_write(struct region *r, uint32_t channel, const void *event, size_t size);

void borrow_before_fork(void);
void borrow_after_fork(void);

#endif
