/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files of /dev/infiniband/rdma_cm. The program's descriptor is the reading end of a pipe, in which lies a byte for
 * each unread event: so poll, epoll, O_NONBLOCK, interruption by signals and several waiting threads are the real
 * kernel's own. */
#ifndef SOFTRDMA_CM_FILE_H
#define SOFTRDMA_CM_FILE_H

#include "../region.h"
#include "message.h"

/* A byte more, or less, in the file's pipe. The caller holds cm.lock. */
void cm_file_push(struct region *r, struct cm_file *f);
void cm_file_pull(struct region *r, struct cm_file *f);

/* Waits for an event and copies it to the program: 0 or errno. fd: the program's descriptor. Without locks. */
int cm_file_get_event(struct region *r, uint32_t file, int fd, uint64_t response, uint32_t room);

/* May this process, with its present identity, give commands? */
bool cm_file_allows(const struct cm_file *f);

/* Does any living process have it open? */
bool cm_file_is_held(struct region *r, uint32_t file);

/* For the service thread: bytes that are owed; files whose last holder has died. */
void cm_file_settle(struct region *r);
void cm_file_end_abandoned(struct region *r, struct cm_outbox *out);

#endif
