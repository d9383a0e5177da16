/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving bytes between address spaces: what the wire and the DMA engines of two NICs would do. */
#ifndef SOFTRDMA_FABRIC_COPY_H
#define SOFTRDMA_FABRIC_COPY_H

#include "../region.h"

struct segment {
    uint64_t addr, length;
    struct proc *proc; /* whose memory; NULL: this process's */
};

enum copy_result {
    COPY_DONE,
    COPY_SOURCE_FAULT, /* that memory is not there (any more) */
    COPY_TARGET_FAULT,
    COPY_GONE, /* the other process has died */
};

/* Copies length bytes from the source segments to the target segments; both hold at least that many, and none
 * is empty. */
enum copy_result copy_segments(const struct segment *target, const struct segment *source, uint64_t length);

/* The proc for a segment in that process's memory: NULL if it is this one. */
static inline struct proc *copy_proc(struct region *r, uint32_t proc, struct region *mine, uint32_t me)
{
    return r == mine && proc == me ? NULL : &r->proc[proc % MAX_PROCS];
}

#endif
