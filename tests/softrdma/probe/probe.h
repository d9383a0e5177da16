/* SPDX-License-Identifier: BSD-3-Clause */
/* The probe asks a verbs device what it grants, refuses and does, and prints one fact a line as
 * `topic/question: answer`. Two hosts that behave alike print the same text; nothing that depends on chance
 * (addresses, keys, QP numbers, times) is printed. This header is what the topics share: the two devices, a
 * connected pair of queue pairs, and the printing of facts. */
#ifndef PROBE_H
#define PROBE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define BUFFER_SIZE 65536
#define LANDING 32768 /* where in a side's buffer its receives land */
#define QKEY 0x1234
#define IMM 0x11223344
#define ALL_ACCESS                                                                                           \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |  \
     IBV_ACCESS_MW_BIND)
#define QP_ACCESS                                                                                            \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* The first two devices of the list, opened once, with a PD each; async_fd does not block. */
extern struct ibv_context *contexts[2];
extern struct ibv_pd *pds[2];
extern int gid_index;

/* One end of a pair. `buf` is BUFFER_SIZE bytes, registered as `mr`; the receive side may hang on an SRQ, and
 * its CQ on a channel. */
struct side {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buf;
    union ibv_gid gid;
};

/* What a pair is made with. Start from `usual` and change what the question is about; `b_*` concern the
 * responder only. */
struct setup {
    enum ibv_qp_type type;
    uint32_t depth, a_cqe, b_cqe;
    int a_mr_access, b_mr_access, a_qp_access, b_qp_access;
    bool b_srq, channels;
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic, dest_rd_atomic;
    enum ibv_mtu mtu;
    uint32_t a_sq_psn, b_rq_psn;
    bool unconnected; /* leave both QPs in RESET */
};
extern const struct setup usual;

struct pair {
    struct side a, b;
    struct setup how;
};

void pair_open(struct pair *p, const struct setup *how);
void pair_close(struct pair *p);

/* The steps of a connection, each returning what ibv_modify_qp did. */
int side_init(struct side *s, const struct setup *how, int access);
int side_rtr(struct side *s, const struct setup *how, const struct side *peer, uint32_t rq_psn);
int side_rts(struct side *s, const struct setup *how, uint32_t sq_psn);
int side_to(struct side *s, enum ibv_qp_state state); /* a change that takes no other attribute */
int side_state(struct side *s);
struct ibv_qp_attr side_query(struct side *s);

/* A request with its one SGE; `work_make` aims it at the start of the peer's buffer. Change fields, then
 * post. */
struct work {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
};
struct work work_make(const struct side *from, const struct side *to, enum ibv_wr_opcode opcode,
                      uint32_t length, int id);
struct work work_atomic(const struct side *from, const struct side *to, enum ibv_wr_opcode opcode,
                        uint64_t compare_add, uint64_t swap);
int work_post(struct side *from, struct work *w);
int send_simple(struct side *from, const struct side *to, enum ibv_wr_opcode opcode, uint32_t length,
                int id); /* make + post */
int recv_post(struct side *s, int id, uint32_t length);
int recv_post_key(struct side *s, int id, uint32_t length, uint32_t lkey);

/* Waits until `sends` completions stand in a's send CQ and `recvs` in b's receive CQ, at most `ms`, then a
 * little longer for what nobody expects; appends every completion of the four CQs, both states and all async
 * events to the current fact. */
void pair_watch(struct pair *p, int sends, int recvs, int ms);
void async_show(int device);
void pause_ms(int ms);

/* Facts. fact_begin names the question, fact_add appends to the answer, fact_end prints the line. */
void fact_begin(const char *topic, const char *question, ...) __attribute__((format(printf, 2, 3)));
void fact_add(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fact_end(void);
void fact(const char *topic, const char *question, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void fact_errno(const char *topic, const char *question, int err); /* "ok" or the name of the errno */
const char *errno_name(int err);
const char *status_name(enum ibv_wc_status status);
const char *state_name(int state);
const char *type_name(enum ibv_qp_type type);

/* errno of a call that answers with a pointer, and a positive errno of one that answers with an int and may
 * say -1. */
#define ERRNO_OF_POINTER(call)                                                                               \
    ({                                                                                                       \
        errno = 0;                                                                                           \
        void *answer_ = (call);                                                                              \
        answer_ ? 0 : errno;                                                                                 \
    })
#define ERRNO_OF_INT(call)                                                                                   \
    ({                                                                                                       \
        errno = 0;                                                                                           \
        int answer_ = (call);                                                                                \
        answer_ == -1 ? errno : answer_;                                                                     \
    })

/* The topics, one file each. */
void ask_limits(void);
void ask_memory(void);
void ask_refusals(void);
void ask_states(void);
void ask_rc(void);
void ask_faults(void);
void ask_retry(void);
void ask_uc(void);
void ask_ud(void);
void ask_multicast(void);
void ask_srq(void);
void ask_events(void);
void ask_windows(void);
void ask_atomics(void);
void ask_extended(void);
void ask_fork(void);

#endif
