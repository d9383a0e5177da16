/* SPDX-License-Identifier: BSD-3-Clause */
/* The state machine of connections. Datagrams' part is in datagram.c. */
#include "connection.h"

#include "../config.h"
#include "../device.h"
#include "../process.h"
#include "datagram.h"
#include "event.h"
#include "id.h"
#include "iwarp.h"
#include "timer.h"
#include "watch.h"

/* Private data, as it arrives: what was not sent is zeros. */
enum { REQ_DATA = 56, REP_DATA = 196, REJ_DATA = 148 };
enum { MOST_RETRIES = 7 };

static uint8_t retries(uint8_t asked)
{
    return asked > MOST_RETRIES ? MOST_RETRIES : asked;
}

static bool is_datagram(const struct cm_id *id)
{
    return id->qp_type == IB_UVERBS_QPT_UD;
}

/* How much of it the other side sees: all that the message has room for, or, on iWARP, what was sent. */
static uint32_t shown(const struct cm_id *id, uint32_t room, const struct rdma_ucm_conn_param *data)
{
    return cm_is_iwarp(id) ? data->private_data_len : room;
}

/* Nobody listens: on iWARP connect itself says so, and may be tried again. */
static void say_rejected(struct region *r, struct cm_id *id, uint32_t reason, const struct rdma_ucm_conn_param *data)
{
    struct cm_event *e;

    if (cm_is_iwarp(id) && reason == REJ_INVALID_SERVICE_ID) {
        id->refused = 1;
        id->state = CM_ROUTE_RESOLVED;
        id->link = LINK_NONE;
        return;
    }
    if (cm_is_iwarp(id) && data->private_data_len > CM_IWARP_DATA)
        e = cm_event_new(r, id, EVENT_CONNECT_ERROR, -EINVAL);
    else
        e = cm_event_new(r, id, EVENT_REJECTED, cm_is_iwarp(id) ? -ECONNRESET : (int)reason);
    cm_event_set_data(e, shown(id, REJ_DATA, data), data);
    cm_event_post(r, e);
}

static void say_disconnected(struct region *r, struct cm_id *id, int status)
{
    if (id->state != CM_CONNECT)
        return;
    id->state = CM_DISCONNECT;
    cm_event_say(r, id, EVENT_DISCONNECTED, status);
}

static void enter_timewait(struct region *r, struct cm_id *id)
{
    id->link = LINK_TIMEWAIT;
    cm_timer_set(r, id, TIMER_TIMEWAIT, CM_TIMEWAIT_MS);
}

static void go_idle(struct cm_id *id)
{
    id->link = LINK_IDLE;
    cm_timer_clear(id);
}

/* ---- what is sent ---- */

static void send_req(struct region *r, struct cm_id *id, bool late, struct cm_outbox *out)
{
    struct cm_message *m =
        cm_message_new(r, id, is_datagram(id) ? MESSAGE_SIDR_REQ : MESSAGE_REQ, out);

    if (is_datagram(id))
        cm_timer_set(r, id, TIMER_RESEND, CM_SIDR_RESEND_MS);
    else
        cm_timer_set(r, id, TIMER_RESEND, id->tries ? CM_RESEND_MS : CM_RESEND_FIRST_MS);
    if (!m)
        return;
    m->again = id->tries > 0;
    m->late = late;
    m->ps = id->ps;
    m->qp_type = id->qp_type;
    m->psn = id->psn;
    m->tos = id->tos;
    m->life = id->life;
    m->src = id->src;
    m->dst = id->dst;
    m->param = id->param;
}

int cm_connect(struct region *r, struct cm_id *id, const struct rdma_ucm_conn_param *param, struct cm_outbox *out)
{
    if (!param->valid || id->state != CM_ROUTE_RESOLVED)
        return EINVAL;
    if (!cm_is_iwarp(id) && param->private_data_len > (is_datagram(id) ? SIDR_REQ_DATA : REQ_DATA))
        return EINVAL;
    if (cm_is_iwarp(id) && !cm_iwarp_has_qp(r, id, param->qp_num & 0xffffff))
        return EINVAL;
    id->param = *param;
    id->param.qp_num &= 0xffffff;
    id->param.retry_count = retries(param->retry_count);
    id->param.rnr_retry_count = retries(param->rnr_retry_count);
    id->qpn = id->param.qp_num;
    id->rr = param->responder_resources;
    id->idp = param->initiator_depth;
    id->retry = id->param.retry_count;
    id->rnr = id->param.rnr_retry_count;
    id->life = id->has_timeout && id->timeout ? (uint8_t)(id->timeout - 1) : CM_PACKET_LIFE;
    id->state = CM_CONNECT;
    id->link = is_datagram(id) ? LINK_SIDR_SENT : LINK_REQ_SENT;
    id->tries = 0;
    id->refused = 0;
    if (cm_is_iwarp(id) && param->private_data_len > CM_IWARP_DATA) { /* the other side takes it for garbage */
        id->link = LINK_IDLE;
        say_rejected(r, id, REJ_CONSUMER_DEFINED, &(struct rdma_ucm_conn_param){0});
        return 0;
    }
    send_req(r, id, cm_is_iwarp(id), out);
    return 0;
}

static void send_rep(struct region *r, struct cm_id *id, struct cm_outbox *out)
{
    struct cm_message *m = cm_message_new(r, id, MESSAGE_REP, out);

    cm_timer_set(r, id, TIMER_RESEND, CM_RESEND_MS);
    if (m) {
        m->psn = id->psn;
        m->param = id->param;
    }
}

/* The client's turn: it is ready to use the connection. */
static int send_rtu(struct region *r, struct cm_id *id, struct cm_outbox *out)
{
    if (id->link != LINK_REP_RCVD)
        return EINVAL;
    id->link = LINK_ESTABLISHED;
    cm_timer_clear(id);
    cm_message_new(r, id, MESSAGE_RTU, out);
    return 0;
}

static int answer(struct region *r, struct cm_id *id, const struct rdma_ucm_conn_param *param,
                  struct cm_outbox *out)
{
    if (is_datagram(id))
        return cm_datagram_accept(r, id, param, out);
    if (cm_is_iwarp(id) && id->link == LINK_IDLE)
        return ECONNRESET;
    if (id->link != LINK_REQ_RCVD || param->private_data_len > (cm_is_iwarp(id) ? CM_IWARP_DATA : REP_DATA))
        return EINVAL;
    id->param = *param;
    id->param.qp_num &= 0xffffff;
    id->param.rnr_retry_count = retries(param->rnr_retry_count);
    id->qpn = id->param.qp_num;
    id->rr = param->responder_resources;
    id->idp = param->initiator_depth;
    id->link = LINK_REP_SENT;
    id->tries = 0;
    send_rep(r, id, out);
    if (cm_is_iwarp(id)) {
        id->link = LINK_ESTABLISHED;
        cm_timer_clear(id);
    }
    return 0;
}

/* An accept that cannot be rejects. */
int cm_accept(struct region *r, struct cm_id *id, uint64_t uid, const struct rdma_ucm_conn_param *param,
              struct cm_outbox *out)
{
    int err;

    if (id->state != CM_CONNECT)
        return EINVAL;
    err = param->valid ? answer(r, id, param, out) : send_rtu(r, id, out);
    if (err)
        cm_reject(r, id, REJ_CONSUMER_DEFINED, NULL, 0, out);
    else if (param->valid)
        id->uid = uid;
    if (!err && param->valid && cm_is_iwarp(id))
        cm_event_say(r, id, EVENT_ESTABLISHED, 0);
    return err;
}

int cm_reject(struct region *r, struct cm_id *id, uint32_t reason, const void *data, uint32_t length,
              struct cm_outbox *out)
{
    struct cm_message *m;

    if (id->link == LINK_SIDR_RCVD)
        return cm_datagram_reject(r, id, data, length, out);
    if ((length > REJ_DATA && !cm_is_iwarp(id)) || (id->link != LINK_REQ_RCVD && id->link != LINK_REP_RCVD))
        return EINVAL;
    go_idle(id);
    m = cm_message_new(r, id, MESSAGE_REJ, out);
    if (m) {
        m->reason = reason;
        m->param.private_data_len = (uint8_t)length;
        if (length)
            memcpy(m->param.private_data, data, length);
    }
    return 0;
}

static void send_dreq(struct region *r, struct cm_id *id, struct cm_outbox *out)
{
    cm_timer_set(r, id, TIMER_RESEND, CM_RESEND_MS);
    cm_message_new(r, id, MESSAGE_DREQ, out);
}

int cm_disconnect(struct region *r, struct cm_id *id, struct cm_outbox *out)
{
    if (id->link == LINK_NONE)
        return EINVAL;
    if (id->link == LINK_ESTABLISHED && cm_is_iwarp(id)) {
        cm_message_new(r, id, MESSAGE_DREQ, out);
        go_idle(id);
        say_disconnected(r, id, 0);
    } else if (id->link == LINK_ESTABLISHED) {
        id->link = LINK_DREQ_SENT;
        id->tries = 0;
        send_dreq(r, id, out);
    } else if (id->link == LINK_DREQ_RCVD) {
        cm_message_new(r, id, MESSAGE_DREP, out);
        enter_timewait(r, id);
    }
    return 0;
}

/* The QP has seen data before the RTU. Other events are of no interest. */
int cm_notify(struct region *r, struct cm_id *id, uint32_t event)
{
    const uint32_t established = 4; /* IB_EVENT_COMM_EST */

    if (id->link == LINK_NONE)
        return EINVAL;
    if (event != established)
        return 0;
    if (id->link == LINK_ESTABLISHED)
        return EISCONN;
    if (id->link != LINK_REP_SENT)
        return EINVAL;
    id->link = LINK_ESTABLISHED;
    cm_timer_clear(id);
    cm_event_say(r, id, EVENT_ESTABLISHED, 0);
    return 0;
}

/* ---- what arrives ---- */

static struct cm_id *earlier_child(struct region *r, const struct cm_ref *peer)
{
    for (uint32_t n = cm_id_next(r, 0); n != NONE; n = cm_id_next(r, n + 1)) {
        struct cm_id *id = &r->cm.id[n];

        if (id->peer.instance == peer->instance && id->peer.slot == peer->slot && id->peer.id == peer->id &&
            id->peer.generation == peer->generation)
            return id;
    }
    return NULL;
}

static struct cm_id *make_child(struct region *r, const struct cm_id *listener, const struct cm_message *m)
{
    struct cm_id *k = cm_id_new(r, listener->file);

    if (!k)
        return NULL;
    k->ps = m->ps;
    k->qp_type = m->qp_type;
    k->state = CM_CONNECT;
    k->link = m->type == MESSAGE_REQ ? LINK_REQ_RCVD : LINK_SIDR_RCVD;
    k->device = m->device;
    k->src = m->dst;
    k->dst = m->src;
    if (k->dst.sa.sa_family == AF_INET6)
        k->dst.in6.sin6_scope_id = 0;
    k->tos = m->tos;
    k->life = m->life;
    k->has_timeout = listener->has_timeout;
    k->timeout = listener->timeout;
    k->has_route = m->type == MESSAGE_REQ;
    k->peer = m->from;
    k->peer_qpn = m->param.qp_num;
    k->peer_psn = m->psn;
    k->rr = m->param.initiator_depth;
    k->idp = m->param.responder_resources;
    k->retry = m->param.retry_count;
    k->rnr = m->param.rnr_retry_count;
    return k;
}

static void describe_request(struct cm_event *e, const struct cm_id *k, const struct cm_message *m)
{
    struct rdma_ucm_conn_param *p = &e->resp.param.conn;

    if (m->type == MESSAGE_SIDR_REQ) {
        cm_event_set_datagram(e, SIDR_REQ_DATA, &m->param);
        return;
    }
    cm_event_set_data(e, shown(k, REQ_DATA, &m->param), &m->param);
    p->responder_resources = k->rr;
    p->initiator_depth = k->idp;
    if (cm_is_iwarp(k))
        return;
    p->qp_num = k->peer_qpn;
    p->retry_count = k->retry;
    p->rnr_retry_count = k->rnr;
    p->srq = m->param.srq;
}

static void acknowledge(struct region *r, const struct cm_id *id, struct cm_outbox *out)
{
    cm_message_new(r, id, MESSAGE_MRA, out);
}

void cm_receive_request(struct region *r, struct cm_id *listener, struct cm_message *m, struct cm_outbox *out)
{
    struct cm_id *k = m->again ? earlier_child(r, &m->from) : NULL;
    struct cm_event *e;

    if (k) {
        acknowledge(r, k, out);
        return;
    }
    if (listener->backlog <= 0) { /* dropped: the sender tries again */
        if (device_at(m->device)->model->is_iwarp)
            cm_message_answer(m, MESSAGE_REJ, REJ_CONSUMER_DEFINED, out);
        return;
    }
    k = make_child(r, listener, m);
    if (!k)
        return;
    e = cm_event_for(r, listener, EVENT_CONNECT_REQUEST, 0);
    if (!e) {
        k->peer = (struct cm_ref){0};
        cm_id_end(r, k, out);
        return;
    }
    listener->backlog--;
    e->child = cm_id_number(r, k);
    e->resp.id = e->child;
    describe_request(e, k, m);
    cm_watch_peer(r, k);
    acknowledge(r, k, out);
    cm_event_post(r, e);
}

static void receive_mra(struct region *r, struct cm_id *id, const struct cm_message *m)
{
    if (id->link != LINK_REQ_SENT && id->link != LINK_SIDR_SENT && id->link != LINK_REP_SENT)
        return;
    id->peer = m->from;
    cm_watch_peer(r, id);
    if (cm_is_iwarp(id))
        cm_timer_set(r, id, TIMER_ANSWER, CM_IWARP_ANSWER_MS);
    else if (id->link != LINK_SIDR_SENT)
        cm_timer_set(r, id, TIMER_RESEND, CM_ANSWER_MS);
}

static void receive_rep(struct region *r, struct cm_id *id, const struct cm_message *m, struct cm_outbox *out)
{
    struct cm_event *e;

    if (id->link == LINK_REP_RCVD)
        acknowledge(r, id, out);
    if (id->link == LINK_ESTABLISHED) /* the RTU was lost */
        cm_message_new(r, id, MESSAGE_RTU, out);
    if (id->link != LINK_REQ_SENT)
        return;
    id->link = LINK_REP_RCVD;
    cm_timer_clear(id);
    id->peer = m->from;
    cm_watch_peer(r, id);
    id->peer_qpn = m->param.qp_num;
    id->peer_psn = m->psn;
    id->rr = m->param.initiator_depth;
    id->idp = m->param.responder_resources;
    id->rnr = m->param.rnr_retry_count;
    if (cm_is_iwarp(id))
        id->link = LINK_ESTABLISHED;
    e = cm_event_new(r, id, cm_is_iwarp(id) ? EVENT_ESTABLISHED : EVENT_CONNECT_RESPONSE, 0);
    cm_event_set_data(e, shown(id, REP_DATA, &m->param), &m->param);
    if (e) {
        e->resp.param.conn.responder_resources = id->rr;
        e->resp.param.conn.initiator_depth = id->idp;
    }
    if (e && !cm_is_iwarp(id)) {
        struct rdma_ucm_conn_param *p = &e->resp.param.conn;

        p->qp_num = id->peer_qpn;
        p->rnr_retry_count = id->rnr;
        p->srq = m->param.srq;
    }
    cm_event_post(r, e);
    if (!cm_is_iwarp(id))
        acknowledge(r, id, out);
}

static void receive_rtu(struct region *r, struct cm_id *id)
{
    if (id->link != LINK_REP_SENT)
        return;
    id->link = LINK_ESTABLISHED;
    cm_timer_clear(id);
    cm_event_say(r, id, EVENT_ESTABLISHED, 0);
}

static void receive_rej(struct region *r, struct cm_id *id, const struct cm_message *m)
{
    switch (id->link) {
    case LINK_REQ_SENT:
    case LINK_REQ_RCVD:
    case LINK_REP_SENT:
    case LINK_REP_RCVD:
        go_idle(id);
        say_rejected(r, id, m->reason, &m->param);
        break;
    case LINK_ESTABLISHED:
    case LINK_DREQ_SENT:
        enter_timewait(r, id);
        say_disconnected(r, id, 0);
        break;
    }
}

static void receive_dreq(struct region *r, struct cm_id *id, struct cm_outbox *out)
{
    switch (id->link) {
    case LINK_REP_SENT:
    case LINK_ESTABLISHED:
    case LINK_DREQ_SENT:
        id->link = cm_is_iwarp(id) ? LINK_IDLE : LINK_DREQ_RCVD;
        cm_timer_clear(id);
        say_disconnected(r, id, 0);
        break;
    case LINK_TIMEWAIT:
        cm_message_new(r, id, MESSAGE_DREP, out);
        break;
    }
}

static void receive_drep(struct region *r, struct cm_id *id)
{
    if (id->link != LINK_DREQ_SENT && id->link != LINK_DREQ_RCVD)
        return;
    enter_timewait(r, id);
    say_disconnected(r, id, 0);
}

void cm_receive(struct region *r, struct cm_id *id, const struct cm_message *m, struct cm_outbox *out)
{
    TRACE("cm message %d for identifier %u", (int)m->type, cm_id_number(r, id));
    switch (m->type) {
    case MESSAGE_MRA:
        receive_mra(r, id, m);
        break;
    case MESSAGE_REJ:
        receive_rej(r, id, m);
        break;
    case MESSAGE_REP:
        receive_rep(r, id, m, out);
        break;
    case MESSAGE_RTU:
        receive_rtu(r, id);
        break;
    case MESSAGE_DREQ:
        receive_dreq(r, id, out);
        break;
    case MESSAGE_DREP:
        receive_drep(r, id);
        break;
    case MESSAGE_NOBODY:
        if (id->link == LINK_REQ_SENT || id->link == LINK_SIDR_SENT)
            cm_timer_set_exactly(r, id, TIMER_NOBODY, CM_NOBODY_MS);
        break;
    case MESSAGE_SIDR_REP:
        cm_datagram_receive_reply(r, id, m);
        break;
    default: /* requests come another way */
        break;
    }
}

/* ---- what does not ---- */

static void say_unreachable(struct region *r, struct cm_id *id)
{
    go_idle(id);
    cm_event_say(r, id, EVENT_UNREACHABLE, -ETIMEDOUT);
}

static void resend(struct region *r, struct cm_id *id, struct cm_outbox *out)
{
    bool last = ++id->tries >= CM_TRIES;

    switch (id->link) {
    case LINK_REQ_SENT:
    case LINK_SIDR_SENT:
        if (last)
            say_unreachable(r, id);
        else
            send_req(r, id, false, out);
        break;
    case LINK_REP_SENT:
        if (last)
            say_unreachable(r, id);
        else
            send_rep(r, id, out);
        break;
    case LINK_DREQ_SENT:
        if (last) {
            enter_timewait(r, id);
            say_disconnected(r, id, -ETIMEDOUT);
        } else {
            send_dreq(r, id, out);
        }
        break;
    }
}

void cm_time_is_up(struct region *r, struct cm_id *id, enum cm_timer timer, struct cm_outbox *out)
{
    switch (timer) {
    case TIMER_ADDR:
        if (id->state == CM_ADDR_QUERY) {
            id->state = CM_BOUND;
            cm_event_say(r, id, EVENT_ADDR_ERROR, -ETIMEDOUT);
        }
        break;
    case TIMER_RESEND:
        resend(r, id, out);
        break;
    case TIMER_NOBODY:
        if (id->link == LINK_REQ_SENT || id->link == LINK_SIDR_SENT)
            send_req(r, id, true, out);
        break;
    case TIMER_ANSWER:
        if (id->link == LINK_REQ_SENT || id->link == LINK_REP_SENT)
            say_unreachable(r, id);
        break;
    case TIMER_TIMEWAIT:
        if (id->link == LINK_TIMEWAIT) {
            id->link = LINK_IDLE;
            if (id->state == CM_DISCONNECT)
                cm_event_say(r, id, EVENT_TIMEWAIT_EXIT, 0);
        }
        break;
    case TIMER_NONE:
        break;
    }
}

void cm_peer_died(struct region *r, struct cm_id *id, struct cm_outbox *out)
{
    struct cm_message m = {.reason = REJ_CONSUMER_DEFINED};

    switch (id->link) {
    case LINK_REQ_SENT:
    case LINK_REQ_RCVD:
    case LINK_REP_SENT:
    case LINK_REP_RCVD:
        m.type = MESSAGE_REJ;
        break;
    case LINK_ESTABLISHED:
        m.type = MESSAGE_DREQ;
        break;
    case LINK_DREQ_SENT:
        m.type = MESSAGE_DREP;
        break;
    case LINK_SIDR_SENT:
        m.type = MESSAGE_SIDR_REP;
        m.reason = SIDR_REJECT;
        break;
    default:
        return;
    }
    cm_receive(r, id, &m, out);
    id->peer = (struct cm_ref){0};
}
