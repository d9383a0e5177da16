/* SPDX-License-Identifier: BSD-3-Clause */
/* The rxe-compatible NIC: what its files share. A doorbell runs the send queue in the calling thread
 * (requester.c), which acts as the responder on the peer's queue pair (responder.c), whatever process that
 * belongs to. */
#ifndef SOFTRDMA_RXE_RXE_H
#define SOFTRDMA_RXE_RXE_H

#include "../device.h"
#include "../fabric/copy.h"
#include "../region.h"

#include <rdma/rdma_user_rxe.h>

#define RXE_MAX_SGE 32
#define RXE_MAX_SRQ_SGE 27
#define RXE_MAX_WR (1u << 20)
#define RXE_MAX_INLINE 512
#define RXE_MAX_CQE 32767
#define RXE_MAX_RD_ATOMIC 128
#define RXE_MAX_MESSAGE 0x80000000u
#define RXE_UD_MTU 4096u
#define RXE_GRH 40u
#define RXE_PSN_MASK 0xffffffu
#define RXE_KEY_SHIFT 8

enum rxe_opcode {
    RXE_WRITE = 0,
    RXE_WRITE_IMM = 1,
    RXE_SEND = 2,
    RXE_SEND_IMM = 3,
    RXE_READ = 4,
    RXE_CMP_SWAP = 5,
    RXE_FETCH_ADD = 6,
    RXE_LOCAL_INV = 7,
    RXE_BIND_MW = 8,
    RXE_SEND_INV = 9,
    RXE_FLUSH = 14,
    RXE_ATOMIC_WRITE = 15,
};

enum { RXE_FLAG_FENCE = 1, RXE_FLAG_SIGNALED = 2, RXE_FLAG_SOLICITED = 4, RXE_FLAG_INLINE = 8 };

enum rxe_status { /* ibv_wc_status, and three that never reach a completion */
                  WC_SUCCESS,
                  WC_LOC_LEN_ERR,
                  WC_LOC_QP_OP_ERR,
                  WC_LOC_EEC_OP_ERR,
                  WC_LOC_PROT_ERR,
                  WC_WR_FLUSH_ERR,
                  WC_MW_BIND_ERR,
                  WC_BAD_RESP_ERR,
                  WC_LOC_ACCESS_ERR,
                  WC_REM_INV_REQ_ERR,
                  WC_REM_ACCESS_ERR,
                  WC_REM_OP_ERR,
                  WC_RETRY_EXC_ERR,
                  WC_RNR_RETRY_EXC_ERR,
                  RXE_NOT_READY = 100, /* the responder has no receive */
                  RXE_NO_ANSWER = 101, /* nobody acknowledges */
                  RXE_LATE = 102,      /* on its way, by somebody's demand */
};

/* Of a completion, as ib_user_verbs.h lacks them. */
enum { WC_OP_RECV = 128, WC_OP_RECV_RDMA_WITH_IMM = 129 };
enum { WC_FLAG_GRH = 1, WC_FLAG_WITH_IMM = 2, WC_FLAG_WITH_INV = 8 };

#define ACCESS_FLUSH_GLOBAL (1u << 8)
#define ACCESS_FLUSH_PERSISTENT (1u << 9)

/* A request on its way: the requester's half of a message. */
struct rxe_request {
    struct region *r;
    struct qp *qp;
    uint32_t opcode, flags, length;
    uint32_t psn, npsn; /* first, and how many it takes */
    uint32_t imm;       /* or the key to invalidate, as the WQE has it */
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t compare_add, swap;
    uint8_t flush_type, flush_level;
    const uint8_t *sgid, *dgid;
    uint32_t qkey;
    uint8_t traffic_class;
    bool lose_answer; /* by somebody's demand */
    int nlocal;
    struct segment local[RXE_MAX_SGE + 2]; /* one place before for a GRH */
};

/* What the responder made of it. */
struct rxe_answer {
    enum rxe_status status; /* for the requester */
    bool broke_responder;   /* its QP is in ERR now, and its send queue still has to be flushed */
    uint32_t rnr_timer;     /* with RXE_NOT_READY: of the responder */
    uint32_t vendor_err;
    uint64_t delay_ns; /* with RXE_LATE */
};

extern const struct device_model rxe_model, iwarp_model;

/* queue.c */
int rxe_queue_create(struct region *r, struct queue *q, uint32_t entries, uint64_t element_size);
void rxe_queue_destroy(struct region *r, struct queue *q);
/* A larger or smaller ring with the same contents; the old memory is freed. */
int rxe_queue_resize(struct region *r, struct queue *q, uint32_t entries);
struct mminfo rxe_queue_info(const struct queue *q);

static inline struct rxe_queue_buf *rxe_ring(struct region *r, const struct queue *q)
{
    return region_at(r, q->offset, q->size);
}

static inline uint32_t rxe_producer(struct region *r, const struct queue *q)
{
    return __atomic_load_n(&rxe_ring(r, q)->producer_index, __ATOMIC_ACQUIRE) & q->mask;
}

static inline uint32_t rxe_consumer(struct region *r, const struct queue *q)
{
    return __atomic_load_n(&rxe_ring(r, q)->consumer_index, __ATOMIC_ACQUIRE) & q->mask;
}

static inline void rxe_set_producer(struct region *r, const struct queue *q, uint32_t i)
{
    __atomic_store_n(&rxe_ring(r, q)->producer_index, i & q->mask, __ATOMIC_RELEASE);
}

static inline void rxe_set_consumer(struct region *r, const struct queue *q, uint32_t i)
{
    __atomic_store_n(&rxe_ring(r, q)->consumer_index, i & q->mask, __ATOMIC_RELEASE);
}

static inline void *rxe_slot(struct region *r, const struct queue *q, uint32_t i)
{
    return rxe_ring(r, q)->data + ((size_t)(i & q->mask) << q->log2);
}

static inline uint32_t rxe_queue_used(struct region *r, const struct queue *q)
{
    return (rxe_producer(r, q) - rxe_consumer(r, q)) & q->mask;
}

/* complete.c: solicited counts for an arming that asked for solicited completions only. false: the queue was
 * full. */
bool rxe_complete(struct region *r, uint32_t cq, const struct ib_uverbs_wc *wc, bool solicited);

/* keys.c */
/* Segments for at most `want` bytes of a scatter list; their number, or -1 when a key does not cover its
 * part. */
int rxe_local_segments(struct region *r, uint32_t pd, const struct rxe_sge *sge, uint32_t n, bool writable,
                       uint64_t want, struct segment *out, uint64_t *ret_total);
/* The segment that a remote key names; the caller holds the responder's rq_lock. */
bool rxe_remote_segment(struct region *r, uint32_t qp, uint32_t key, uint64_t addr, uint64_t length,
                        uint32_t access, bool whole_region, struct segment *out);
bool rxe_bind(struct region *r, uint32_t qp, const struct rxe_send_wr *wr);
bool rxe_invalidate(struct region *r, uint32_t pd, uint32_t key);

/* grh.c: the 40 bytes that precede a datagram in the receiver's memory. */
void rxe_make_grh(uint8_t *grh, const struct rxe_request *q);

/* responder.c: the caller holds r->qp[qp].rq_lock and has found the QP willing to listen. */
struct rxe_answer rxe_respond(struct region *r, uint32_t qp, struct rxe_request *q);
/* Completes every posted receive with a flush error; the caller holds rq_lock. */
void rxe_flush_receives(struct region *r, struct qp *qp);
/* The responder's half of an error: state ERR, receives flushed; the caller holds rq_lock. */
void rxe_break_responder(struct region *r, struct qp *qp);

/* requester.c */
int rxe_doorbell(struct region *r, struct qp *qp);
void rxe_run(struct region *r, struct qp *qp);
/* The same under sq_lock, held by the caller. Returns a responder whose send queue has yet to be flushed by
 * rxe_flush_other once the lock is given back. */
struct rxe_loose_end {
    struct region *r; /* NULL: none */
    uint32_t qp;
};
struct rxe_loose_end rxe_run_locked(struct region *r, struct qp *qp);
void rxe_flush_other(struct rxe_loose_end end);
/* Completes every posted send with a flush error; the caller holds sq_lock. */
void rxe_flush_sends(struct region *r, struct qp *qp);

/* One request, whatever becomes of it; the caller holds sq_lock. */
struct rxe_answer rxe_execute(struct region *r, struct qp *qp, const struct rxe_send_wqe *w, struct rxe_send_wqe *slot,
                              struct rxe_loose_end *end);
/* What the data path reads of a request, before it believes any of it. */
void rxe_copy_request(struct rxe_send_wqe *w, const struct rxe_send_wqe *slot, uint32_t type);

/* faults.c: rxe_execute while there are rules, or while one's effect lasts. */
struct rxe_answer rxe_execute_faulty(struct region *r, struct qp *qp, const struct rxe_send_wqe *w,
                                     struct rxe_send_wqe *slot, struct rxe_loose_end *end);
/* The head request is finished. */
void rxe_faults_next(struct qp *qp);
/* A message reaches a queue pair: false if it does not, with what its sender hears. */
bool rxe_arrives(struct region *r, struct qp *peer, struct rxe_request *q, struct rxe_answer *ret_answer);
/* The responder has answered, and the requester does not hear it: not until it tries again. */
struct rxe_answer rxe_lose_answer(struct qp *qp, struct rxe_answer answer);

/* modify.c */
int rxe_modify_qp(struct region *r, struct qp *qp, const struct ib_uverbs_modify_qp *attr);
/* What a program asks of an iWARP queue pair: its connection moves it, and librdmacm's steps on the way change nothing. */
int rxe_modify_qp_iwarp(struct region *r, struct qp *qp, const struct ib_uverbs_modify_qp *attr);
void rxe_break_qp(struct region *r, struct qp *qp);
int rxe_query_qp(struct region *r, struct qp *qp, uint32_t mask, struct ib_uverbs_query_qp_resp *out);
/* The one place where a state changes. */
void rxe_set_state(struct region *r, struct qp *qp, enum qp_state state);

static inline uint32_t rxe_qp_index(const struct region *r, const struct qp *qp)
{
    return (uint32_t)(qp - r->qp);
}

static inline uint32_t rxe_mtu(const struct qp *qp)
{
    return 128u << (qp->attr.path_mtu ? qp->attr.path_mtu : 1);
}

#endif
