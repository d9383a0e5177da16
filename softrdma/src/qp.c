/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: creation, numbers, and what may be destroyed when. States and queues are the model's. */
#include "context.h"
#include "event.h"
#include "lock.h"
#include "object.h"
#include "process.h"

void qp_lock_both(struct qp *qp)
{
    lock_take(&qp->sq_lock);
    lock_take(&qp->rq_lock);
}

void qp_unlock_both(struct qp *qp)
{
    lock_give(&qp->rq_lock);
    lock_give(&qp->sq_lock);
}

bool qp_is_served(struct region *r, const struct qp *qp)
{
    if (r == process.region && qp->proc == process.proc)
        return true;
    return process_alive(&r->proc[qp->proc]) || context_is_held(r, qp->context);
}

struct parents {
    uint32_t pd, send_cq, recv_cq, srq;
};

static int find_parents(struct call *c, struct parents *p)
{
    p->pd = call_object(c, UVERBS_ATTR_CREATE_QP_PD_HANDLE, OBJ_PD);
    p->send_cq = call_object(c, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, OBJ_CQ);
    p->recv_cq = call_object(c, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, OBJ_CQ);
    p->srq = call_object(c, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, OBJ_SRQ);
    if (p->pd == NONE || p->send_cq == NONE || p->recv_cq == NONE)
        return call_has(c, UVERBS_ATTR_CREATE_QP_PD_HANDLE) ? ENOENT : EINVAL;
    return call_has(c, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE) && p->srq == NONE ? ENOENT : 0;
}

static void count(struct region *r, const struct qp *qp, int by)
{
    r->pd[qp->pd].refs += (uint32_t)by;
    r->cq[qp->send_cq].refs += (uint32_t)by;
    r->cq[qp->recv_cq].refs += (uint32_t)by;
    if (qp->srq != NONE)
        r->srq[qp->srq].refs += (uint32_t)by;
}

static void prepare(struct call *c, uint32_t i, const struct parents *p)
{
    struct qp *qp = &c->r->qp[i];

    if (!qp->born) {
        lock_init(&qp->sq_lock);
        lock_init(&qp->rq_lock);
        atomic_store(&qp->state, QPS_DEAD);
        qp->born = 1;
    }
    qp_lock_both(qp);
    qp->qpn = c->r->slot << 16 | i; /* unless the model has numbers of its own */
    qp->type = call_u32(c, UVERBS_ATTR_CREATE_QP_TYPE);
    qp->context = c->context;
    qp->device = (uint32_t)c->device->index;
    qp->pd = p->pd;
    qp->send_cq = p->send_cq;
    qp->recv_cq = p->recv_cq;
    qp->srq = p->srq;
    qp->sq_sig_all = !!(call_u32(c, UVERBS_ATTR_CREATE_QP_FLAGS) & IB_UVERBS_QP_CREATE_SQ_SIG_ALL);
    qp->proc = process.proc;
    qp->user = call_u64(c, UVERBS_ATTR_CREATE_QP_USER_HANDLE);
    qp->sq = qp->rq = qp->own = (struct queue){0};
    qp->sq_psn = qp->rq_psn = qp->retries_left = qp->rnr_left = 0;
    qp->dest_device = NONE;
    qp->timer_proc = process.proc;
    qp->drained = qp->running = qp->groups = qp->last_wqe_event = qp->async_events = 0;
    atomic_store(&qp->wait_until, 0);
    qp->ack_deadline = 0;
    qp->fault_state = qp->fault_answer = 0;
    qp->peer_instance = 0;
    memset(&qp->attr, 0, sizeof(qp->attr));
    qp_unlock_both(qp);
}

static int make(struct call *c, uint32_t i)
{
    struct region *r = c->r;
    struct qp *qp = &r->qp[i];
    struct ib_uverbs_qp_cap cap;
    int err = call_in(c, UVERBS_ATTR_CREATE_QP_CAP, &cap, sizeof(cap));

    if (err)
        return err;
    qp->handle = handle_new(r, c->context, OBJ_QP, i);
    if (qp->handle == NONE)
        return ENOMEM;
    err = c->device->model->create_qp(c, qp, &cap);
    if (err)
        goto err_handle;
    err = call_out(c, UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap));
    if (!err)
        err = call_out(c, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qp->qpn, sizeof(qp->qpn));
    if (!err)
        err = call_new_handle(c, UVERBS_ATTR_CREATE_QP_HANDLE, qp->handle);
    if (err)
        goto err_queues;
    count(r, qp, 1);
    atomic_store(&qp->state, QPS_RESET);
    return 0;

err_queues:
    c->device->model->destroy_qp(r, qp);
err_handle:
    handle_free(r, c->context, qp->handle);
    return err;
}

int qp_create(struct call *c)
{
    struct region *r = c->r;
    struct parents parents;
    uint32_t i, flags = call_u32(c, UVERBS_ATTR_CREATE_QP_FLAGS);
    int err;

    if (!c->device->model->has_qp_type(call_u32(c, UVERBS_ATTR_CREATE_QP_TYPE)))
        return EOPNOTSUPP;
    if (flags & ~(uint32_t)IB_UVERBS_QP_CREATE_SQ_SIG_ALL)
        return EOPNOTSUPP;
    lock_take(&r->lock);
    err = find_parents(c, &parents);
    i = err ? NONE : table_take(&r->qps, (uint64_t *)r->qp_bits, MAX_QPS, FIRST_QP);
    if (!err && i == NONE)
        err = ENOMEM;
    if (!err) {
        prepare(c, i, &parents);
        err = make(c, i);
        if (err)
            table_release(&r->qps, (uint64_t *)r->qp_bits, i);
    }
    lock_give(&r->lock);
    return err;
}

void qp_free(struct region *r, uint32_t index)
{
    struct qp *qp = &r->qp[index];

    mcast_forget_qp(r, index);
    qp_lock_both(qp);
    device_at((int)qp->device)->model->destroy_qp(r, qp);
    atomic_store(&qp->state, QPS_DEAD);
    qp_unlock_both(qp);
    mw_unbind_qp(r, index);
    count(r, qp, -1);
    table_release(&r->qps, (uint64_t *)r->qp_bits, index);
}

int qp_destroy(struct call *c)
{
    struct region *r = c->r;
    struct ib_uverbs_destroy_qp_resp out = {0};
    uint32_t i;
    int err = 0;

    lock_take(&r->lock);
    i = call_object(c, UVERBS_ATTR_DESTROY_QP_HANDLE, OBJ_QP);
    if (i == NONE) {
        err = ENOENT;
    } else if (r->qp[i].groups) {
        err = EBUSY;
    } else {
        struct qp *qp = &r->qp[i];

        handle_free(r, c->context, qp->handle);
        qp_free(r, i); /* first: a responder may raise one more event until then */
        out.events_reported =
            event_forget_async(r, c->context, OBJ_QP << 24 | i, qp->user, &qp->async_events);
        err = call_out(c, UVERBS_ATTR_DESTROY_QP_RESP, &out, sizeof(out));
    }
    lock_give(&r->lock);
    return err;
}

int qp_modify(struct call *c)
{
    const struct ib_uverbs_modify_qp *in = c->in;
    uint32_t i = handle_find(c->r, c->context, in->qp_handle, OBJ_QP);

    return i == NONE ? EINVAL : c->device->model->modify_qp(c->r, &c->r->qp[i], in);
}

int qp_query(struct call *c)
{
    const struct ib_uverbs_query_qp *in = c->in;
    struct ib_uverbs_query_qp_resp out = {0};
    uint32_t i = handle_find(c->r, c->context, in->qp_handle, OBJ_QP);
    int err;

    if (i == NONE)
        return EINVAL;
    err = c->device->model->query_qp(c->r, &c->r->qp[i], in->attr_mask, &out);
    return err ? err : call_respond(c, &out, sizeof(out));
}
