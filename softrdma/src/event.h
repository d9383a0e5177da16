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

/* enum ib_event_type, as ib_user_verbs.h lacks it. */
enum async_type {
    ASYNC_CQ_ERR,
    ASYNC_QP_FATAL,
    ASYNC_QP_REQ_ERR,
    ASYNC_QP_ACCESS_ERR,
    ASYNC_COMM_EST,
    ASYNC_SQ_DRAINED,
    ASYNC_PATH_MIG,
    ASYNC_PATH_MIG_ERR,
    ASYNC_DEVICE_FATAL,
    ASYNC_PORT_ACTIVE,
    ASYNC_PORT_ERR,
    ASYNC_LID_CHANGE,
    ASYNC_PKEY_CHANGE,
    ASYNC_SM_CHANGE,
    ASYNC_SRQ_ERR,
    ASYNC_SRQ_LIMIT,
    ASYNC_LAST_WQE,
    ASYNC_CLIENT_REREGISTER,
    ASYNC_GID_CHANGE,
};

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

/* type: enum async_type; counter: of the object, or NULL; object: type << 24 | index, 0 for a port. */
void event_async(struct region *r, uint32_t context, uint32_t object, uint64_t element, uint32_t type,
                 uint32_t *counter);

/* Takes back what was not read and answers how many events user space has seen or will see. */
uint32_t event_forget_completions(struct region *r, struct cq *cq);
uint32_t event_forget_async(struct region *r, uint32_t context, uint32_t object, uint64_t element,
                            uint32_t *counter);

/* A forked child: what threads of its parent were doing here has ended. */
void event_in_child(void);

/* For the service thread. The last ends this process's pipes of contexts that are of no use any more: whoever waits
 * gets an error. */
void event_write_pending(struct region *r);
void event_write_pending_async(struct region *r);
void event_end_dead(struct region *r);

#endif
