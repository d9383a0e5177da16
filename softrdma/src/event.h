/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion and asynchronous events on their way to user space: through pipes, so that the descriptors can
 * be read and polled without our help. An event that another process causes is left in the region and written
 * by our service thread.
 *
 * The counts that a destroy reports are of events that user space can still acknowledge: those that were
 * written, less those taken back out of the pipe because nobody had read them. */
#ifndef SOFTRDMA_EVENT_H
#define SOFTRDMA_EVENT_H

#include "region.h"

/* The two kinds of descriptor. Each gives the reading end, or -errno. */
int event_open_async(struct region *r, uint32_t context);
int event_open_channel(struct region *r, uint32_t context, uint32_t *ret_channel);
void event_context_opened(uint32_t context);
void event_async_fd_closed(uint32_t context, int fd);
void event_channel_fd_closed(uint32_t channel, int fd);

/* A completion queue no longer refers to the channel; the caller holds region.lock. */
void event_channel_put(struct region *r, uint32_t channel);

/* A completion queue that was armed (and is so no longer) has something. Not under cq.lock: the reader wakes
 * at once and takes it. But under a lock of the queue pair, so that the completion queue cannot be destroyed
 * meanwhile. */
void event_completion(struct region *r, struct cq *cq);

/* type: enum ib_uverbs_async_event_type's numbers; counter: of the object, or NULL; object: type << 24 |
 * index. */
void event_async(struct region *r, uint32_t context, uint32_t object, uint64_t element, uint32_t type,
                 uint32_t *counter);

/* Takes back what was not read and answers how many events user space has seen or will see. */
uint32_t event_forget_completions(struct region *r, struct cq *cq);
uint32_t event_forget_async(struct region *r, uint32_t context, uint32_t object, uint64_t element,
                            uint32_t *counter);

/* For the service thread. */
void event_write_pending(struct region *r);
void event_write_pending_async(struct region *r);

#endif
