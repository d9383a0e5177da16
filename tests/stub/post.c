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

/* Captured requests and their SGEs, all in arrays that grow; under stub_mutex. */
static struct captured {
    struct stub_request request;
    size_t sge_at, inline_at, inline_length;
} *captured;
static int captured_count, captured_room;
static struct ibv_sge *sges;
static size_t sge_count, sge_room;
static uint8_t *inlines;
static size_t inline_count, inline_room;
static uint32_t captured_calls;
static int capture_mode;

void stub_capture_reset(void)
{
    pthread_mutex_lock(&stub_mutex);
    free(captured);
    free(sges);
    free(inlines);
    captured = NULL;
    sges = NULL;
    inlines = NULL;
    captured_count = captured_room = 0;
    sge_count = sge_room = inline_count = inline_room = 0;
    captured_calls = 0;
    capture_mode = 0;
    pthread_mutex_unlock(&stub_mutex);
}

void stub_capture_mode(int on)
{
    pthread_mutex_lock(&stub_mutex);
    capture_mode = on;
    pthread_mutex_unlock(&stub_mutex);
}

static bool copies_inline(const struct ibv_send_wr *wr)
{
    return capture_mode == 2 && wr->send_flags & IBV_SEND_INLINE;
}

bool stub_copies_inline(void)
{
    bool copies;

    pthread_mutex_lock(&stub_mutex);
    copies = capture_mode == 2;
    pthread_mutex_unlock(&stub_mutex);
    return copies;
}

static void *grown(void *block, size_t *room, size_t needed, size_t each)
{
    if (needed <= *room)
        return block;
    *room = needed * 2 + 64;
    block = realloc(block, *room * each);
    if (!block)
        stub_die("no memory for captured requests");
    return block;
}

/* Under stub_mutex. */
static void copy_request(const struct ibv_send_wr *wr, uint64_t at, void *queue, uint32_t kind)
{
    struct captured *to;
    size_t room = (size_t)captured_room;

    captured = grown(captured, &room, (size_t)captured_count + 1, sizeof *captured);
    captured_room = (int)room;
    sges = grown(sges, &sge_room, sge_count + (size_t)wr->num_sge, sizeof *sges);
    to = &captured[captured_count++];
    to->request = (struct stub_request){.send = *wr, .queue = queue, .at = at, .call = captured_calls, .kind = kind};
    to->sge_at = sge_count;
    to->inline_at = inline_count;
    to->inline_length = 0;
    for (int i = 0; i < wr->num_sge; i++) {
        sges[sge_count++] = wr->sg_list[i];
        if (!copies_inline(wr) || !wr->sg_list[i].length)
            continue;
        inlines = grown(inlines, &inline_room, inline_count + wr->sg_list[i].length, 1);
        memcpy(inlines + inline_count, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
        inline_count += wr->sg_list[i].length;
        to->inline_length += wr->sg_list[i].length;
    }
}

/* What a session staged, once it is complete. Inline data was copied by its setter. */
void stub_capture_session(const struct stub_qp *qp)
{
    const struct stub_session *session = qp->session;

    pthread_mutex_lock(&stub_mutex);
    for (uint32_t i = 0; capture_mode && i < session->count; i++) {
        const struct stub_staged *from = &session->staged[i];
        const uint8_t *bytes = session->inlines + i * qp->cap.max_inline_data;
        struct ibv_send_wr wr = {
            .wr_id = from->wr_id, .num_sge = from->num_sge, .opcode = (enum ibv_wr_opcode)from->opcode,
            .sg_list = session->sges + i * qp->cap.max_send_sge, .send_flags = from->flags, .imm_data = from->imm,
        };
        struct captured *to;

        copy_request(&wr, i, (void *)qp, 3);
        to = &captured[captured_count - 1];
        to->request.ah = (uintptr_t)from->ah;
        to->request.remote_addr = from->remote_addr;
        to->request.remote_qpn = from->qpn;
        to->request.remote_qkey = from->qkey;
        to->request.rkey = from->rkey;
        if (!session->copies || !(from->flags & IBV_SEND_INLINE) || from->num_sge || !from->byte_len)
            continue;
        to->inline_at = inline_count;
        to->inline_length = from->byte_len;
        inlines = grown(inlines, &inline_room, inline_count + from->byte_len, 1);
        memcpy(inlines + inline_count, bytes, from->byte_len);
        inline_count += from->byte_len;
    }
    if (capture_mode)
        captured_calls++;
    pthread_mutex_unlock(&stub_mutex);
}

static void capture_sends(const struct ibv_send_wr *wr, void *queue)
{
    pthread_mutex_lock(&stub_mutex);
    if (capture_mode) {
        for (; wr; wr = wr->next)
            copy_request(wr, (uintptr_t)wr, queue, 0);
        captured_calls++;
    }
    pthread_mutex_unlock(&stub_mutex);
}

static void capture_receives(const struct ibv_recv_wr *wr, void *queue, uint32_t kind)
{
    pthread_mutex_lock(&stub_mutex);
    if (capture_mode) {
        for (; wr; wr = wr->next) {
            struct ibv_send_wr as = {.wr_id = wr->wr_id, .next = (struct ibv_send_wr *)wr->next,
                                     .sg_list = wr->sg_list, .num_sge = wr->num_sge};

            copy_request(&as, (uintptr_t)wr, queue, kind);
        }
        captured_calls++;
    }
    pthread_mutex_unlock(&stub_mutex);
}

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
    if (STUB_UNLIKELY((uint32_t)wr->num_sge > qp->cap.max_send_sge))
        return EINVAL;
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

/* Takes up to `most` requests; the rest of the contract is that of ibv_post_send. */
static inline __attribute__((always_inline)) int sends(struct stub_qp *qp, struct ibv_send_wr *wr,
                                                       struct ibv_send_wr **bad_wr, bool holding, int most)
{
    struct stub_cq *cq = qp->send_cq;
    int state = (int)qp->qp.state, status = IBV_WC_SUCCESS, err = 0;
    bool signal;

    if (STUB_UNLIKELY(state != IBV_QPS_RTS && state != IBV_QPS_SQD)) {
        if (state != IBV_QPS_ERR && state != IBV_QPS_SQE) {
            *bad_wr = wr;
            return EINVAL;
        }
        status = IBV_WC_WR_FLUSH_ERR;
    }
    stub_lock_take(&cq->lock);
    for (; wr && most; wr = wr->next, most--) {
        bool silent = !((wr->send_flags | qp->sig_all) & IBV_SEND_SIGNALED) && !status;

        if ((err = check_send(qp, wr)))
            break;
        if (holding && !status) {
            if (!hold_one(&qp->sends, qp->cap.max_send_wr, wr->wr_id, stub_total(wr->sg_list, wr->num_sge),
                          wc_opcodes[wr->opcode], silent)) {
                err = ENOMEM;
                break;
            }
            continue;
        }
        if (!silent && !stub_put(cq, wr->wr_id, status, wc_opcodes[wr->opcode], 0, qp->qp.qp_num)) {
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

static inline __attribute__((always_inline)) int receives(struct stub_qp *qp, struct ibv_recv_wr *wr,
                                                          struct ibv_recv_wr **bad_wr, uint32_t max_sge,
                                                          bool holding, int most)
{
    struct stub_cq *cq = qp->recv_cq;
    int state = (int)qp->qp.state, status = IBV_WC_SUCCESS, err = 0;
    bool signal;

    if (STUB_UNLIKELY(state == IBV_QPS_RESET && !qp->qp.srq)) {
        *bad_wr = wr;
        return EINVAL;
    }
    if (STUB_UNLIKELY(state == IBV_QPS_ERR))
        status = IBV_WC_WR_FLUSH_ERR;
    stub_lock_take(&cq->lock);
    for (; wr && most; wr = wr->next, most--) {
        if (STUB_UNLIKELY((uint32_t)wr->num_sge > max_sge)) {
            err = EINVAL;
            break;
        }
        if (holding && !status) {
            if (!hold_one(&qp->receives, qp->cap.max_recv_wr, wr->wr_id, stub_total(wr->sg_list, wr->num_sge),
                          IBV_WC_RECV, false)) {
                err = ENOMEM;
                break;
            }
            continue;
        }
        if (!stub_put(cq, wr->wr_id, status, IBV_WC_RECV, stub_total(wr->sg_list, wr->num_sge), qp->qp.qp_num)) {
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
static void judge_efa_receives(const struct stub_qp *qp, const struct ibv_recv_wr *wr)
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

static int shared_receives(struct stub_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr, bool holding,
                           int most)
{
    struct stub_qp *user;
    int err = 0;

    stub_lock_take(&srq->lock);
    user = srq->user;
    stub_lock_give(&srq->lock);
    if (user && !holding)
        return receives(user, wr, bad_wr, srq->attr.max_sge, false, most);
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
static void *bad_request(enum stub_bad_wr how, void *before, void *right)
{
    switch (how) {
    case STUB_BAD_WR_UNTOUCHED: return before;
    case STUB_BAD_WR_NULL: return NULL;
    case STUB_BAD_WR_WILD: return (void *)(uintptr_t)0xbad0bad0bad0;
    default: return right;
    }
}

#define EVERYTHING 0x7fffffff

/* The slow road of one kind of post: `CALL(holding, most)` does the work, `at` walks to the refused request. */
static __attribute__((noinline)) int slow_sends(struct stub_qp *qp, struct ibv_send_wr *wr,
                                                struct ibv_send_wr **bad_wr)
{
    enum stub_bad_wr how = STUB_BAD_WR_RIGHT;
    struct ibv_send_wr *before = *bad_wr, *at = wr;
    int after = EVERYTHING, refuse, err;

    if ((err = stub_enter(VERB_post_send, &qp->object))) {
        *bad_wr = wr;
        return stub_positive(err);
    }
    capture_sends(wr, qp);
    refuse = stub_refusal(VERB_post_send, &after, &how);
    err = sends(qp, wr, bad_wr, atomic_load(&stub_holding), refuse ? after : EVERYTHING);
    if (!err && refuse) {
        for (int i = 0; i < after && at; i++)
            at = at->next;
        *bad_wr = bad_request(how, before, at);
        err = refuse;
    }
    stub_leave(VERB_post_send, &qp->object);
    return stub_positive(err);
}

static __attribute__((noinline)) int slow_receives(enum stub_verb verb, struct stub_qp *qp, struct stub_srq *srq,
                                                   struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct stub_object *object = srq ? &srq->object : &qp->object;
    enum stub_bad_wr how = STUB_BAD_WR_RIGHT;
    struct ibv_recv_wr *before = *bad_wr, *at = wr;
    bool holding = atomic_load(&stub_holding);
    int after = EVERYTHING, refuse, most, err;

    if ((err = stub_enter(verb, object))) {
        *bad_wr = wr;
        return stub_positive(err);
    }
    capture_receives(wr, srq ? (void *)srq : (void *)qp, srq ? 2 : 1);
    refuse = stub_refusal(verb, &after, &how);
    most = refuse ? after : EVERYTHING;
    err = srq ? shared_receives(srq, wr, bad_wr, holding, most)
              : receives(qp, wr, bad_wr, qp->cap.max_recv_sge, holding, most);
    if (!err && refuse) {
        for (int i = 0; i < after && at; i++)
            at = at->next;
        *bad_wr = bad_request(how, before, at);
        err = refuse;
    }
    stub_leave(verb, object);
    return stub_positive(err);
}

int stub_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    int err;

    stub_check(&qp->object, KIND_qp, VERB_post_send);
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_hot, memory_order_relaxed)))
        err = slow_sends(qp, wr, bad_wr);
    else {
        stub_count(VERB_post_send);
        err = sends(qp, wr, bad_wr, false, EVERYTHING);
    }
    stub_check(&qp->object, KIND_qp, VERB_post_send);
    return err;
}

int stub_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    int err;

    stub_check(&qp->object, KIND_qp, VERB_post_recv);
    if (STUB_UNLIKELY(ibqp->srq != NULL)) {
        *bad_wr = wr;
        return EINVAL;
    }
    judge_efa_receives(qp, wr);
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_hot, memory_order_relaxed)))
        err = slow_receives(VERB_post_recv, qp, NULL, wr, bad_wr);
    else {
        stub_count(VERB_post_recv);
        err = receives(qp, wr, bad_wr, qp->cap.max_recv_sge, false, EVERYTHING);
    }
    stub_check(&qp->object, KIND_qp, VERB_post_recv);
    return err;
}

int stub_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct stub_srq *srq = (struct stub_srq *)ibsrq;
    int err;

    stub_check(&srq->object, KIND_srq, VERB_post_srq_recv);
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_hot, memory_order_relaxed)))
        err = slow_receives(VERB_post_srq_recv, NULL, srq, wr, bad_wr);
    else {
        stub_count(VERB_post_srq_recv);
        err = shared_receives(srq, wr, bad_wr, false, EVERYTHING);
    }
    stub_check(&srq->object, KIND_srq, VERB_post_srq_recv);
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

STUB_EXPORT int stub_captured(void)
{
    int n;

    pthread_mutex_lock(&stub_mutex);
    n = captured_count;
    pthread_mutex_unlock(&stub_mutex);
    return n;
}

STUB_EXPORT int stub_captured_request(int index, struct stub_request *ret_request)
{
    int err = EINVAL;

    pthread_mutex_lock(&stub_mutex);
    if (index >= 0 && index < captured_count) {
        *ret_request = captured[index].request;
        err = 0;
    }
    pthread_mutex_unlock(&stub_mutex);
    return err;
}

STUB_EXPORT int stub_captured_sge(int index, int which, struct ibv_sge *ret_sge)
{
    int err = EINVAL;

    pthread_mutex_lock(&stub_mutex);
    if (index >= 0 && index < captured_count && which >= 0 && which < captured[index].request.send.num_sge) {
        *ret_sge = sges[captured[index].sge_at + (size_t)which];
        err = 0;
    }
    pthread_mutex_unlock(&stub_mutex);
    return err;
}

STUB_EXPORT int stub_captured_inline(int index, void *ret_bytes, int room)
{
    int length = -1;

    pthread_mutex_lock(&stub_mutex);
    if (index >= 0 && index < captured_count) {
        length = (int)captured[index].inline_length;
        if (length && room)
            memcpy(ret_bytes, inlines + captured[index].inline_at, (size_t)(length < room ? length : room));
    }
    pthread_mutex_unlock(&stub_mutex);
    return length;
}
