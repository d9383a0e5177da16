/* SPDX-License-Identifier: BSD-3-Clause */
/* Which descriptors of this process are ours, and what for. One atomic load answers for a descriptor that is
 * not. */
#ifndef SOFTRDMA_FD_H
#define SOFTRDMA_FD_H

#include "base.h"

enum fd_kind {
    FD_OTHER,    /* the program's */
    FD_COMMAND,  /* /dev/infiniband/uverbsN: the index of a context */
    FD_ASYNC,    /* its asynchronous events: the index of a context */
    FD_CHANNEL,  /* a completion channel: its index */
    FD_CM,       /* /dev/infiniband/rdma_cm: the index of an open file */
    FD_INTERNAL, /* the host's own; the program cannot close it */
};

#define FD_LIMIT 65536

extern _Atomic uint32_t fd_table[FD_LIMIT]; /* kind << 24 | index */

static inline enum fd_kind fd_kind(int fd, uint32_t *ret_index)
{
    uint32_t e;

    if (fd < 0 || fd >= FD_LIMIT)
        return FD_OTHER;
    e = atomic_load_explicit(&fd_table[fd], memory_order_acquire);
    *ret_index = e & 0xffffff;
    return (enum fd_kind)(e >> 24);
}

static inline void fd_set_kind(int fd, enum fd_kind kind, uint32_t index)
{
    if (fd >= 0 && fd < FD_LIMIT)
        atomic_store_explicit(&fd_table[fd], (uint32_t)kind << 24 | index, memory_order_release);
}

/* Moves a descriptor of ours out of the way of the program, marks it internal and close-on-exec; returns it.
 */
int fd_make_internal(int fd);
void fd_close_internal(int fd);

#endif
