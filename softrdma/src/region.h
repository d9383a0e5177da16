/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory in which the host keeps what a kernel would: one memfd for a process and the children it forks.
 * Peers on the fabric map it too, at addresses of their own, so it holds indices and offsets and never a
 * pointer.
 *
 * Tables are far larger than anybody needs; the file is sparse and only what is touched exists. A slot of the
 * QP, CQ and SRQ tables is never unmapped or reshaped: whoever comes late with an old index finds a valid
 * lock and a dead object.
 *
 * Locks, in the order in which they may be taken:
 *   region.lock      creation, destruction, handles, table slots, the heap; never held on the data path
 *   qp.sq_lock       the send queue and the requester's state
 *   qp.rq_lock       the receive queue and the responder's state, also taken by peers
 *   srq.lock         the shared receive queue
 *   region.mw_lock   memory windows; region.atomic_lock[] values under atomics; counter.lock
 *   cq.lock          the completion queue and its arming
 *   faults.lock      rules; nothing is locked under it
 *   context.events_lock, channel.lock      what has been reported to user space
 * and beside these, after region.lock:
 *   cm.lock          the connection manager; nobody holds two regions', and nothing of the region is locked under it
 * Both locks of a QP are held to change its state, except that a responder may move it to ERR under rq_lock
 * alone. */
#ifndef SOFTRDMA_REGION_H
#define SOFTRDMA_REGION_H

#include "base.h"

#include <pthread.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "cm/state.h"
#include "fault/rule.h"

#define MAX_PROCS 256
#define MAX_CONTEXTS 256
#define HANDLE_CHUNK 4096u /* handles of a context come in pieces of the heap */
#define HANDLE_CHUNKS 64u
#define MAX_HANDLES (HANDLE_CHUNK * HANDLE_CHUNKS)
#define MAX_CHANNELS 4096
#define MAX_PDS 32768
#define MAX_MRS (1u << 18) /* the last 64 stay free: index + 1 and a model's key bits fit into 24 bits */
#define MAX_MWS (1u << 14)
#define MAX_CQS (1u << 15)
#define MAX_QPS                                                                                              \
    (1u << 15) /* below 1 << 16, the low half of a QP number: the rest is the region's slot on the fabric */
#define MAX_SRQS (1u << 13)
#define MAX_AHS (1u << 15)
#define SHORT_QPNS 256
#define MAX_COUNTERS 1024
#define MAX_GROUPS 1024 /* multicast memberships */
#define FIRST_QP 0x11
_Static_assert(MAX_QPS <= 1u << 16, "the low half of a QP number");
#define HEAP_SIZE (16ull << 30)
#define HEAP_UNIT 4096u
#define MAX_PENDING_ASYNC 256
#define HEAP_STEP (16ull << 20) /* by which the part of the heap that is in use grows */
#define AGENT_CHUNK (64u << 10)
#define MAX_NICS 16
#define NIC_GIDS 16 /* entries of the table that may hold something; those above are always empty */
#define ATOMIC_LOCKS 64

#define REGION_MAGIC 0x736f667472646d61ull
#define NONE UINT32_MAX

/* What a handle of user space stands for. */
enum object_type { OBJ_NONE, OBJ_PD, OBJ_MR, OBJ_MW, OBJ_CQ, OBJ_QP, OBJ_SRQ, OBJ_AH, OBJ_COUNTER };

/* A job for the thread of a process that copies on behalf of peers which may not reach into its memory. */
struct agent_box {
    pthread_mutex_t lock;   /* held by the client for a whole conversation */
    _Atomic uint32_t state; /* futex */
    uint32_t op;
    int32_t result;
    uint64_t addr, length;
    uint8_t data[AGENT_CHUNK];
};

/* One process that uses the region: an address space in which registered memory lies. */
struct proc {
    uint32_t born; /* the locks have been made */
    uint32_t pad;
    _Atomic uint64_t unborn_until; /* now_ns: reserved for a child that fork is making; 0: it is there */
    pthread_mutex_t life[2]; /* held while it lives: by the thread that joined, and by its service thread */
    _Atomic uint32_t used; /* service threads ask without region.lock */
    int32_t pid;
    uint64_t pid_space; /* inode of the pid namespace in which pid means something */
    uint32_t slot;      /* of the region, to find the wake-up socket */
    uint32_t index;
    _Atomic uint32_t woken; /* a wake-up is under way */
    _Atomic uint32_t agent_wanted;
    _Atomic uint64_t pinned; /* pages of registered memory */
};

struct queue { /* the kernel's half of a ring in the heap; nothing in the ring's own header is believed */
    uint64_t offset; /* 0: none */
    uint32_t size;
    uint32_t log2; /* of a slot */
    uint32_t mask;
    uint32_t pad;
};

struct pending_async {
    uint64_t element;
    uint32_t event_type;
    uint32_t object; /* type << 24 | index */
};

/* What has become of its device; anything but CONTEXT_ALIVE answers EIO to all calls that do not destroy. */
enum { CONTEXT_ALIVE, CONTEXT_FAILED, CONTEXT_DISASSOCIATED };

struct context {
    _Atomic uint32_t used, generation; /* the service thread looks at them without region.lock */
    uint32_t device;
    _Atomic uint32_t dead;
    uint32_t lowest_free;                     /* no handle below it is free */
    uint32_t highest;                         /* no handle at or above it is in use */
    _Atomic uint64_t handles[HANDLE_CHUNKS];  /* heap offsets; an entry is type << 24 | index, 0: free */
    _Atomic uint64_t holders[MAX_PROCS / 64]; /* processes that have the descriptor open */
    pthread_mutex_t events_lock;
    uint32_t async_head, async_tail; /* of pending[] */
    _Atomic uint32_t async_pending;
    struct pending_async pending[MAX_PENDING_ASYNC];
};

struct channel {
    uint32_t used;
    _Atomic uint32_t generation;
    uint32_t context;
    uint32_t proc;    /* the one that made it; children have copies of the pipe */
    int32_t write_fd; /* in that process */
    uint32_t refs;    /* CQs */
    _Atomic uint32_t closed;
    pthread_mutex_t lock; /* held to rewrite the pipe */
};

struct pd {
    uint32_t used, context;
    uint32_t refs; /* MRs, MWs, QPs, SRQs, AHs */
    uint32_t pad;
};

struct mr {
    _Atomic uint32_t key; /* 0: free, or being taken away */
    uint32_t pd, context, proc;
    uint32_t access;
    uint32_t windows; /* bound to it */
    uint64_t start, length, iova;
    uint64_t mapping, mapped; /* of a dma-buf: where its file is mapped, in proc */
};

struct mw {
    uint32_t key, pd, context;
    uint32_t type;
    uint32_t access;
    uint32_t mr; /* table index, or NONE while unbound */
    uint32_t qp; /* type 2 */
    uint32_t bound;
    uint64_t addr, length;
};

enum { CQ_IDLE, CQ_ARMED_SOLICITED, CQ_ARMED };
enum { CQ_WHOLE, CQ_OVERRUN, CQ_OVERRUN_TOLD }; /* as fault_overruns() leaves it */

struct cq {
    pthread_mutex_t lock;
    uint32_t born; /* the lock has been made */
    uint32_t used, context, device;
    uint32_t refs; /* QP ends */
    uint32_t channel, channel_generation;
    uint32_t armed;
    uint32_t overrun;
    _Atomic uint32_t pending;     /* events that the owner's service thread has still to write */
    _Atomic uint32_t comp_events; /* reported */
    uint32_t async_events;
    uint64_t user;
    struct queue queue;
    struct queue own; /* what the model keeps for it */
} __attribute__((aligned(2 * CACHE_LINE)));

struct srq {
    pthread_mutex_t lock;
    uint32_t born;
    uint32_t used, context, device, pd;
    uint32_t refs;
    uint32_t max_sge, limit;
    uint32_t async_events;
    uint64_t user;
    struct queue queue;
} __attribute__((aligned(2 * CACHE_LINE)));

enum qp_state { QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS, QPS_SQD, QPS_SQE, QPS_ERR, QPS_DEAD };

struct qp {
    pthread_mutex_t sq_lock;
    _Atomic uint32_t state; /* enum qp_state; QPS_DEAD also for a slot that is free */
    uint32_t born; /* the locks have been made */
    uint32_t qpn, type;
    uint32_t context, device, pd, send_cq, recv_cq, srq; /* srq: NONE without */
    uint32_t handle;
    uint32_t sq_sig_all;
    uint32_t proc; /* the process that made it */
    uint64_t user;
    struct queue sq;
    struct queue own; /* what the model keeps for it, under the two locks */
    struct ib_uverbs_qp_cap cap;
    /* requester */
    uint32_t sq_psn;
    uint32_t retries_left, rnr_left;
    uint32_t dest_device; /* of attr.dest, resolved when it was set */
    _Atomic uint32_t timer_proc; /* whose service thread looks after wait_until */
    uint32_t drained, running;
    uint64_t ack_deadline;       /* of the head request, while it is being refused for want of a receive */
    _Atomic uint64_t wait_until; /* 0: not waiting; UINT64_MAX: without a timer */
    uint32_t fault_state;        /* of the head request: what rules have had their say, see the model */
    uint32_t fault_answer;       /* what the responder said, if that was lost on the way */
    uint64_t peer_instance;      /* of the region that the connection was made with; 0: not yet met */

    pthread_mutex_t rq_lock __attribute__((aligned(2 * CACHE_LINE)));
    struct queue rq;
    uint32_t rq_psn;
    uint32_t groups; /* multicast memberships */
    uint32_t last_wqe_event;
    uint32_t async_events; /* under context.events_lock */
    struct ib_uverbs_modify_qp attr;
    uint8_t sgid[16]; /* what the index in attr.dest held when it was set */
} __attribute__((aligned(2 * CACHE_LINE)));

struct ah {
    _Atomic uint32_t used;
    uint32_t context, pd, device;
    uint32_t number; /* a model's own */
    struct ib_uverbs_ah_attr attr;
    uint8_t sgid[16]; /* what attr's index held when the handle was made */
};

/* What may change about a NIC while programs run (nic.h): every region has its own view of each. */
struct nic {
    _Atomic uint32_t disturbed; /* something is not as it was at the start: whoever moves data has to look */
    _Atomic uint32_t link_down, fatal, removed;
    _Atomic uint32_t link_told; /* link_down, as events and files last had it */
    _Atomic uint64_t gid[NIC_GIDS][2]; /* all zeros: empty */
};

/* Two numbers that a device keeps up to date in the program's memory. */
struct counter {
    pthread_mutex_t lock; /* the last that is taken */
    uint32_t born;
    uint32_t used, context, proc;
    uint32_t refs; /* kinds of operation of queue pairs that it counts */
    uint64_t value[2]; /* completed, failed */
    struct {
        uint64_t addr;            /* in proc */
        uint64_t mapping, mapped; /* of a dma-buf */
    } memory[2];
};

/* A device's own record of an address: handles for one GID in one PD share it, and its number. */
struct address {
    uint32_t refs, pd;
    uint8_t gid[16];
};

struct group { /* one QP's membership of one multicast group */
    uint32_t used, qp, device, pad;
    uint8_t gid[16];
};

/* Which slots of a table are taken; slots are handed out in turn, so that an old key or number meets nobody
 * for long. */
struct table {
    uint32_t count, next;
};

#define TABLE_BITS(max) ((max) / 64)

struct region {
    uint64_t magic, layout, size;
    uint64_t instance; /* random: tells a region from the one that had its slot before */
    uint32_t slot;
    _Atomic uint32_t nwaiting;       /* hint: QPs with wait_until set */
    _Atomic uint32_t nerror;         /* hint: QPs in ERR whose receives must be looked after */
    _Atomic uint32_t events_pending; /* completion events that a service thread has still to write */
    pthread_mutex_t lock;
    pthread_mutex_t mw_lock;
    pthread_mutex_t atomic_lock[ATOMIC_LOCKS];
    uint32_t generation;

    uint64_t heap_start;       /* offset in the file */
    uint64_t heap_next;        /* unit from which the next search starts */
    _Atomic uint64_t heap_end; /* offset in the file up to which it is in use; grows */
    struct table pds, mrs, mws, cqs, qps, srqs, ahs, addresses, counters;
    uint64_t pd_bits[TABLE_BITS(MAX_PDS)];
    uint64_t mr_bits[TABLE_BITS(MAX_MRS)];
    uint64_t mw_bits[TABLE_BITS(MAX_MWS)];
    uint64_t cq_bits[TABLE_BITS(MAX_CQS)];
    _Atomic uint64_t qp_bits[TABLE_BITS(MAX_QPS)];
    uint64_t srq_bits[TABLE_BITS(MAX_SRQS)];
    uint64_t ah_bits[TABLE_BITS(MAX_AHS)];
    uint64_t counter_bits[TABLE_BITS(MAX_COUNTERS)];
    uint64_t address_bits[TABLE_BITS(MAX_AHS)];
    uint64_t heap_bits[HEAP_SIZE / HEAP_UNIT / 64];

    struct faults faults;
    struct nic nic[MAX_NICS];
    _Atomic uint32_t ndisassociated; /* hint: NICs were removed under somebody */
    _Atomic uint32_t ngroups;
    struct group group[MAX_GROUPS];
    struct proc proc[MAX_PROCS];
    struct context context[MAX_CONTEXTS];
    struct channel channel[MAX_CHANNELS];
    struct pd pd[MAX_PDS];
    struct mr mr[MAX_MRS];
    struct mw mw[MAX_MWS];
    struct cq cq[MAX_CQS];
    struct qp qp[MAX_QPS];
    struct srq srq[MAX_SRQS];
    struct ah ah[MAX_AHS];
    struct counter counter[MAX_COUNTERS];
    struct address address[MAX_AHS];
    uint16_t address_of[MAX_PDS][MAX_NICS]; /* for a PD, to a device; 0: none */
    /* Of devices whose QP numbers have 16 bits: the upper 8 are the region's slot, the lower 8 lead here. Table index
     * + 1. */
    _Atomic uint16_t short_qpn[MAX_NICS][SHORT_QPNS];
    uint32_t short_qpn_next[MAX_NICS];
    struct agent_box box[MAX_PROCS];
    struct cm cm;
};
_Static_assert(CM_PROCS == MAX_PROCS, "who holds a file of the connection manager");

/* Differs between builds whose layouts differ, so that they do not meet on a fabric. */
uint64_t region_layout(void);
uint64_t region_file_size(void);

/* A new region in a memfd, sealed against resizing; NULL and errno. */
struct region *region_create(uint32_t slot, int *ret_fd);
/* Another process's region; NULL and errno if the file is not one. */
struct region *region_map(int fd);
void region_unmap(struct region *r);

/* A slot of a table, or NONE; the caller holds region.lock. first: slots below it are not used. */
uint32_t table_take(struct table *t, uint64_t *bits, uint32_t max, uint32_t first);
void table_release(struct table *t, uint64_t *bits, uint32_t index);

/* The unit in which the heap is given out: a page, so that pieces can be mapped one by one. */
uint64_t heap_page(void);

/* Zeroed memory of the heap: its offset in the file, 0 when there is none. The caller holds region.lock. */
uint64_t heap_alloc(struct region *r, uint64_t size);
void heap_free(struct region *r, uint64_t offset, uint64_t size);

/* What this process alone knows of a region that it has mapped: in a page of its own, just below. */
struct mapping {
    _Atomic uint64_t accessible; /* offset in the file; above it nothing can be touched */
};

static inline struct mapping *region_mapping(const struct region *r)
{
    return (struct mapping *)r - 1;
}

/* Makes all of the heap that is in use accessible here. */
void region_follow(struct region *r);

/* A piece of the heap. Most of the file is kept inaccessible, so that tools that walk through all memory do
 * not fill it. */
static inline void *region_at(struct region *r, uint64_t offset, uint64_t size)
{
    if (__builtin_expect(
            offset + size > atomic_load_explicit(&region_mapping(r)->accessible, memory_order_relaxed), 0))
        region_follow(r);
    return (uint8_t *)r + offset;
}

#endif
