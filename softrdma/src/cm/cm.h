/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA connection manager, /dev/infiniband/rdma_cm, as the rest of the host sees it. */
#ifndef SOFTRDMA_CM_CM_H
#define SOFTRDMA_CM_CM_H

#include "../region.h"

#define CM_MAJOR 10 /* of the device */
#define CM_MINOR 58

struct pollfd;

void cm_init(struct region *r); /* a region is made */

/* file.c: a new descriptor, or -errno; other descriptors of this process that mean the same file. */
int cm_open(int flags);
void cm_add_fd(uint32_t file, int fd);
void cm_fd_closes(void); /* before its number is given back */
void cm_fd_closed(uint32_t file);
/* A child that is about to be forked holds what this process holds; a process has died. The caller holds region.lock. */
void cm_inherit(struct region *r, uint32_t child);
void cm_drop_holder(struct region *r, uint32_t proc);

/* command.c: what a program writes to the descriptor. */
ssize_t cm_write(uint32_t file, int fd, const void *buf, size_t length);

const char *cm_call_name(size_t i); /* of the commands, one after another; NULL at the end */

/* A NIC was pulled out. */
void cm_device_removed(struct region *r, uint32_t device);

/* For the service thread: does what is due, and says when to come again; the descriptors that it is to wait for too
 * (watch.c), at most room of them. */
uint64_t cm_service(struct region *r);
uint32_t cm_watch_fds(struct pollfd *fds, uint32_t room);
void cm_in_child(void);

#endif
