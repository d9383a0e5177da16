/* SPDX-License-Identifier: BSD-3-Clause */
/* This process: the region it uses, its place in it, its service thread, and what becomes of all that over
 * fork. */
#ifndef SOFTRDMA_PROCESS_H
#define SOFTRDMA_PROCESS_H

#include "region.h"

struct process {
    struct region *region; /* NULL until a device is opened */
    int region_fd;
    int listen_fd; /* shared with forked relatives: any of them answers for the region */
    int control_fd; /* the same, for commands about faults */
    int wake_fd;   /* this process's alone */
    uint32_t slot;
    uint32_t proc; /* index in region->proc */
    int pid;
    uint64_t pid_space;
    atomic_bool serving; /* the service thread runs */
};

extern struct process process;

/* What every answer needs, done once: when the library is loaded, or before, when the constructor of another library
 * asks for something of ours. */
void process_start(void);
void process_init(void); /* its part here */

/* Make sure that there is a region and that this process serves it; 0 or errno. Cheap when both hold. */
int process_join(void);

/* Is that process alive? True for this one. */
bool process_alive(struct proc *p);

static inline struct proc *process_self(void)
{
    return &process.region->proc[process.proc];
}

/* A vforked child runs in our memory with our descriptors' copies: it must change nothing here. */
bool process_is_borrowed(void);

/* Frees what processes that died have left in the region; the caller holds region.lock. */
void process_reap(struct region *r);

#endif
