/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and freeing what a completion queue and a queue pair consist of: rings that the provider maps, doorbells, and
 * the device's own record. */
#include "../dmabuf.h"
#include "../doorbell.h"
#include "../guard.h"
#include "../object.h"
#include "../process.h"
#include "../timer.h"
#include "../uverbs.h"
#include "counter.h"
#include "efa.h"

/* Where in their pages these lie: at places that nothing else suggests, as on the device. */
#define SQ_DB_OFF 32
#define RQ_DB_OFF 96
#define CQ_DB_OFF 64
#define LLQ_OFF 128

static bool take(struct region *r, struct queue *q, uint64_t size)
{
    size = align_up(size, heap_page());
    q->size = (uint32_t)size;
    q->offset = size > UINT32_MAX ? 0 : heap_alloc(r, size);
    return q->offset != 0;
}

static void give(struct region *r, struct queue *q)
{
    if (q->offset)
        heap_free(r, q->offset, q->size);
    q->offset = 0;
}

static bool is_pow2(uint32_t n)
{
    return n && !(n & (n - 1));
}

/* Input of the driver's that is longer than what we know has to be zero there; 0, or errno. */
static int driver_in(const struct call *c, void *dst, size_t known, size_t least)
{
    uint8_t all[256];
    size_t size = call_size(c, UVERBS_ATTR_UHW_IN);
    int err;

    if (size < least || size > sizeof(all))
        return EINVAL;
    err = call_in(c, UVERBS_ATTR_UHW_IN, all, sizeof(all));
    for (size_t i = known; i < size && !err; i++)
        err = all[i] ? EINVAL : 0;
    memcpy(dst, all, known);
    return err;
}

static int check_cq(const struct call *c, const struct efa_cq_in *in, uint32_t cqe)
{
    const struct efa_make *m = efa_make_of(c->device);
    uint8_t known = EFA_CQ_WITH_CHANNEL | EFA_CQ_WITH_SGID;

    if (m->caps & EFA_CAP_SQ_64_BIT_REQ_ID)
        known |= EFA_CQ_WITH_64_BIT_REQ_ID;
    if (cqe < 1 || cqe > m->max_cqe || !is_pow2(cqe) || in->comp_mask || in->num_sub_cqs != EFA_SUB_CQS)
        return EINVAL;
    if (in->flags & ~known)
        return EOPNOTSUPP;
    if (in->entry_size != EFA_CQE_SIZE && in->entry_size != EFA_CQE_SIZE_EX)
        return EINVAL;
    if ((in->flags & EFA_CQ_WITH_SGID) && in->entry_size != EFA_CQE_SIZE_EX)
        return EINVAL;
    if ((in->flags & EFA_CQ_WITH_SGID) && !(m->caps & EFA_CAP_CQ_WITH_SGID))
        return EOPNOTSUPP;
    if ((in->flags & EFA_CQ_WITH_CHANNEL) && !(m->caps & EFA_CAP_CQ_NOTIFICATIONS))
        return EOPNOTSUPP;
    return 0;
}

/* The program's memory for a queue of that size. */
static int take_external(struct call *c, struct efa_cq *own, uint64_t size)
{
    uint64_t length = call_u64(c, ATTR_CREATE_CQ_BUFFER_LENGTH), offset = call_u64(c, ATTR_CREATE_CQ_BUFFER_OFFSET);
    struct dmabuf buffer = {0};
    int err;

    if (!(efa_make_of(c->device)->caps & EFA_CAP_CQ_WITH_EXT_MEM))
        return EOPNOTSUPP;
    if (length < size || (call_has(c, ATTR_CREATE_CQ_BUFFER_VA) && call_has(c, ATTR_CREATE_CQ_BUFFER_FD)))
        return EINVAL;
    if (call_has(c, ATTR_CREATE_CQ_BUFFER_FD)) {
        err = dmabuf_map((int)call_u32(c, ATTR_CREATE_CQ_BUFFER_FD), offset, length, &buffer);
    } else {
        buffer.start = call_u64(c, ATTR_CREATE_CQ_BUFFER_VA);
        err = guard_populate(buffer.start, length, true);
    }
    if (err)
        return err;
    own->external = 1;
    own->proc = process.proc;
    own->start = buffer.start;
    own->mapping = buffer.mapping;
    own->mapped = buffer.mapped;
    return 0;
}

int efa_create_cq(struct call *c, struct cq *cq, uint32_t *cqe)
{
    struct efa_cq_out out = {0};
    struct efa_cq_in in;
    struct efa_cq *own;
    uint64_t size;
    int err = driver_in(c, &in, sizeof(in), sizeof(in));

    if (!err)
        err = check_cq(c, &in, *cqe);
    if (err)
        return err;
    size = (uint64_t)*cqe * in.entry_size * EFA_SUB_CQS;
    if (!take(c->r, &cq->own, sizeof(struct efa_cq)))
        return ENOMEM;
    own = efa_cq_of(c->r, cq);
    if (cq_has_memory(c))
        err = take_external(c, own, size);
    else if (!take(c->r, &cq->queue, size))
        err = ENOMEM;
    if (err) {
        efa_destroy_cq(c->r, cq);
        return err;
    }
    own->entries = *cqe;
    own->entry_size = in.entry_size;
    own->with_sgid = !!(in.flags & EFA_CQ_WITH_SGID);
    out.q_key = cq->queue.offset;
    out.q_size = own->external ? 0 : cq->queue.size;
    out.cq_idx = (uint16_t)(cq - c->r->cq);
    if (cq->channel != NONE) { /* only then does the device look at a doorbell */
        out.comp_mask = EFA_CQ_OUT_DB_OFF;
        out.db_off = CQ_DB_OFF;
        out.db_key = doorbell_key_cq((uint32_t)(cq - c->r->cq));
    }
    err = call_respond_driver(c, &out, sizeof(out));
    if (err)
        efa_destroy_cq(c->r, cq);
    return err;
}

void efa_destroy_cq(struct region *r, struct cq *cq)
{
    if (cq->own.offset) {
        const struct efa_cq *own = efa_cq_of(r, cq);

        if (own->external && own->proc == process.proc)
            dmabuf_unmap(own->mapping, own->mapped);
    }
    give(r, &cq->queue);
    give(r, &cq->own);
}

static int check_qp(const struct call *c, const struct qp *qp, const struct efa_qp_in *in,
                    const struct ib_uverbs_qp_cap *cap)
{
    const struct efa_make *m = efa_make_of(c->device);
    uint16_t known = 0;

    if (m->caps & EFA_CAP_UNSOLICITED_WRITE_RECV)
        known |= EFA_QP_UNSOLICITED_WRITE_RECV;
    if (m->caps & EFA_CAP_SQ_64_BIT_REQ_ID)
        known |= EFA_QP_64_BIT_REQ_ID;
    if (cap->max_send_wr > m->max_sq_wr || cap->max_recv_wr > m->max_rq_wr || cap->max_send_sge > m->max_sq_sge ||
        cap->max_recv_sge > m->max_rq_sge || cap->max_inline_data > m->inline_size_ex)
        return EINVAL;
    if (in->comp_mask || in->driver_qp_type != EFA_DRIVER_QP_SRD)
        return EINVAL;
    if ((in->flags & ~known) || (qp->type == IB_UVERBS_QPT_UD && (in->flags & EFA_QP_UNSOLICITED_WRITE_RECV)))
        return EOPNOTSUPP;
    return 0;
}

/* The ring has descriptors of 64 or of 128 bytes: the provider chooses by the inline data it wants. */
static int check_rings(const struct efa_qp_in *in, const struct ib_uverbs_qp_cap *cap)
{
    uint32_t stride = cap->max_send_wr ? in->sq_ring_size / cap->max_send_wr : 64, rx = sizeof(struct efa_rx_desc);

    if (cap->max_send_wr && (!is_pow2(cap->max_send_wr) || (stride != 64 && stride != 128) ||
                             (uint64_t)stride * cap->max_send_wr != in->sq_ring_size))
        return EINVAL;
    if (in->rq_ring_size % rx || (in->rq_ring_size && !is_pow2(in->rq_ring_size / rx)) ||
        in->rq_ring_size / rx > 1u << 16)
        return EINVAL;
    return 0;
}

static bool take_rings(struct region *r, struct qp *qp, const struct efa_qp_in *in,
                       const struct ib_uverbs_qp_cap *cap)
{
    uint64_t page = heap_page(); /* of the receive doorbell, which is memory: the device looks when a message comes */

    if (!take(r, &qp->own, sizeof(struct efa_qp) + (uint64_t)cap->max_send_wr * sizeof(struct efa_pending)))
        return false;
    if (cap->max_send_wr && !take(r, &qp->sq, LLQ_OFF + (uint64_t)in->sq_ring_size))
        return false;
    return !in->rq_ring_size || take(r, &qp->rq, align_up(in->rq_ring_size, page) + page);
}

static void describe(struct region *r, const struct qp *qp, const struct efa_qp_in *in, struct efa_qp_out *out)
{
    out->send_sub_cq = EFA_SEND_SUB_CQ;
    out->recv_sub_cq = EFA_RECV_SUB_CQ;
    out->sq_db_off = SQ_DB_OFF;
    out->sq_db_key = doorbell_key_qp(efa_qp_index(r, qp));
    out->llq_desc_off = LLQ_OFF;
    out->llq_key = qp->sq.offset;
    if (in->rq_ring_size) {
        out->rq_size = align_up(in->rq_ring_size, heap_page());
        out->rq_key = qp->rq.offset;
        out->rq_db_key = qp->rq.offset + out->rq_size;
        out->rq_db_off = RQ_DB_OFF;
    }
}

int efa_create_qp(struct call *c, struct qp *qp, struct ib_uverbs_qp_cap *cap)
{
    struct efa_qp_out out = {0};
    struct efa_qp_in in;
    struct efa_qp *own;
    int err = driver_in(c, &in, sizeof(in), EFA_QP_IN_FIRST);

    if (!err)
        err = check_qp(c, qp, &in, cap);
    if (!err)
        err = check_rings(&in, cap);
    if (err)
        return err;
    qp->qpn = efa_take_qpn(c->r, qp->device, efa_qp_index(c->r, qp));
    if (qp->qpn == NONE || !take_rings(c->r, qp, &in, cap)) {
        efa_destroy_qp(c->r, qp);
        return ENOMEM;
    }
    qp->cap = *cap;
    describe(c->r, qp, &in, &out);
    own = efa_qp_of(c->r, qp);
    own->flags = in.flags;
    own->sq_entries = cap->max_send_wr;
    own->sq_stride = cap->max_send_wr ? in.sq_ring_size / cap->max_send_wr : 64;
    own->sq_start = qp->sq.offset + LLQ_OFF;
    own->rq_entries = in.rq_ring_size / (uint32_t)sizeof(struct efa_rx_desc);
    own->rq_doorbell = out.rq_db_key + out.rq_db_off;
    qp->attr.rnr_retry = EFA_RNR_FOREVER;
    err = call_respond_driver(c, &out, sizeof(out));
    if (err)
        efa_destroy_qp(c->r, qp);
    return err;
}

void efa_destroy_qp(struct region *r, struct qp *qp)
{
    atomic_store(&qp->state, QPS_DEAD);
    timer_set(r, qp, 0);
    if (qp->own.offset)
        counter_detach(r, efa_qp_of(r, qp));
    if (qp->qpn != NONE)
        efa_drop_qpn(r, qp->device, qp->qpn);
    give(r, &qp->sq);
    give(r, &qp->rq);
    give(r, &qp->own);
}
