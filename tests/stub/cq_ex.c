/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stub's extended polling. As in libefa a start that finds something holds the queue until end_poll, a reader
 * that was not asked for at creation is no function, and queue pairs cannot be destroyed meanwhile.
 */
#include "stub.h"
#include <stdlib.h>

static inline struct stub_cq *of(struct ibv_cq_ex *ex)
{
    return (struct stub_cq *)ex;
}

static inline bool own(const struct stub_poll *poll)
{
    return atomic_load_explicit(&poll->owner, memory_order_relaxed) == &stub_open_here;
}

static inline bool take(struct stub_cq *cq)
{
    bool found;

    if (atomic_load_explicit(&cq->head, memory_order_acquire) == atomic_load_explicit(&cq->tail, memory_order_relaxed))
        return false;
    stub_lock_take(&cq->lock);
    found = stub_take_one(cq, &cq->poll.wc, &cq->poll.extra);
    stub_lock_give(&cq->lock);
    if (found) {
        cq->ex.status = cq->poll.wc.status;
        cq->ex.wr_id = cq->poll.wc.wr_id;
    }
    return found;
}

static __attribute__((noinline)) int slow(struct stub_cq *cq, enum stub_verb verb)
{
    int err = stub_enter(verb, &cq->object);

    if (!err)
        stub_leave(verb, &cq->object);
    return err;
}

static inline int door(struct stub_cq *cq, enum stub_verb verb)
{
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_hot, memory_order_relaxed)))
        return slow(cq, verb);
    stub_count(verb);
    return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct stub_cq *cq = of(ex);
    struct stub_poll *poll = &cq->poll;
    int err;

    stub_check(&cq->object, KIND_cq, VERB_start_poll);
    if (own(poll))
        stub_die("start_poll under this thread's own start_poll would spin for good");
    if (attr && attr->comp_mask)
        return EINVAL;
    stub_lock_take(&poll->lock);
    err = door(cq, VERB_start_poll);
    if (!err && !take(cq))
        err = ENOENT;
    if (err) {
        stub_lock_give(&poll->lock);
        return stub_positive(err);
    }
    atomic_store_explicit(&poll->owner, &stub_open_here, memory_order_relaxed);
    stub_open_here++;
    return 0;
}

static inline struct stub_poll *open_poll(struct stub_cq *cq, const char *what)
{
    if (STUB_UNLIKELY(!own(&cq->poll)))
        stub_die("%s outside of this thread's start_poll and end_poll", what);
    return &cq->poll;
}

static int next_poll(struct ibv_cq_ex *ex)
{
    struct stub_cq *cq = of(ex);
    int err;

    open_poll(cq, "next_poll");
    if ((err = door(cq, VERB_next_poll)))
        return stub_positive(err);
    return take(cq) ? 0 : ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex)
{
    struct stub_cq *cq = of(ex);
    struct stub_poll *poll = open_poll(cq, "end_poll");

    door(cq, VERB_end_poll);
    stub_open_here--;
    atomic_store_explicit(&poll->owner, NULL, memory_order_relaxed);
    stub_lock_give(&poll->lock);
}

/* Readers of struct ibv_wc, by the names of both structures. */
#define READERS(X) \
    X(opcode, enum ibv_wc_opcode, opcode) X(vendor_err, uint32_t, vendor_err) X(byte_len, uint32_t, byte_len) \
    X(imm_data, __be32, imm_data) X(qp_num, uint32_t, qp_num) X(src_qp, uint32_t, src_qp) \
    X(wc_flags, unsigned int, wc_flags) X(slid, uint32_t, slid) X(sl, uint8_t, sl) \
    X(dlid_path_bits, uint8_t, dlid_path_bits)

#define READER(name, type, member) \
    static type read_##name(struct ibv_cq_ex *ex) \
    { \
        return open_poll(of(ex), "read_" #name)->wc.member; \
    }
READERS(READER)

static int read_sgid(struct stub_efadv_cq *efadv, union ibv_gid *ret_sgid)
{
    struct stub_cq *cq = (struct stub_cq *)((char *)efadv - offsetof(struct stub_cq, efadv));
    struct stub_poll *poll = open_poll(cq, "wc_read_sgid");

    if (!poll->extra.has_sgid)
        return -ENOENT;
    *ret_sgid = poll->extra.sgid;
    return 0;
}

static bool is_unsolicited(struct stub_efadv_cq *efadv)
{
    struct stub_cq *cq = (struct stub_cq *)((char *)efadv - offsetof(struct stub_cq, efadv));

    return open_poll(cq, "wc_is_unsolicited")->extra.unsolicited;
}

void stub_poll_ops(struct stub_cq *cq, uint64_t wc_flags, uint64_t efa_wc_flags)
{
    struct ibv_cq_ex *ex = &cq->ex;

    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_wc_flags = read_wc_flags;
#define BOUGHT(flag, name) if (wc_flags & (flag)) ex->read_##name = read_##name
    BOUGHT(IBV_WC_EX_WITH_BYTE_LEN, byte_len);
    BOUGHT(IBV_WC_EX_WITH_IMM, imm_data);
    BOUGHT(IBV_WC_EX_WITH_QP_NUM, qp_num);
    BOUGHT(IBV_WC_EX_WITH_SRC_QP, src_qp);
    BOUGHT(IBV_WC_EX_WITH_SLID, slid);
    BOUGHT(IBV_WC_EX_WITH_SL, sl);
    BOUGHT(IBV_WC_EX_WITH_DLID_PATH_BITS, dlid_path_bits);
    if (efa_wc_flags & STUB_EFA_WC_SGID)
        cq->efadv.wc_read_sgid = read_sgid;
    if (efa_wc_flags & STUB_EFA_WC_UNSOLICITED)
        cq->efadv.wc_is_unsolicited = is_unsolicited;
#if STUB_RELEASE < 52
    /* The structure ends before it: what is read there is the next member of another. */
    cq->efadv.wc_is_unsolicited = (bool (*)(struct stub_efadv_cq *))(uintptr_t)2;
#endif
}

void stub_wait_polled(struct stub_cq *cq, const char *what)
{
    if (own(&cq->poll))
        stub_die("the destruction of a %s inside this thread's start_poll would wait for good", what);
    stub_lock_take(&cq->poll.lock);
    stub_lock_give(&cq->poll.lock);
}
