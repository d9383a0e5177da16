/* SPDX-License-Identifier: BSD-3-Clause */
/* What identifiers wait for. The times are those of kernel 6.1, multiplied by SOFTRDMA_CM_TIMEOUTS. The caller holds the
 * region's cm.lock. */
#ifndef SOFTRDMA_CM_TIMER_H
#define SOFTRDMA_CM_TIMER_H

#include "../region.h"
#include "message.h"

#define CM_PACKET_LIFE 18 /* as path records say it: 4.096 us times two to that */

/* In milliseconds. A message is sent again until the sixteenth try has failed; while an answer is announced, less often. */
#define CM_RESEND_FIRST_MS 5900
#define CM_RESEND_MS 6650
#define CM_TRIES 16
#define CM_SIDR_RESEND_MS 4590
#define CM_ANSWER_MS 69000
#define CM_TIMEWAIT_MS 2050

/* Between kernels a request is under way for a while, and programs rely on it: perftest's client sends its second before
 * its server listens again. So one that finds nobody is held back once. */
#define CM_NOBODY_MS 20

void cm_timer_set(struct region *r, struct cm_id *id, enum cm_timer kind, uint64_t ms);
/* The same for a time that the program gave: not multiplied. */
void cm_timer_set_exactly(struct region *r, struct cm_id *id, enum cm_timer kind, uint64_t ms);
void cm_timer_clear(struct cm_id *id);

/* For the service thread, without the lock: does what is due among this process's identifiers, and says when to come
 * again. */
uint64_t cm_timer_run(struct region *r, struct cm_outbox *out);

#endif
