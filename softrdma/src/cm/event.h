/* SPDX-License-Identifier: BSD-3-Clause */
/* Events on their way to the program: a list for each open file, and a byte in its pipe for each. The caller holds the
 * region's cm.lock. */
#ifndef SOFTRDMA_CM_EVENT_H
#define SOFTRDMA_CM_EVENT_H

#include "../region.h"

/* An event for the identifier, not yet on the list; NULL when it is to have none (nobody has accepted it) or when there
 * is no room. */
struct cm_event *cm_event_new(struct region *r, const struct cm_id *id, enum cm_event_type type, int status);
/* The same whether or not anybody has accepted it. */
struct cm_event *cm_event_for(struct region *r, const struct cm_id *id, enum cm_event_type type, int status);

/* Puts it on the list of the identifier's file; NULL is allowed. */
void cm_event_post(struct region *r, struct cm_event *e);

/* Both in one, for events that say no more. */
void cm_event_say(struct region *r, const struct cm_id *id, enum cm_event_type type, int status);

/* Private data of the given length, of which only the first bytes were sent: the rest arrives as zeros. NULL is
 * allowed. */
void cm_event_set_data(struct cm_event *e, uint32_t length, const struct rdma_ucm_conn_param *from);
void cm_event_set_datagram(struct cm_event *e, uint32_t length, const struct rdma_ucm_conn_param *from);

/* Takes the first one off, having copied it out; ENOENT: there is none. EFAULT: it stays. ret_about: the identifier, where
 * its queue pair has to follow (iwarp.h); its device is -1 otherwise. */
int cm_event_read(struct region *r, struct cm_file *f, uint64_t response, uint32_t room, uint32_t *ret_event,
                  struct cm_id *ret_about);

/* Takes those for an identifier off its file's list (group: those of that membership only, or NONE) and either drops
 * them, or moves them to another file. child: called with each identifier whose request was dropped. */
void cm_event_drop(struct region *r, const struct cm_id *id, uint32_t group,
                   void (*child)(struct region *r, struct cm_id *id, void *arg), void *arg);
void cm_event_move(struct region *r, const struct cm_id *id, uint32_t from, uint32_t to);

#endif
