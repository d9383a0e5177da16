/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stub's data path: a posted request becomes a completion in the ring of its CQ at once. The short road does
 * nothing else; faults, capture and holding back are on the slow road, which stub_hot opens.
 */
#include "stub.h"
#include <stdlib.h>

static const uint8_t wc_opcodes[] = {
    [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE, [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
    [IBV_WR_SEND] = IBV_WC_SEND, [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND, [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
    [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP, [IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
};

/* Needs stub_mutex. False when the queue of held requests is full. */
static bool hold(struct stub_backlog *log, uint32_t size, uint64_t wr_id, uint32_t byte_len, uint8_t opcode, bool silent)
{
    if (!log->ring) {
        log->ring = calloc(size ? size : 1, sizeof *log->ring);
        log->size = log->ring ? size : 0;
    }
    if (log->count >= log->size)
        return false;
    log->ring[(log->head + log->count++) % log->size] =
        (struct stub_held){.wr_id = wr_id, .byte_len = byte_len, .opcode = opcode, .silent = silent};
    return true;
}

static bool hold_one(struct stub_backlog *log, uint32_t size, uint64_t wr_id, uint32_t byte_len, uint8_t opcode,
                     bool silent)
{
    bool held;

    pthread_mutex_lock(&stub_mutex);
    held = hold(log, size, wr_id, byte_len, opcode, silent);
    pthread_mutex_unlock(&stub_mutex);
    return held;
}

/* All of a session or none of it: they wait to be released. */
bool stub_hold_all(struct stub_qp *qp, const struct stub_staged *staged, uint32_t count)
{
    bool held = true;

    pthread_mutex_lock(&stub_mutex);
    held = qp->sends.count + count <= qp->cap.max_send_wr;
    for (uint32_t i = 0; held && i < count; i++)
        hold(&qp->sends, qp->cap.max_send_wr, staged[i].wr_id, staged[i].byte_len, wc_opcodes[staged[i].opcode], false);
    pthread_mutex_unlock(&stub_mutex);
    return held;
}

static inline int check_send(const struct stub_qp *qp, const struct ibv_send_wr *wr)
{
    if (STUB_UNLIKELY((uint32_t)wr->opcode > IBV_WR_ATOMIC_FETCH_AND_ADD))
        return EINVAL;
    if (STUB_UNLIKELY(wr->send_flags & IBV_SEND_INLINE) &&
        stub_total(wr->sg_list, wr->num_sge) > qp->cap.max_inline_data)
        return ENOMEM;
    if (qp->qp.qp_type == IBV_QPT_UD) {
        if (!wr->wr.ud.ah)
            stub_die("a UD send without an address handle");
        stub_check(&((struct stub_ah *)wr->wr.ud.ah)->object, KIND_ah, VERB_post_send);
    }
    return 0;
}

/* Whether the state takes requests: 0 with the status that they get at once, or the errno. */
static inline int judge_state(const struct stub_qp *qp, bool sending, int *ret_status)
{
    int state = (int)qp->qp.state;

    *ret_status = IBV_WC_SUCCESS;
    if (STUB_LIKELY(state == IBV_QPS_RTS))
        return 0;
    if (state == IBV_QPS_ERR || (sending && state == IBV_QPS_SQE))
        *ret_status = IBV_WC_WR_FLUSH_ERR;
    else if (sending ? state != IBV_QPS_SQD : state == IBV_QPS_RESET && !qp->qp.srq)
        return EINVAL;
    return 0;
}

/* Takes up to `most` requests; the rest of the contract is that of ibv_post_send and ibv_post_recv. */
static inline __attribute__((always_inline)) int fill(struct stub_qp *qp, bool sending, struct stub_wr *wr,
                                                      struct stub_wr **bad_wr, uint32_t max_sge, bool holding, int most)
{
    struct stub_cq *cq = sending ? qp->send_cq : qp->recv_cq;
    struct stub_backlog *log = sending ? &qp->sends : &qp->receives;
    uint32_t room = sending ? qp->cap.max_send_wr : qp->cap.max_recv_wr;
    int status, err = judge_state(qp, sending, &status);
    bool signal;

    if (STUB_UNLIKELY(err)) {
        *bad_wr = wr;
        return err;
    }
    stub_lock_take(&cq->lock);
    for (; wr && most; wr = wr->next, most--) {
        const struct ibv_send_wr *send = (struct ibv_send_wr *)wr;
        bool silent = sending && !((send->send_flags | qp->sig_all) & IBV_SEND_SIGNALED) && !status, taken;
        int opcode;

        err = (uint32_t)wr->num_sge > max_sge ? EINVAL : sending ? check_send(qp, send) : 0;
        if (STUB_UNLIKELY(err))
            break;
        opcode = sending ? wc_opcodes[send->opcode] : IBV_WC_RECV;
        if (holding && !status)
            taken = hold_one(log, room, wr->wr_id, stub_total(wr->sg_list, wr->num_sge), (uint8_t)opcode, silent);
        else
            taken = silent || stub_put(cq, wr->wr_id, status, opcode,
                                       sending ? 0 : stub_total(wr->sg_list, wr->num_sge), qp->qp.qp_num);
        if (STUB_UNLIKELY(!taken)) {
            err = ENOMEM;
            break;
        }
    }
    signal = stub_disarm(cq, status != IBV_WC_SUCCESS);
    stub_lock_give(&cq->lock);
    if (STUB_UNLIKELY(signal))
        stub_signal(cq);
    if (STUB_UNLIKELY(err))
        *bad_wr = wr;
    return err;
}

/* What libefa takes and does wrong. */
static void judge_efa_receives(const struct stub_qp *qp, const struct stub_wr *wr)
{
    if (!qp->session)
        return;
    for (; wr; wr = wr->next) {
        if (!wr->num_sge)
            stub_violation("a receive without SGEs, which takes a place for good and is never filled");
        for (int i = 0; STUB_RELEASE < 57 && i < wr->num_sge; i++)
            if (wr->sg_list[i].length > 65535)
                stub_violation("a receive of %u bytes, of which this release keeps the low 16 bits",
                               wr->sg_list[i].length);
    }
}

static int fill_shared(struct stub_srq *srq, struct stub_wr *wr, struct stub_wr **bad_wr, bool holding, int most)
{
    struct stub_qp *user;
    int err = 0;

    stub_lock_take(&srq->lock);
    user = srq->user;
    stub_lock_give(&srq->lock);
    if (user && !holding)
        return fill(user, false, wr, bad_wr, srq->attr.max_sge, false, most);
    stub_lock_take(&srq->lock);
    for (; wr && most; wr = wr->next, most--) {
        if ((uint32_t)wr->num_sge > srq->attr.max_sge)
            err = EINVAL;
        else if (srq->held >= srq->attr.max_wr)
            err = ENOMEM;
        if (err)
            break;
        srq->held++;
    }
    stub_lock_give(&srq->lock);
    if (err)
        *bad_wr = wr;
    return err;
}

/* What a lying provider leaves in *bad_wr, given what is right. */
static struct stub_wr *bad_request(enum stub_bad_wr how, struct stub_wr *before, struct stub_wr *right)
{
    switch (how) {
    case STUB_BAD_WR_UNTOUCHED: return before;
    case STUB_BAD_WR_NULL: return NULL;
    case STUB_BAD_WR_WILD: return (struct stub_wr *)(uintptr_t)0xbad0bad0bad0;
    default: return right;
    }
}

#define EVERYTHING 0x7fffffff

/* Into the queue that the verb is about: of an SRQ, or of a QP. */
static inline __attribute__((always_inline)) int take(enum stub_verb verb, struct stub_qp *qp, struct stub_srq *srq,
                                                      struct stub_wr *wr, struct stub_wr **bad_wr, bool holding,
                                                      int most)
{
    if (verb == VERB_post_srq_recv)
        return fill_shared(srq, wr, bad_wr, holding, most);
    if (verb == VERB_post_recv)
        return fill(qp, false, wr, bad_wr, qp->cap.max_recv_sge, holding, most);
    return fill(qp, true, wr, bad_wr, qp->cap.max_send_sge, holding, most);
}

static __attribute__((noinline)) int post_slowly(enum stub_verb verb, struct stub_qp *qp, struct stub_srq *srq,
                                                 struct stub_wr *wr, struct stub_wr **bad_wr)
{
    struct stub_object *object = srq ? &srq->object : &qp->object;
    enum stub_bad_wr how = STUB_BAD_WR_RIGHT;
    struct stub_wr *before = *bad_wr, *at = wr;
    int after = EVERYTHING, refuse, err;

    if ((err = stub_enter(verb, object))) {
        *bad_wr = wr;
        return stub_positive(err);
    }
    stub_capture_posted(wr, srq ? (void *)srq : (void *)qp, verb == VERB_post_send ? 0 : srq ? 2 : 1);
    refuse = stub_refusal(verb, &after, &how);
    err = take(verb, qp, srq, wr, bad_wr, atomic_load(&stub_holding), refuse ? after : EVERYTHING);
    if (!err && refuse) {
        for (int i = 0; i < after && at; i++)
            at = at->next;
        *bad_wr = bad_request(how, before, at);
        err = refuse;
    }
    stub_leave(verb, object);
    return stub_positive(err);
}

static inline __attribute__((always_inline)) int post(enum stub_verb verb, struct stub_qp *qp, struct stub_srq *srq,
                                                      struct stub_wr *wr, struct stub_wr **bad_wr)
{
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_hot, memory_order_relaxed)))
        return post_slowly(verb, qp, srq, wr, bad_wr);
    stub_count(verb);
    return take(verb, qp, srq, wr, bad_wr, false, EVERYTHING);
}

int stub_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    struct stub_wr *bad = (struct stub_wr *)*bad_wr;
    int err;

    stub_check(&qp->object, KIND_qp, VERB_post_send);
    err = post(VERB_post_send, qp, NULL, (struct stub_wr *)wr, &bad);
    stub_check(&qp->object, KIND_qp, VERB_post_send);
    if (STUB_UNLIKELY(err))
        *bad_wr = (struct ibv_send_wr *)bad;
    return err;
}

int stub_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    struct stub_wr *bad = (struct stub_wr *)*bad_wr;
    int err;

    stub_check(&qp->object, KIND_qp, VERB_post_recv);
    if (STUB_UNLIKELY(ibqp->srq != NULL)) {
        *bad_wr = wr;
        return EINVAL;
    }
    judge_efa_receives(qp, (struct stub_wr *)wr);
    err = post(VERB_post_recv, qp, NULL, (struct stub_wr *)wr, &bad);
    stub_check(&qp->object, KIND_qp, VERB_post_recv);
    if (STUB_UNLIKELY(err))
        *bad_wr = (struct ibv_recv_wr *)bad;
    return err;
}

int stub_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct stub_srq *srq = (struct stub_srq *)ibsrq;
    struct stub_wr *bad = (struct stub_wr *)*bad_wr;
    int err;

    stub_check(&srq->object, KIND_srq, VERB_post_srq_recv);
    err = post(VERB_post_srq_recv, NULL, srq, (struct stub_wr *)wr, &bad);
    stub_check(&srq->object, KIND_srq, VERB_post_srq_recv);
    if (STUB_UNLIKELY(err))
        *bad_wr = (struct ibv_recv_wr *)bad;
    return err;
}

static int release(struct stub_qp *qp, struct stub_backlog *log, struct stub_cq *cq, int count, int status)
{
    int done = 0;

    for (; done < count; done++) {
        struct stub_held held;
        struct ibv_wc wc;

        pthread_mutex_lock(&stub_mutex);
        if (!log->count) {
            pthread_mutex_unlock(&stub_mutex);
            break;
        }
        held = log->ring[log->head];
        log->head = (log->head + 1) % log->size;
        log->count--;
        pthread_mutex_unlock(&stub_mutex);
        wc = (struct ibv_wc){.wr_id = held.wr_id, .status = (enum ibv_wc_status)status, .qp_num = qp->qp.qp_num,
                             .opcode = (enum ibv_wc_opcode)held.opcode, .byte_len = held.byte_len};
        if (!held.silent || status)
            stub_push_wc(&cq->cq, &wc, 0);
    }
    return done;
}

/* Held requests of a QP in the error state come back flushed; those of one that was reset are forgotten. */
void stub_flush(struct stub_qp *qp)
{
    if (qp->qp.state == IBV_QPS_ERR) {
        release(qp, &qp->sends, qp->send_cq, EVERYTHING, IBV_WC_WR_FLUSH_ERR);
        release(qp, &qp->receives, qp->recv_cq, EVERYTHING, IBV_WC_WR_FLUSH_ERR);
        return;
    }
    pthread_mutex_lock(&stub_mutex);
    qp->sends.count = qp->receives.count = 0;
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT int stub_release(struct ibv_qp *ibqp, int receive, int count, int status)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;

    stub_check(&qp->object, KIND_qp, receive ? VERB_post_recv : VERB_post_send);
    return receive ? release(qp, &qp->receives, qp->recv_cq, count, status)
                   : release(qp, &qp->sends, qp->send_cq, count, status);
}
