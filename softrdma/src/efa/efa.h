/* SPDX-License-Identifier: BSD-3-Clause */
/* The EFA device: what its files share. A store to the send doorbell runs the send queue in the thread that made it
 * (requester.c), which acts as the responder on the target's queue pair (responder.c), whatever process that belongs
 * to. SRD requests have nothing to do with each other: one that has to wait steps aside for those behind it. */
#ifndef SOFTRDMA_EFA_EFA_H
#define SOFTRDMA_EFA_EFA_H

#include "../device.h"
#include "../fabric/copy.h"
#include "../region.h"
#include "io.h"

#define EFA_KEY_SHIFT 6 /* keys have 24 bits in descriptors */
#define EFA_QPT_SRD 0xff /* IB_QPT_DRIVER; the other type is UD */
#define EFA_SUB_CQS 2
#define EFA_SEND_SUB_CQ 0
#define EFA_RECV_SUB_CQ 1
#define EFA_MAX_RX_SGE 16 /* of any make */
#define EFA_GRH 40u       /* that much of a datagram's receive stays for a header */
#define EFA_RNR_FOREVER 7
#define EFA_COUNT_KINDS 6

/* What a make of the device can do, and how much. */
struct efa_make {
    int number; /* last digit of the PCI device id, 0xefa0 and up */
    uint32_t caps;
    uint32_t mtu, max_rdma_size;
    uint32_t max_qp, max_cq, max_mr, max_pd, max_ah, max_cqe;
    uint32_t max_sq_wr, max_rq_wr;
    uint16_t max_sq_sge, max_rq_sge, max_rdma_sge;
    uint16_t inline_size, inline_size_ex;
};

const struct efa_make *efa_make_of(const struct device *d);
bool efa_has_make(int number);

/* In the heap, beside a CQ. Under cq.lock. */
struct efa_cq {
    uint32_t entries, entry_size; /* of each of the sub-queues */
    uint32_t produced[EFA_SUB_CQS];
    uint32_t sn; /* of the arming that comes next */
    uint32_t with_sgid;
    /* the program's memory, where the queue lies in it: in that process, mapped for it if it came by a descriptor */
    uint32_t external, proc;
    uint64_t start, mapping, mapped;
};

/* A request that was taken off the ring and waits. */
struct efa_pending {
    uint64_t due;   /* now_ns */
    uint64_t since; /* of the first try */
    uint32_t tries;
    uint32_t fault_state;  /* faults.c */
    uint32_t fault_answer; /* what the target said, plus 1, if that was lost on the way */
    uint32_t pad;
    struct efa_tx_wqe wqe;
};

/* In the heap, beside a QP. The first part under sq_lock, the second under rq_lock. */
struct efa_qp {
    uint32_t flags; /* EFA_QP_* */
    uint32_t sq_entries, sq_stride;
    uint64_t sq_start;           /* of the descriptors: offset in the file */
    uint16_t sq_rung, sq_taken;  /* what the doorbell said last, and how far the ring has been read */
    uint32_t npending, drawn;    /* drawn: of the random numbers for reordering */
    uint64_t met;                /* devices, as bits, that have answered */

    uint32_t rq_entries;
    uint64_t rq_doorbell;
    uint16_t rq_taken;

    uint16_t counter[EFA_COUNT_KINDS]; /* index + 1 of what counts each kind of operation (counter.h); under both locks */

    struct efa_pending pending[];
};

/* A request on its way: the requester's half of a message. */
struct efa_request {
    struct region *r;
    struct qp *qp;
    const struct efa_tx_wqe *wqe;
    struct efa_pending *pending; /* what wqe is a part of */
    bool lose_answer;            /* by somebody's demand */
    uint32_t opcode;
    uint64_t length;
    uint8_t sgid[16]; /* from whom */
    uint32_t nlocal;
    struct segment local[EFA_TX_BUFS + 1]; /* one place more for a GRH */
};

/* Beside a status: the request has to wait. */
#define EFA_STATUS_MOST 0xff /* that field has 8 bits, any of which somebody may demand */
#define EFA_WAIT_RNR 0x100    /* no receive */
#define EFA_WAIT_ANSWER 0x101 /* nobody answers */
#define EFA_WAIT_LATE 0x102   /* on its way until efa_pending.due, by somebody's demand */

extern const struct device_model efa_model;

static inline struct efa_cq *efa_cq_of(struct region *r, const struct cq *cq)
{
    return region_at(r, cq->own.offset, sizeof(struct efa_cq));
}

static inline struct efa_qp *efa_qp_of(struct region *r, const struct qp *qp)
{
    return region_at(r, qp->own.offset, qp->own.size);
}

/* objects.c: what a CQ and a QP have in the heap. */
int efa_create_cq(struct call *c, struct cq *cq, uint32_t *cqe);
void efa_destroy_cq(struct region *r, struct cq *cq);
int efa_create_qp(struct call *c, struct qp *qp, struct ib_uverbs_qp_cap *cap);
void efa_destroy_qp(struct region *r, struct qp *qp);

/* address.c */
int efa_check_ah(const struct call *c, const struct ib_uverbs_ah_attr *attr, uint8_t ret_sgid[16]);
int efa_create_ah(struct call *c, struct ah *ah, uint32_t index);
void efa_destroy_ah(struct region *r, struct ah *ah);
/* The GID of that number, in a PD. */
bool efa_find_gid(struct region *r, uint32_t pd, uint16_t ahn, uint8_t ret_gid[16]);
/* The number for that GID, EFA_NO_AH if the PD has none. */
uint16_t efa_find_ahn(struct region *r, uint32_t pd, const uint8_t *gid);
/* The number of a queue pair, and the way back: its table index, or NONE. */
uint32_t efa_take_qpn(struct region *r, uint32_t device, uint32_t qp);
void efa_drop_qpn(struct region *r, uint32_t device, uint32_t qpn);
uint32_t efa_find_qp(struct region *r, uint32_t device, uint32_t qpn);

/* complete.c: the caller gives everything but flags and phase. Under a lock of the queue pair. */
void efa_complete(struct region *r, uint32_t cq, struct efa_cqe *e, enum efa_queue queue, uint32_t opcode,
                  uint32_t flags);
void efa_ring_cq(struct region *r, struct cq *cq, uint32_t value);

/* requester.c */
void efa_ring_qp(struct region *r, struct qp *qp, uint32_t value, bool later);
void efa_run(struct region *r, struct qp *qp);
/* Completes everything in the send queue as flushed; the caller holds sq_lock. */
void efa_flush_sends(struct region *r, struct qp *qp);

/* One try: an efa_status, or EFA_WAIT_*; the caller holds sq_lock. */
int efa_execute(struct region *r, struct qp *qp, struct efa_pending *p, bool *ret_lose_answer);

/* faults.c: efa_execute while there are rules, or while one's effect lasts. */
int efa_execute_faulty(struct region *r, struct qp *qp, struct efa_pending *p);
/* A message reaches its target: EFA_OK, or what becomes of it instead. */
int efa_arrives(struct region *r, struct qp *peer, struct efa_pending *p, bool *ret_lose);
/* With what a receive ends that would be good. */
int efa_receive_status(struct region *r, const struct qp *qp);
/* Is a completion lost because somebody wants the queue to overrun? Under cq.lock; *ret_tell: raise CQ_ERR after it. */
bool efa_overruns(struct region *r, struct cq *cq, const struct efa_cqe *e, bool *ret_tell);

/* responder.c: the caller holds rq_lock of the target, r->qp[index], and has found it willing. An efa_status, or
 * EFA_WAIT_*. */
int efa_respond(struct region *r, uint32_t index, struct efa_request *q);
void efa_flush_receives(struct region *r, struct qp *qp);

/* modify.c */
int efa_modify_qp(struct region *r, struct qp *qp, const struct ib_uverbs_modify_qp *attr);
void efa_break_qp(struct region *r, struct qp *qp);
int efa_query_qp(struct region *r, struct qp *qp, uint32_t mask, struct ib_uverbs_query_qp_resp *out);

static inline uint32_t efa_qp_index(const struct region *r, const struct qp *qp)
{
    return (uint32_t)(qp - r->qp);
}

static inline uint64_t efa_addr(const struct efa_tx_buf *b)
{
    return (uint64_t)b->addr_hi << 32 | b->addr_lo;
}

#endif
