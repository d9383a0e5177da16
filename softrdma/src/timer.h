/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs that wait for a time, and the service thread's part in it. */
#ifndef SOFTRDMA_TIMER_H
#define SOFTRDMA_TIMER_H

#include "region.h"

/* Have the model run the queue pair at that time (now_ns), by the service thread of qp.timer_proc; UINT64_MAX: it waits,
 * but not for a time; 0: it does not wait. The caller holds sq_lock. */
void timer_set(struct region *r, struct qp *qp, uint64_t until);

/* For the service thread: runs what is due; when to be called next. */
uint64_t timer_service(struct region *r);

#endif
