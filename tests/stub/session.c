/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stub's extended operations on a QP, with the rules that libefa was seen to have: the session belongs to the
 * thread that started it, a builder comes before its setters, the first error is kept and rolls everything back, and
 * a pointer that creation did not buy is NULL. What would hang or crash in a real library ends the process with words.
 */
#include "stub.h"
#include <stdlib.h>

_Thread_local int stub_open_here;

STUB_EXPORT int stub_open_sessions(void)
{
    return stub_open_here;
}

static inline struct stub_qp *of(struct ibv_qp_ex *ex)
{
    return (struct stub_qp *)ex;
}

static inline struct stub_session *session_of(struct stub_qp *qp, const char *what)
{
    struct stub_session *session = qp->session;

    if (STUB_UNLIKELY(atomic_load_explicit(&session->owner, memory_order_relaxed) != &stub_open_here))
        stub_die("%s outside of this thread's wr_start and wr_complete", what);
    return session;
}

static __attribute__((noinline)) void slow_start(struct stub_qp *qp)
{
    struct stub_session *session = qp->session;
    enum stub_bad_wr bad;

    if (!stub_enter(VERB_wr_start, &qp->object))
        stub_leave(VERB_wr_start, &qp->object);
    session->copies = stub_copies_inline();
    session->refuse_err = stub_refusal(VERB_wr_complete, &session->refuse_at, &bad);
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct stub_qp *qp = of(ex);
    struct stub_session *session = qp->session;

    stub_check(&qp->object, KIND_qp, VERB_wr_start);
    if (STUB_UNLIKELY(atomic_load_explicit(&session->owner, memory_order_relaxed) == &stub_open_here))
        stub_die("wr_start under this thread's own wr_start would spin for good");
    stub_lock_take(&session->lock);
    session->count = 0;
    session->err = session->refuse_err = 0;
    session->copies = false;
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_hot, memory_order_relaxed)))
        slow_start(qp);
    else
        stub_count(VERB_wr_start);
    atomic_store_explicit(&session->owner, &stub_open_here, memory_order_relaxed);
    stub_open_here++;
}

static void end(struct stub_session *session)
{
    stub_open_here--;
    atomic_store_explicit(&session->owner, NULL, memory_order_relaxed);
    stub_lock_give(&session->lock);
}

/* What is wrong with one more request, in the order in which libefa looks. */
static inline int check_builder(const struct stub_qp *qp, const struct stub_session *session)
{
    unsigned int flags = qp->ex.wr_flags | qp->sig_all;

    if (STUB_UNLIKELY(session->refuse_err) && session->count == (uint32_t)session->refuse_at)
        return session->refuse_err;
    if (STUB_UNLIKELY(!(flags & IBV_SEND_SIGNALED) || flags & ~(unsigned int)(IBV_SEND_SIGNALED | IBV_SEND_INLINE)))
        return EINVAL;
    if (STUB_UNLIKELY(qp->qp.state != IBV_QPS_RTS && qp->qp.state != IBV_QPS_SQD))
        return EINVAL;
    return STUB_UNLIKELY(session->count + qp->sends.count >= qp->cap.max_send_wr) ? ENOMEM : 0;
}

static inline void build(struct ibv_qp_ex *ex, int opcode, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
    struct stub_qp *qp = of(ex);
    struct stub_session *session = session_of(qp, "a builder");

    if (STUB_UNLIKELY(session->err))
        return;
    if (STUB_UNLIKELY((session->err = check_builder(qp, session))))
        return;
    session->staged[session->count++] = (struct stub_staged){
        .wr_id = ex->wr_id, .remote_addr = remote_addr, .rkey = rkey, .imm = imm, .opcode = (uint8_t)opcode,
        .flags = (uint8_t)ex->wr_flags, .builder = 1,
    };
}

static void wr_send(struct ibv_qp_ex *ex)
{
    build(ex, IBV_WR_SEND, 0, 0, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    build(ex, IBV_WR_SEND_WITH_IMM, 0, 0, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    build(ex, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    build(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
    build(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm);
}

/* The request that a setter is about, NULL after an error. */
static inline struct stub_staged *current(struct stub_qp *qp, struct stub_session **ret_session)
{
    struct stub_session *session = session_of(qp, "a setter");

    *ret_session = session;
    if (STUB_UNLIKELY(session->err))
        return NULL;
    if (STUB_UNLIKELY(!session->count))
        stub_die("a setter before any builder");
    return &session->staged[session->count - 1];
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct stub_session *session;
    struct stub_staged *staged = current(of(ex), &session);

    if (!staged)
        return;
    if (!ah)
        stub_die("wr_set_ud_addr without an address handle");
    stub_check(&((struct stub_ah *)ah)->object, KIND_ah, VERB_wr_complete);
    staged->ah = ah;
    staged->qpn = qpn;
    staged->qkey = qkey;
}

static inline bool is_rdma(const struct stub_staged *staged)
{
    return staged->opcode != IBV_WR_SEND && staged->opcode != IBV_WR_SEND_WITH_IMM;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
    struct stub_qp *qp = of(ex);
    struct stub_session *session;
    struct stub_staged *staged = current(qp, &session);

    if (!staged)
        return;
    if (count > (is_rdma(staged) ? 1 : qp->cap.max_send_sge)) {
        session->err = EINVAL;
        return;
    }
    for (size_t i = 0; i < count; i++)
        session->sges[(session->count - 1) * qp->cap.max_send_sge + i] = list[i];
    staged->num_sge = (uint8_t)count;
    staged->byte_len = stub_total(list, (int)count);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct ibv_sge sge = {addr, length, lkey};

    wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *list)
{
    struct stub_qp *qp = of(ex);
    struct stub_session *session;
    struct stub_staged *staged = current(qp, &session);
    size_t length = 0;

    if (!staged)
        return;
    for (size_t i = 0; i < count; i++)
        length += list[i].length;
    if (is_rdma(staged) && !(session->inline_writes && staged->opcode != IBV_WR_RDMA_READ)) {
        if (STUB_RELEASE < 63)
            stub_violation("inline data on an RDMA request, which corrupts the descriptor in this release");
        session->err = EINVAL;
    } else if (length > qp->cap.max_inline_data)
        session->err = EINVAL;
    if (session->err)
        return;
    staged->byte_len = 0;
    for (size_t i = 0; i < count; i++) {
        if (session->copies && list[i].length)
            memcpy(session->inlines + (session->count - 1) * qp->cap.max_inline_data + staged->byte_len, list[i].addr,
                   list[i].length);
        staged->byte_len += (uint32_t)list[i].length;
    }
    staged->flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    struct ibv_data_buf one = {addr, length};

    wr_set_inline_data_list(ex, 1, &one);
}

static void wr_set_processing_hints(struct stub_efadv_qp *efadv, uint32_t hints)
{
    struct stub_qp *qp = (struct stub_qp *)((char *)efadv - offsetof(struct stub_qp, efadv));
    struct stub_session *session;

    (void)hints;
    current(qp, &session);
}

/* As libefa names them: a read is a send. */
static inline int completion_opcode(const struct stub_staged *staged)
{
    return staged->opcode == IBV_WR_RDMA_WRITE || staged->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RDMA_WRITE
                                                                                               : IBV_WC_SEND;
}

static int submit(struct stub_qp *qp, const struct stub_session *session)
{
    struct stub_cq *cq = qp->send_cq;
    bool signal;
    uint32_t room;

    for (uint32_t i = 0; i < session->count; i++)
        if (STUB_UNLIKELY(!session->staged[i].ah))
            stub_die("a request without wr_set_ud_addr");
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_holding, memory_order_relaxed)))
        return stub_hold_all(qp, session->staged, session->count) ? 0 : ENOMEM;
    stub_lock_take(&cq->lock);
    room = cq->mask + 1 - (atomic_load_explicit(&cq->head, memory_order_relaxed) -
                           atomic_load_explicit(&cq->tail, memory_order_relaxed));
    if (STUB_UNLIKELY(session->count > room)) {
        stub_lock_give(&cq->lock);
        return ENOMEM;
    }
    for (uint32_t i = 0; i < session->count; i++)
        stub_put(cq, session->staged[i].wr_id, IBV_WC_SUCCESS, completion_opcode(&session->staged[i]), 0,
                 qp->qp.qp_num);
    signal = session->count && stub_disarm(cq, false);
    stub_lock_give(&cq->lock);
    if (STUB_UNLIKELY(signal))
        stub_signal(cq);
    return 0;
}

static __attribute__((noinline)) int slow_complete(struct stub_qp *qp, struct stub_session *session)
{
    int err = stub_enter(VERB_wr_complete, &qp->object);

    if (err)
        return err;
    stub_leave(VERB_wr_complete, &qp->object);
    if (!session->err && session->refuse_err)
        session->err = session->refuse_err;
    if (!session->err)
        stub_capture_session(qp);
    return 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct stub_qp *qp = of(ex);
    struct stub_session *session = session_of(qp, "wr_complete");
    int err = 0;

    stub_check(&qp->object, KIND_qp, VERB_wr_complete);
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_hot, memory_order_relaxed)) || session->refuse_err)
        err = slow_complete(qp, session);
    else
        stub_count(VERB_wr_complete);
    if (!err && !(err = session->err))
        err = submit(qp, session);
    end(session);
    return stub_positive(err);
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    struct stub_qp *qp = of(ex);
    struct stub_session *session = session_of(qp, "wr_abort");

    stub_count(VERB_wr_abort);
    end(session);
}

int stub_session_make(struct stub_qp *qp, uint64_t operations, bool inline_writes)
{
    struct stub_session *session = calloc(1, sizeof *session);
    size_t depth = qp->cap.max_send_wr ? qp->cap.max_send_wr : 1;

    qp->session = session;
    if (!session)
        return ENOMEM;
    session->staged = calloc(depth, sizeof *session->staged);
    session->sges = calloc(depth * (qp->cap.max_send_sge + 1), sizeof *session->sges);
    session->inlines = calloc(depth, qp->cap.max_inline_data + 1);
    session->inline_writes = inline_writes;
    if (!session->staged || !session->sges || !session->inlines) {
        stub_session_free(qp);
        return ENOMEM;
    }
    qp->ex.wr_start = wr_start;
    qp->ex.wr_complete = wr_complete;
    qp->ex.wr_abort = wr_abort;
    qp->ex.wr_set_ud_addr = wr_set_ud_addr;
    qp->ex.wr_set_sge = wr_set_sge;
    qp->ex.wr_set_sge_list = wr_set_sge_list;
    qp->ex.wr_set_inline_data = wr_set_inline_data;
    qp->ex.wr_set_inline_data_list = wr_set_inline_data_list;
    if (operations & IBV_QP_EX_WITH_SEND)
        qp->ex.wr_send = wr_send;
    if (operations & IBV_QP_EX_WITH_SEND_WITH_IMM)
        qp->ex.wr_send_imm = wr_send_imm;
    if (operations & IBV_QP_EX_WITH_RDMA_READ)
        qp->ex.wr_rdma_read = wr_rdma_read;
    if (operations & IBV_QP_EX_WITH_RDMA_WRITE)
        qp->ex.wr_rdma_write = wr_rdma_write;
    if (operations & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
        qp->ex.wr_rdma_write_imm = wr_rdma_write_imm;
    qp->efadv.wr_set_processing_hints = wr_set_processing_hints;
    return 0;
}

void stub_session_free(struct stub_qp *qp)
{
    if (!qp->session)
        return;
    if (atomic_load(&qp->session->owner))
        stub_violation("destroy_qp between wr_start and wr_complete");
    free(qp->session->staged);
    free(qp->session->sges);
    free(qp->session->inlines);
    free(qp->session);
    qp->session = NULL;
}
