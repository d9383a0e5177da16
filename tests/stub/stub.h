/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the stub libibverbs share: its objects, the list of its verbs, and the door that every call
 * goes through, where calls are counted, delayed and made to fail. For tests and benchmarks only.
 */
#ifndef STUB_H
#define STUB_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "control.h"
#include "efadv.h"

/* The rdma-core release that a build plays: what is younger is missing. The oldest ends where verbs_context does. */
#define STUB_OLDEST 13
#define STUB_NEWEST 65
#ifndef STUB_RELEASE
#define STUB_RELEASE STUB_NEWEST
#endif

/* What the EFA device can do, as far as libefa of the release tells. */
#if STUB_RELEASE >= 65
#define STUB_EFA_CAPS 0x7fu
#elif STUB_RELEASE >= 59
#define STUB_EFA_CAPS 0x3fu
#elif STUB_RELEASE >= 43
#define STUB_EFA_CAPS 0x7u
#else
#define STUB_EFA_CAPS 0x3u
#endif

#define STUB_VERBS(X) \
    X(get_device_list) X(free_device_list) X(open_device) X(close_device) X(query_device) X(query_device_ex) \
    X(query_port) X(query_port_compat) X(query_gid) X(query_gid_ex) X(query_gid_table) X(query_pkey) \
    X(get_pkey_index) X(alloc_pd) X(dealloc_pd) X(reg_mr) X(reg_mr_iova2) X(reg_dmabuf_mr) X(rereg_mr) X(dereg_mr) \
    X(create_comp_channel) X(destroy_comp_channel) X(get_cq_event) X(ack_cq_events) X(create_cq) X(resize_cq) \
    X(destroy_cq) X(req_notify_cq) X(poll_cq) X(create_srq) X(modify_srq) X(query_srq) X(destroy_srq) \
    X(post_srq_recv) X(create_qp) X(modify_qp) X(query_qp) X(destroy_qp) X(post_send) X(post_recv) X(create_ah) \
    X(destroy_ah) X(attach_mcast) X(detach_mcast) X(get_async_event) X(ack_async_event) X(fork_init) \
    X(create_qp_ex) X(wr_start) X(wr_complete) X(wr_abort) X(start_poll) X(next_poll) X(end_poll) \
    X(efadv_query_device) X(efadv_query_ah) X(efadv_create_qp_ex) X(efadv_create_cq) X(efadv_query_mr) \
    X(efadv_query_cq) X(efadv_query_qp_wqs) X(efadv_get_max_sq_depth) X(efadv_get_max_rq_depth) \
    X(efadv_create_comp_cntr) X(destroy_comp_cntr) X(read_comp_cntr) X(read_err_comp_cntr) X(set_comp_cntr) \
    X(set_err_comp_cntr) X(inc_comp_cntr) X(inc_err_comp_cntr) X(qp_attach_comp_cntr)

enum stub_verb {
#define X(name) VERB_##name,
    STUB_VERBS(X)
#undef X
    VERB_COUNT
};

#define STUB_KINDS(X) X(context) X(pd) X(mr) X(cq) X(channel) X(qp) X(srq) X(ah) X(comp_cntr) X(device_list)

enum stub_kind {
#define X(name) KIND_##name,
    STUB_KINDS(X)
#undef X
    KIND_COUNT
};

#define STUB_LIKELY(x) __builtin_expect(!!(x), 1)
#define STUB_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* In every object, behind the public structure. A destroyed object keeps its memory for a while, so that a later
 * use of it meets a magic that does not fit. */
struct stub_object {
    _Atomic uint32_t magic;
    enum stub_kind kind;
    atomic_int busy;              /* threads inside a call on it */
    int children;                 /* under stub_lock: what must go before it */
    struct stub_object *parent;
    void *block;                  /* what free() takes */
};

struct stub_lock {
    atomic_flag taken;
};

struct stub_event {
    struct stub_event *next;
    struct ibv_async_event async;
    struct ibv_cq *cq;
};

/* Events behind a descriptor: an eventfd whose value is the length of the list. */
struct stub_queue {
    int fd;
    struct stub_event *first, **last;
};

struct stub_efa_limits {
    uint32_t max_sq_wr, max_rq_wr, max_rdma_size, caps;
    uint16_t max_sq_sge, max_rq_sge, inline_buf_size, inline_buf_size_ex;
};

struct stub_context {
    struct verbs_context vctx;
    struct stub_object object;
    int device;
    struct stub_queue events;
};

struct stub_pd {
    struct ibv_pd pd;
    struct stub_object object;
};

struct stub_mr {
    struct ibv_mr mr;
    struct stub_object object;
};

/* A struct ibv_comp_cntr, which older headers lack, begins with these two. */
struct stub_comp_cntr {
    struct ibv_context *context;
    uint32_t handle;
    struct stub_object object;
    uint64_t *values[2];
    uint64_t own[2];
};

struct stub_attach_comp_cntr_attr {
    uint32_t comp_mask, op_mask;
};

struct stub_comp_cntr *stub_comp_cntr_new(struct ibv_context *context, uint64_t *comp, uint64_t *err);

struct stub_ah {
    struct ibv_ah ah;
    struct stub_object object;
    struct ibv_ah_attr attr;
};

struct stub_channel {
    struct ibv_comp_channel channel;
    struct stub_object object;
    int quiet;                    /* under stub_mutex: CQs of efadv_create_cq, which keep no channel from going */
    struct stub_queue events;
};

/* What a completion of efadv_create_cq has beyond struct ibv_wc. */
struct stub_extra {
    union ibv_gid sgid;
    bool has_sgid, unsolicited;
};

/* An extended poll, from the start that found something to its end. */
struct stub_poll {
    struct stub_lock lock;
    _Atomic(int *) owner;         /* the thread's stub_open_here; NULL: closed */
    struct ibv_wc wc;             /* the current completion */
    struct stub_extra extra;
};

struct stub_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex ex;      /* begins with the same members */
    };
    struct stub_object object;
    struct stub_channel *channel; /* that of efadv_create_cq does not stand in `cq` */
    struct stub_poll poll;
    struct stub_extra *extras;    /* beside the ring, NULL for an ordinary CQ */
    struct stub_efadv_cq efadv;
    struct stub_lock lock;        /* of the ring and `armed` */
    int armed;                    /* 0 no, 1 for solicited ones, 2 for any */
    uint32_t mask;                /* the ring's length less one */
    _Atomic uint32_t head, tail;  /* put at head, taken at tail; changed under the lock */
    struct ibv_wc *ring;
    uint32_t comp_reported, async_reported;   /* under stub_lock: events that were read */
};

struct stub_srq {
    struct ibv_srq srq;
    struct stub_object object;
    struct stub_lock lock;
    struct ibv_srq_attr attr;
    struct stub_qp *user;         /* the QP made last: its receive CQ gets the completions */
    uint32_t held;
    uint32_t reported;
};

/* How struct ibv_send_wr and struct ibv_recv_wr begin, both. */
struct __attribute__((may_alias)) stub_wr {
    uint64_t wr_id;
    struct stub_wr *next;
    struct ibv_sge *sg_list;
    int num_sge;
};
_Static_assert(offsetof(struct stub_wr, num_sge) == offsetof(struct ibv_send_wr, num_sge) &&
                   offsetof(struct stub_wr, num_sge) == offsetof(struct ibv_recv_wr, num_sge), "a common beginning");

struct stub_held {
    uint64_t wr_id;
    uint32_t byte_len;
    uint16_t opcode;
    uint16_t silent;              /* completes without an entry */
};

/* Requests held back by stub_hold. */
struct stub_backlog {
    struct stub_held *ring;
    uint32_t size, head, count;
};

/* A request between its builder and wr_complete. */
struct stub_staged {
    uint64_t wr_id, remote_addr;
    struct ibv_ah *ah;
    uint32_t rkey, qpn, qkey, byte_len;
    __be32 imm;
    uint8_t opcode, flags, num_sge, builder;
};

/* What stands between wr_start and wr_complete of a QP that has extended operations. */
struct stub_session {
    struct stub_lock lock;        /* from start to complete or abort, as the real one's spinlock */
    _Atomic(int *) owner;         /* the thread's stub_open_here; NULL: closed */
    int err, refuse_err, refuse_at;
    uint32_t count;
    struct stub_staged *staged;   /* max_send_wr of them, each with max_send_sge of `sges` */
    struct ibv_sge *sges;
    uint8_t *inlines;             /* max_inline_data for each */
    bool inline_writes;
    bool copies;                  /* inline data, whose addresses else need not exist */
};

struct stub_qp {
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex ex;
    };
    struct stub_object object;
    struct stub_session *session; /* NULL without extended operations */
    struct stub_efadv_qp efadv;
    uint16_t efa_flags;
    struct stub_cq *send_cq, *recv_cq;
    struct ibv_qp_cap cap;
    uint32_t sig_all;             /* IBV_SEND_SIGNALED where every request is */
    struct ibv_qp_attr attr;
    struct stub_backlog sends, receives;   /* under stub_lock */
    uint32_t reported;
};

/* Set while a fault, delay, gate, capture, hold or lie is on: post and poll then take their slow road. */
extern atomic_int stub_hot;

/* Of everything but the rings. Not held across a wait. */
extern pthread_mutex_t stub_mutex;

extern _Atomic unsigned long stub_call_counts[VERB_COUNT];
extern atomic_int stub_lenient, stub_holding;

/* Extended sessions and polls that this thread has open. */
extern _Thread_local int stub_open_here __attribute__((tls_model("initial-exec")));

/*
 * What libefa.so.1 of the stub calls in libibverbs.so.1 is exported too; the names begin with stub_.
 */

/* control.c */
STUB_EXPORT _Noreturn void stub_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
STUB_EXPORT void stub_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
STUB_EXPORT _Noreturn void stub_dead(enum stub_verb verb, enum stub_kind kind, const void *object);
enum stub_verb stub_verb_named(const char *name);

/* Opens the door for a call on an object (or NULL). Returns 0, or the error to fail with; then the call is over. */
STUB_EXPORT int stub_enter(enum stub_verb verb, struct stub_object *object);
STUB_EXPORT void stub_leave(enum stub_verb verb, struct stub_object *object);

/* Allocation: zeroed, counted. `offset` is that of the stub_object. The parent's children grow by one. */
void *stub_new(enum stub_kind kind, size_t size, size_t offset, struct stub_object *parent);
/* Takes an object away; EBUSY (and nothing done) while it has children. */
int stub_delete(struct stub_object *object);
void stub_adopt(struct stub_object *parent, int by);

bool stub_poll_lies(int *ret_value);
int stub_refusal(enum stub_verb verb, int *ret_after, enum stub_bad_wr *ret_bad);

/* device.c */
/* NULL: no EFA device. */
STUB_EXPORT const struct stub_efa_limits *stub_efa_limits(const struct ibv_context *context);
const struct ibv_device_attr *stub_limits(const struct ibv_context *context);
int stub_port_count(const struct ibv_context *context);
int stub_gid_count(void);
void stub_reset_devices(void);

/* events.c */
int stub_queue_open(struct stub_queue *queue);
void stub_queue_close(struct stub_queue *queue);
void stub_queue_purge(struct stub_queue *queue, const void *object);
void stub_wait_acked(const uint32_t *completed, const uint32_t *reported, const char *what, pthread_mutex_t *mutex);
void stub_signal(struct stub_cq *cq);

/* capture.c */
void stub_capture_reset(void);
void stub_capture_mode(int on);
bool stub_copies_inline(void);
void stub_capture_session(const struct stub_qp *qp);
void stub_capture_posted(const struct stub_wr *wr, void *queue, uint32_t kind);

/* post.c */
bool stub_hold_all(struct stub_qp *qp, const struct stub_staged *staged, uint32_t count);
int stub_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int stub_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int stub_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
void stub_flush(struct stub_qp *qp);

/* session.c: the extended operations of a QP, by IBV_QP_EX_WITH_ flags. 0 or ENOMEM. */
int stub_session_make(struct stub_qp *qp, uint64_t operations, bool inline_writes);
void stub_session_free(struct stub_qp *qp);

/* qp.c: the road of ibv_create_qp_ex and of efadv_create_qp_ex, which has SRD and its flags. */
STUB_EXPORT struct ibv_qp *stub_make_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr, uint8_t sl,
                                           uint16_t efa_flags, enum stub_verb verb);
struct ibv_qp *stub_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* cq.c */
/* The road of ibv_create_cq and efadv_create_cq. NULL and errno. */
STUB_EXPORT struct stub_cq *stub_make_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
                                         int comp_vector, enum stub_verb verb);
int stub_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int stub_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* Under the CQ's lock: takes the first completion; false when there is none. */
bool stub_take_one(struct stub_cq *cq, struct ibv_wc *ret_wc, struct stub_extra *ret_extra);

/* cq_ex.c */
STUB_EXPORT void stub_poll_ops(struct stub_cq *cq, uint64_t wc_flags, uint64_t efa_wc_flags);
void stub_wait_polled(struct stub_cq *cq, const char *what);

/* events.c: one more CQ of efadv_create_cq on a channel. */
STUB_EXPORT void stub_quiet_channel(struct stub_channel *channel);

/* qp.c */
void stub_reset_last(void);

#define STUB_MAGIC(kind) (0x57b0b000u + (uint32_t)(kind))

static inline void stub_count(enum stub_verb verb)
{
    /* No read-modify-write: the data path must not pay for counts that tests take with one thread. */
    unsigned long n = atomic_load_explicit(&stub_call_counts[verb], memory_order_relaxed);
    atomic_store_explicit(&stub_call_counts[verb], n + 1, memory_order_relaxed);
}

static inline void stub_check(const struct stub_object *object, enum stub_kind kind, enum stub_verb verb)
{
    if (STUB_UNLIKELY(atomic_load_explicit(&object->magic, memory_order_relaxed) != STUB_MAGIC(kind)))
        stub_dead(verb, kind, object);
}

static inline void stub_lock_take(struct stub_lock *lock)
{
    while (STUB_UNLIKELY(atomic_flag_test_and_set_explicit(&lock->taken, memory_order_acquire)))
        sched_yield();
}

static inline void stub_lock_give(struct stub_lock *lock)
{
    atomic_flag_clear_explicit(&lock->taken, memory_order_release);
}

static inline uint32_t stub_total(const struct ibv_sge *sge, int count)
{
    uint32_t sum = 0;

    for (int i = 0; i < count; i++)
        sum += sge[i].length;
    return sum;
}

/* Under the lock of the CQ. */
static inline bool stub_put(struct stub_cq *cq, uint64_t wr_id, int status, int opcode, uint32_t byte_len,
                            uint32_t qp_num)
{
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

    if (STUB_UNLIKELY(head - atomic_load_explicit(&cq->tail, memory_order_relaxed) > cq->mask))
        return false;
    cq->ring[head & cq->mask] = (struct ibv_wc){
        .wr_id = wr_id, .status = (enum ibv_wc_status)status, .opcode = (enum ibv_wc_opcode)opcode,
        .byte_len = byte_len, .qp_num = qp_num,
    };
    if (STUB_UNLIKELY(cq->extras != NULL))
        cq->extras[head & cq->mask] = (struct stub_extra){.has_sgid = false};
    atomic_store_explicit(&cq->head, head + 1, memory_order_release);
    return true;
}

/* Under the lock of the CQ; whether an event is due. Receives count as unsolicited. */
static inline bool stub_disarm(struct stub_cq *cq, bool failed)
{
    if (STUB_LIKELY(!cq->armed) || (cq->armed == 1 && !failed))
        return false;
    cq->armed = 0;
    return cq->channel;
}

static inline struct stub_context *stub_context_of(struct ibv_context *context)
{
    return (struct stub_context *)((char *)context - offsetof(struct stub_context, vctx.context));
}

/* The three ways in which verbs tell of an error. */
static inline void *stub_null(int err)
{
    errno = err == STUB_NO_ERRNO ? 0 : err;
    return NULL;
}

static inline int stub_positive(int err)
{
    if (err >= 0)
        return err;
    errno = -err;
    return -1;
}

static inline int stub_minus_one(int err)
{
    errno = err == STUB_NO_ERRNO ? 0 : err;
    return -1;
}

#endif
