/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, finding and ending identifiers. */
#include "id.h"

#include <sys/random.h>

#include "../config.h"
#include "event.h"
#include "timer.h"
#include "watch.h"

/* The kernel hands out numbers anew, lowest first. */
static uint32_t take_number(struct region *r)
{
    struct table t = {0, 0};

    return table_take(&t, r->cm.id_bits, CM_IDS, 0);
}

struct cm_id *cm_id_new(struct region *r, uint32_t file)
{
    uint32_t n = take_number(r);
    struct cm_id *id;

    if (n == NONE)
        return NULL;
    id = &r->cm.id[n];
    *id = (struct cm_id){
        .used = 1, .generation = ++r->cm.generation, .file = file, .device = -1, .life = CM_PACKET_LIFE};
    if (getrandom(&id->psn, sizeof(id->psn), GRND_NONBLOCK) != sizeof(id->psn))
        id->psn = (uint32_t)now_ns();
    id->psn &= 0xffffff;
    return id;
}

int cm_id_find(struct region *r, uint32_t file, uint32_t number, struct cm_id **ret_id)
{
    if (number >= CM_IDS || !r->cm.id[number].used)
        return ENOENT;
    if (r->cm.id[number].file != file)
        return EINVAL;
    *ret_id = &r->cm.id[number];
    return 0;
}

uint32_t cm_id_next(struct region *r, uint32_t from)
{
    for (uint32_t w = from / 64; w < CM_IDS / 64; w++) {
        uint64_t bits = r->cm.id_bits[w];

        if (w == from / 64)
            bits &= ~UINT64_C(0) << from % 64;
        if (bits)
            return w * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return NONE;
}

struct cm_ref cm_id_ref(struct region *r, const struct cm_id *id)
{
    return (struct cm_ref){.instance = r->instance,
                           .slot = r->slot,
                           .id = cm_id_number(r, id),
                           .generation = id->generation,
                           .proc = r->cm.file[id->file].proc};
}

struct cm_id *cm_id_by_ref(struct region *r, const struct cm_ref *ref)
{
    struct cm_id *id = &r->cm.id[ref->id % CM_IDS];

    return ref->instance == r->instance && id->used && id->generation == ref->generation ? id : NULL;
}

/* What its peer hears: the kernel's cm_destroy_id. */
static void say_goodbye(struct region *r, const struct cm_id *id, struct cm_outbox *out)
{
    struct cm_message *m = NULL;

    switch (id->link) {
    case LINK_REQ_SENT:
    case LINK_REQ_RCVD:
    case LINK_REP_SENT:
    case LINK_REP_RCVD:
        m = cm_message_new(r, id, MESSAGE_REJ, out);
        if (m)
            m->reason = id->link == LINK_REQ_SENT ? REJ_TIMEOUT : REJ_CONSUMER_DEFINED;
        break;
    case LINK_ESTABLISHED:
        cm_message_new(r, id, MESSAGE_DREQ, out);
        break;
    case LINK_DREQ_RCVD:
        cm_message_new(r, id, MESSAGE_DREP, out);
        break;
    case LINK_SIDR_RCVD:
        m = cm_message_new(r, id, MESSAGE_SIDR_REP, out);
        if (m)
            m->reason = SIDR_REJECT;
        break;
    }
}

static void end_child(struct region *r, struct cm_id *id, void *arg)
{
    cm_id_end(r, id, arg);
}

void cm_id_end(struct region *r, struct cm_id *id, struct cm_outbox *out)
{
    uint32_t n = cm_id_number(r, id);

    say_goodbye(r, id, out);
    cm_timer_clear(id);
    if (id->state == CM_LISTEN)
        atomic_fetch_sub(&r->cm.nlisteners, 1);
    for (uint32_t g = 0; g < CM_GROUPS; g++) {
        if (r->cm.group[g].used && r->cm.group[g].id == n)
            r->cm.group[g].used = 0;
    }
    id->state = CM_IDLE;
    cm_event_drop(r, id, NONE, end_child, out);
    id->used = 0;
    r->cm.id_bits[n / 64] &= ~(UINT64_C(1) << n % 64);
}
