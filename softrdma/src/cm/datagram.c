/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to SIDR requests, on both sides. The request itself is in connection.c, with the other one. */
#include "datagram.h"

#include "attr.h"
#include "event.h"
#include "id.h"
#include "timer.h"

static struct cm_message *reply(struct region *r, struct cm_id *id, uint32_t status, struct cm_outbox *out)
{
    struct cm_message *m = cm_message_new(r, id, MESSAGE_SIDR_REP, out);

    id->link = LINK_IDLE;
    if (m)
        m->reason = status;
    return m;
}

int cm_datagram_accept(struct region *r, struct cm_id *id, const struct rdma_ucm_conn_param *param,
                       struct cm_outbox *out)
{
    struct cm_message *m;

    if (id->link != LINK_SIDR_RCVD || param->private_data_len > SIDR_REP_DATA)
        return EINVAL;
    id->qpn = param->qp_num & 0xffffff;
    m = reply(r, id, SIDR_SUCCESS, out);
    if (m) {
        m->param = *param;
        m->param.qp_num = id->qpn;
        if (!m->param.qkey)
            m->param.qkey = CM_QKEY;
    }
    return 0;
}

int cm_datagram_reject(struct region *r, struct cm_id *id, const void *data, uint32_t length, struct cm_outbox *out)
{
    struct cm_message *m;

    if (length > SIDR_REP_DATA)
        return EINVAL;
    m = reply(r, id, SIDR_REJECT, out);
    if (m) {
        m->param.private_data_len = (uint8_t)length;
        if (length)
            memcpy(m->param.private_data, data, length);
    }
    return 0;
}

void cm_datagram_receive_reply(struct region *r, struct cm_id *id, const struct cm_message *m)
{
    bool accepted = m->reason == SIDR_SUCCESS;
    struct cm_event *e;

    if (id->link != LINK_SIDR_SENT)
        return;
    id->link = LINK_IDLE;
    cm_timer_clear(id);
    id->peer_qpn = m->param.qp_num;
    e = cm_event_new(r, id, accepted ? EVENT_ESTABLISHED : EVENT_UNREACHABLE, accepted ? 0 : (int)m->reason);
    cm_event_set_datagram(e, SIDR_REP_DATA, &m->param);
    if (e && accepted) {
        e->resp.param.ud.qp_num = m->param.qp_num;
        e->resp.param.ud.qkey = m->param.qkey;
        cm_attr_path(r, id, &e->resp.param.ud.ah_attr);
    }
    cm_event_post(r, e);
}
