/* SPDX-License-Identifier: BSD-3-Clause */
/* Noticing that a peer's process has died: the service thread watches the processes that hold the files of peers. */
#ifndef SOFTRDMA_CM_WATCH_H
#define SOFTRDMA_CM_WATCH_H

#include "../region.h"
#include "message.h"

#define CM_WATCHES 240 /* descriptors at most; beyond, and where there are none, it looks now and then */

/* The identifier has a peer, maybe of a process that nobody watches yet. The caller holds cm.lock. */
void cm_watch_peer(struct region *r, const struct cm_id *id);

/* For the service thread: looks after peers that are new, or have died; when to come again. */
uint64_t cm_watch_run(struct region *r, struct cm_outbox *out);

#endif
