/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing into a pipe of another process without waking a thread of it. */
#ifndef SOFTRDMA_FABRIC_BORROW_H
#define SOFTRDMA_FABRIC_BORROW_H

#include "../region.h"

/* A pipe that belongs to something in a region. */
struct borrow_pipe {
    uint32_t key; /* tells it from the region's others: the index of a channel, or what stands above those */
    uint32_t proc;
    int write_fd; /* in that process */
    const _Atomic uint32_t *generation; /* of what is at that place */
    const _Atomic uint32_t *closed;     /* said before the owner gives the number back */
};

/* Writes to the pipe by a copy of its owner's descriptor; false where that is not possible, and the owner's service
 * thread has to do it. Raises no SIGPIPE. `count`, if any, is of the events written; it is raised before the write, which
 * a process that is killed meanwhile completes. */
bool borrow_write(struct region *r, const struct borrow_pipe *pipe, const void *event, size_t size,
                  _Atomic uint32_t *count);

void borrow_before_fork(void);
void borrow_after_fork(void);

#endif
