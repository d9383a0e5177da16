/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts together: the start, the service thread's share, and what becomes of identifiers whose NIC has gone. */
#include "cm.h"

#include "../lock.h"
#include "../process.h"
#include "event.h"
#include "file.h"
#include "id.h"
#include "message.h"
#include "timer.h"
#include "watch.h"

void cm_init(struct region *r)
{
    lock_init(&r->cm.lock);
    for (uint32_t i = 0; i < CM_PROCS; i++)
        atomic_store(&r->cm.due[i], UINT64_MAX);
}

uint64_t cm_service(struct region *r)
{
    struct cm_outbox out = {0};
    uint64_t next;

    cm_file_settle(r);
    next = cm_watch_run(r, &out);
    cm_file_end_abandoned(r, &out);
    next = min_u64(next, cm_timer_run(r, &out));
    cm_outbox_deliver(&out);
    return next;
}

/* As kernel 7.3 does it: whoever is bound to the NIC hears of it, peers find the connection closed, and nothing but
 * destroying works afterwards. Requests that nobody has accepted go unheard. */
static void lose_device(struct region *r, struct cm_id *id, struct cm_outbox *out)
{
    switch (id->link) {
    case LINK_REQ_SENT:
    case LINK_REQ_RCVD:
    case LINK_REP_SENT:
    case LINK_REP_RCVD:
        cm_message_new(r, id, MESSAGE_REJ, out);
        break;
    case LINK_ESTABLISHED:
        cm_message_new(r, id, MESSAGE_DREQ, out);
        break;
    }
    if (out->last && out->last->type == MESSAGE_REJ)
        out->last->reason = REJ_CONSUMER_DEFINED;
    if (out->last) /* it was on its way before the NIC went */
        out->last->lost = false;
    cm_timer_clear(id);
    if (id->state == CM_LISTEN)
        atomic_fetch_sub(&r->cm.nlisteners, 1);
    id->link = LINK_IDLE;
    id->state = CM_REMOVED;
    cm_event_say(r, id, EVENT_DEVICE_REMOVAL, 0);
}

void cm_device_removed(struct region *r, uint32_t device)
{
    struct cm_outbox out = {0};

    lock_take(&r->cm.lock);
    for (uint32_t n = cm_id_next(r, 0); n != NONE; n = cm_id_next(r, n + 1)) {
        struct cm_id *id = &r->cm.id[n];

        if (id->device == (int)device && id->state != CM_REMOVED)
            lose_device(r, id, &out);
    }
    lock_give(&r->cm.lock);
    cm_outbox_deliver(&out);
}
