/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs for rdma-core's newer calls share: an SRD queue pair on the first EFA device that talks to itself. */
#ifndef PROGRAMS_EFA_SELF_H
#define PROGRAMS_EFA_SELF_H

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/efadv.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);        \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

enum { QKEY = 7 };

struct self {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *ah;
    uint8_t memory[64];
};

/* Opened, with memory registered and no completion queue yet. */
static inline void self_open(struct self *s)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};

    CHECK(list && list[0]);
    CHECK(s->ctx = ibv_open_device(list[0]));
    CHECK(s->pd = ibv_alloc_pd(s->ctx));
    CHECK(s->mr = ibv_reg_mr(s->pd, s->memory, sizeof(s->memory), IBV_ACCESS_LOCAL_WRITE));
    CHECK(ibv_query_gid(s->ctx, 1, 0, &to.grh.dgid) == 0);
    CHECK(s->ah = ibv_create_ah(s->pd, &to));
}

/* The queue pair, on s->cq, as it is before it can be used. */
static inline void self_make(struct self *s)
{
    struct ibv_qp_init_attr init = {.send_cq = s->cq, .recv_cq = s->cq, .cap = {4, 4, 1, 1, 0},
                                    .qp_type = IBV_QPT_DRIVER, .sq_sig_all = 1};

    CHECK(s->qp = efadv_create_driver_qp(s->pd, &init, EFADV_QP_DRIVER_TYPE_SRD));
}

/* The queue pair can be used from here on. */
static inline void self_ready(struct self *s)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

    CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    a.qp_state = IBV_QPS_RTR;
    CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE) == 0);
    a.qp_state = IBV_QPS_RTS;
    CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static inline void self_start(struct self *s)
{
    self_make(s);
    self_ready(s);
}

static inline void self_recv(struct self *s, uint64_t id)
{
    struct ibv_sge into = {(uintptr_t)s->memory + 8, 8, s->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &into, .num_sge = 1}, *bad;

    CHECK(ibv_post_recv(s->qp, &wr, &bad) == 0);
}

static inline void self_send(struct self *s, uint64_t id, uint32_t qpn)
{
    struct ibv_sge from = {(uintptr_t)s->memory, 8, s->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

    wr.wr.ud.ah = s->ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = QKEY;
    CHECK(ibv_post_send(s->qp, &wr, &bad) == 0);
}

/* That many completions. */
static inline void self_poll(struct self *s, struct ibv_wc *wc, int count)
{
    alarm(20);
    for (int n = 0; n < count;)
        n += ibv_poll_cq(s->cq, count - n, wc + n);
    alarm(0);
}

#endif
