/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting timers, and what happens when they end. */
#include "timer.h"

#include "../config.h"
#include "../fabric/discovery.h"
#include "../lock.h"
#include "../process.h"
#include "connection.h"
#include "id.h"

/* NONE: it has died, and children of it hold the file. They can do nothing with it. */
static uint32_t proc_of(struct region *r, const struct cm_id *id)
{
    return r->cm.file[id->file].proc;
}

/* The service thread has to be woken only if it would come too late by itself. */
static void set(struct region *r, struct cm_id *id, enum cm_timer kind, uint64_t ns)
{
    uint32_t proc = proc_of(r, id);

    id->timer = kind;
    id->timer_at = now_ns() + ns;
    if (proc != NONE && id->timer_at < atomic_load(&r->cm.due[proc])) {
        atomic_store(&r->cm.due[proc], id->timer_at);
        fabric_wake(&r->proc[proc]);
    }
}

void cm_timer_set(struct region *r, struct cm_id *id, enum cm_timer kind, uint64_t ms)
{
    set(r, id, kind, (uint64_t)((double)ms * 1e6 * config.cm_timeouts));
}

void cm_timer_set_exactly(struct region *r, struct cm_id *id, enum cm_timer kind, uint64_t ms)
{
    set(r, id, kind, ms * 1000000);
}

void cm_timer_clear(struct cm_id *id)
{
    id->timer = TIMER_NONE;
}

uint64_t cm_timer_run(struct region *r, struct cm_outbox *out)
{
    uint64_t next = UINT64_MAX, now = now_ns(), due = atomic_load(&r->cm.due[process.proc]);

    if (due > now)
        return due;
    lock_take(&r->cm.lock);
    for (uint32_t n = cm_id_next(r, 0); n != NONE; n = cm_id_next(r, n + 1)) {
        struct cm_id *id = &r->cm.id[n];

        if (id->timer == TIMER_NONE || proc_of(r, id) != process.proc)
            continue;
        if (id->timer_at <= now) {
            enum cm_timer kind = id->timer;

            id->timer = TIMER_NONE;
            cm_time_is_up(r, id, kind, out);
        }
        if (id->timer != TIMER_NONE)
            next = min_u64(next, id->timer_at);
    }
    atomic_store(&r->cm.due[process.proc], next);
    lock_give(&r->cm.lock);
    return next;
}
