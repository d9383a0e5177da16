/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pairs of iWARP connections. The peer's thread cannot move ours; so that happens when its owner hears of it:
 * in accept, and as ESTABLISHED and DISCONNECTED are read. */
#include "iwarp.h"

#include "../device.h"
#include "../rxe/rxe.h"
#include "attr.h"

enum { FOR_EVER = 7, TIMEOUT = 14 }; /* TCP loses nothing: only a receiver that is not ready yet is waited for */

bool cm_is_iwarp(const struct cm_id *id)
{
    return id->device >= 0 && device_at(id->device)->model->is_iwarp;
}

static struct qp *find_qp(struct region *r, const struct cm_id *id, uint32_t qpn)
{
    struct qp *qp = &r->qp[qpn % MAX_QPS];

    return qp->qpn == qpn && qp->device == (uint32_t)id->device && atomic_load(&qp->state) != QPS_DEAD ? qp : NULL;
}

bool cm_iwarp_has_qp(struct region *r, const struct cm_id *id, uint32_t qpn)
{
    return find_qp(r, id, qpn) != NULL;
}

static void copy_path(struct ib_uverbs_qp_dest *to, const struct ib_uverbs_ah_attr *from)
{
    memcpy(to->dgid, from->grh.dgid, sizeof(to->dgid));
    to->flow_label = from->grh.flow_label;
    to->sgid_index = from->grh.sgid_index;
    to->hop_limit = from->grh.hop_limit;
    to->traffic_class = from->grh.traffic_class;
    to->is_global = from->is_global;
    to->port_num = from->port_num;
}

/* One step of the way that a RoCE program goes with INIT_QP_ATTR. */
static int step(struct region *r, const struct cm_id *id, struct qp *qp, uint32_t state)
{
    struct ib_uverbs_qp_attr a = {.qp_state = (uint8_t)state};
    struct ib_uverbs_modify_qp m = {.qp_state = (uint8_t)state};
    int err = cm_attr_connected(r, id, state, &a);

    if (err)
        return err;
    copy_path(&m.dest, &a.ah_attr);
    m.attr_mask = a.qp_attr_mask;
    m.rq_psn = id->psn;
    m.sq_psn = a.sq_psn;
    m.dest_qp_num = a.dest_qp_num;
    m.qp_access_flags = a.qp_access_flags & ~(uint32_t)IB_UVERBS_ACCESS_REMOTE_ATOMIC;
    m.path_mtu = a.path_mtu;
    m.max_rd_atomic = a.max_rd_atomic;
    m.max_dest_rd_atomic = a.max_dest_rd_atomic;
    m.port_num = 1;
    m.timeout = TIMEOUT;
    m.retry_cnt = m.rnr_retry = FOR_EVER;
    return rxe_modify_qp(r, qp, &m);
}

int cm_iwarp_move_qp(struct region *r, const struct cm_id *id)
{
    struct qp *qp = find_qp(r, id, id->qpn);
    int err = qp ? 0 : EINVAL;

    for (uint32_t state = QPS_INIT; state <= QPS_RTS && !err; state++) {
        if (atomic_load(&qp->state) < state || state == QPS_INIT)
            err = step(r, id, qp, state);
    }
    return err;
}

void cm_iwarp_follow(struct region *r, const struct cm_id *id, uint32_t event)
{
    struct qp *qp = find_qp(r, id, id->qpn);
    uint32_t state = qp ? atomic_load(&qp->state) : QPS_DEAD;

    if (event == EVENT_ESTABLISHED && state == QPS_INIT)
        cm_iwarp_move_qp(r, id);
    else if (event == EVENT_DISCONNECTED && (state == QPS_RTS || state == QPS_SQD))
        rxe_break_qp(r, qp);
}
