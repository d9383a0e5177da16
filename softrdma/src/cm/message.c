/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing messages, finding out where each goes, and having it received there. */
#include "message.h"

#include "../config.h"
#include "../fabric/discovery.h"
#include "../fabric/peer.h"
#include "../fault/fault.h"
#include "../lock.h"
#include "../nic.h"
#include "address.h"
#include "connection.h"
#include "id.h"
#include "port.h"

static struct cm_message *append(struct cm_outbox *out)
{
    struct cm_message *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    if (out->last)
        out->last->next = m;
    else
        out->first = m;
    out->last = m;
    return m;
}

/* Does somebody want it to be lost? */
static bool is_dropped(struct region *r, const struct cm_id *from)
{
    struct fault_site site = {.device = (uint32_t)from->device, .op = FAULT_OP_CM};

    return fault_at(r, FAULT_AT_MESSAGE, &site).kind == FAULT_DROP;
}

struct cm_message *cm_message_new(struct region *r, const struct cm_id *from, enum cm_message_type type,
                                  struct cm_outbox *out)
{
    struct cm_message *m;
    uint8_t sgid[16];

    if (!from->peer.instance && type != MESSAGE_REQ && type != MESSAGE_SIDR_REQ)
        return NULL;
    m = append(out);
    if (!m)
        return NULL;
    m->type = type;
    m->to = from->peer;
    m->from = cm_id_ref(r, from);
    cm_addr_wire_gid(r, &from->src, from->device, sgid);
    cm_addr_wire_gid(r, &from->dst, from->device, m->dgid);
    m->lost = from->device < 0 || !nic_carries(r, (uint32_t)from->device, sgid) || is_dropped(r, from);
    m->device = nic_by_gid(r, m->dgid);
    return m;
}

void cm_message_answer(const struct cm_message *m, enum cm_message_type type, uint32_t reason, struct cm_outbox *out)
{
    struct cm_message *reply = append(out);

    if (!reply)
        return;
    reply->type = type;
    reply->to = m->from;
    reply->reason = reason;
    reply->device = -1;
}

static bool arrives(struct region *r, const struct cm_message *m)
{
    return m->device < 0 || nic_carries(r, (uint32_t)m->device, m->dgid);
}

/* A request: true if somebody in that region listens, whatever then becomes of it. */
static bool offer(struct region *r, struct cm_message *m, struct cm_outbox *out)
{
    struct cm_id *listener = NULL;

    if (!r || !atomic_load(&r->cm.nlisteners))
        return false;
    lock_take(&r->cm.lock);
    listener = cm_port_listener(r, m);
    if (listener && arrives(r, m))
        cm_receive_request(r, listener, m, out);
    lock_give(&r->cm.lock);
    return listener;
}

/* First among the regions that are known; only if nobody there listens it costs a look around. */
static void deliver_request(struct cm_message *m, struct cm_outbox *out)
{
    for (int round = 0; round < 2; round++) {
        for (uint32_t slot = 0; slot < FABRIC_SLOTS; slot++) {
            struct region *r = round == 0 ? peer_get_known(slot) : peer_get(slot);
            bool taken = offer(r, m, out);

            peer_put(r);
            if (taken)
                return;
        }
    }
    if (!m->late)
        cm_message_answer(m, MESSAGE_NOBODY, 0, out);
    else if (m->type == MESSAGE_REQ)
        cm_message_answer(m, MESSAGE_REJ, REJ_INVALID_SERVICE_ID, out);
    else
        cm_message_answer(m, MESSAGE_SIDR_REP, SIDR_UNSUPPORTED, out);
}

static void deliver_to_id(struct cm_message *m, struct cm_outbox *out)
{
    struct region *r = peer_get(m->to.slot);
    struct cm_id *id = NULL;
    bool lost = false;

    if (r && r->instance == m->to.instance) {
        lock_take(&r->cm.lock);
        id = cm_id_by_ref(r, &m->to);
        lost = id && !arrives(r, m);
        if (id && !lost)
            cm_receive(r, id, m, out);
        lock_give(&r->cm.lock);
    }
    peer_put(r);
    /* The kernel answers for identifiers that are no more. */
    if (!id && m->type == MESSAGE_DREQ)
        cm_message_answer(m, MESSAGE_DREP, 0, out);
    else if (!id && m->type == MESSAGE_REP)
        cm_message_answer(m, MESSAGE_REJ, REJ_CONSUMER_DEFINED, out);
}

void cm_outbox_deliver(struct cm_outbox *out)
{
    int saved = errno;

    while (out->first) {
        struct cm_message *m = out->first;

        out->first = m->next;
        if (!out->first)
            out->last = NULL;
        if (m->lost)
            TRACE("a message of the connection manager is lost");
        else if (m->type == MESSAGE_REQ || m->type == MESSAGE_SIDR_REQ)
            deliver_request(m, out);
        else
            deliver_to_id(m, out);
        free(m);
    }
    errno = saved;
}
