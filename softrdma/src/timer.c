/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens without a call: retries that are due, and receives posted to queue pairs that are in error
 * (posting one makes no system call, so somebody has to look). */
#include "timer.h"

#include "device.h"
#include "fabric/discovery.h"
#include "process.h"

#define LOOK_FIRST_NS 1000000u /* how often to look for such receives: less and less while there are none */
#define LOOK_LAST_NS 16000000u

static THREAD_LOCAL bool in_service; /* this thread computes when to look again by itself */

static void wake_timer(struct region *r, struct qp *qp)
{
    if (!in_service || qp->timer_proc != process.proc)
        fabric_wake(&r->proc[qp->timer_proc]);
}

void timer_set(struct region *r, struct qp *qp, uint64_t until)
{
    uint64_t was = atomic_load_explicit(&qp->wait_until, memory_order_relaxed);

    if (!was && !until)
        return;
    atomic_store(&qp->wait_until, until);
    if (!was) {
        atomic_fetch_add(&r->nwaiting, 1);
        wake_timer(r, qp);
    } else if (!until) {
        atomic_fetch_sub(&r->nwaiting, 1);
    } else {
        wake_timer(r, qp);
    }
}

static bool is_mine(struct region *r, struct qp *qp)
{
    return qp->timer_proc == process.proc || !process_alive(&r->proc[qp->timer_proc]);
}

uint64_t timer_service(struct region *r)
{
    static uint64_t interval = LOOK_FIRST_NS;
    static uint32_t known_errors;
    uint64_t next = UINT64_MAX, now = now_ns();
    uint32_t errors = atomic_load(&r->nerror);
    bool found = false;

    if (!errors && !atomic_load(&r->nwaiting))
        return UINT64_MAX;
    for (uint32_t w = 0; w < TABLE_BITS(MAX_QPS); w++) {
        for (uint64_t bits = atomic_load(&r->qp_bits[w]); bits; bits &= bits - 1) {
            struct qp *qp = &r->qp[w * 64 + (uint32_t)__builtin_ctzll(bits)];
            uint64_t until = atomic_load(&qp->wait_until);
            bool broken = atomic_load(&qp->state) == QPS_ERR;
            const struct device_model *m;

            if ((!until && !broken) || !is_mine(r, qp)) /* one that is just being made among them */
                continue;
            m = device_at((int)qp->device)->model;
            if (broken && m->look)
                found |= m->look(r, qp);
            if (until && until <= now) {
                in_service = true;
                m->run(r, qp);
                in_service = false;
                until = atomic_load(&qp->wait_until);
            }
            if (until)
                next = min_u64(next, until);
        }
    }
    if (!errors)
        return next;
    if (found || errors != known_errors)
        interval = LOOK_FIRST_NS;
    else if (interval < LOOK_LAST_NS)
        interval *= 2;
    known_errors = errors;
    return min_u64(next, now + interval);
}
