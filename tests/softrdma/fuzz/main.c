/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz SECONDS [SEED]: rounds of making objects with mangled calls in between, spoiling their queues, and
 * destroying them. */
#include "fuzz.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WALL (64u << 10)
#define PAIRS 3

uint8_t *arena, *read_only;
static uint8_t *walls;
static uint64_t state;

uint32_t chance(uint32_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? (uint32_t)(state >> 16) % limit : 0;
}

uint64_t odd_number(void)
{
    uint64_t any = (uint64_t)chance(UINT32_MAX) << 32 | chance(UINT32_MAX);
    switch (chance(6)) {
    case 0:
        return 0;
    case 1:
        return -1 - (uint64_t)chance(16);
    case 2:
        return 1ull << chance(64);
    case 3:
        return (1ull << chance(64)) - 1;
    case 4:
        return chance(70000);
    default:
        return any;
    }
}

void memory_make(void)
{
    walls = mmap(NULL, ARENA_SIZE + 2 * WALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(walls, 0xa5, ARENA_SIZE + 2 * WALL);
    arena = walls + WALL;
    read_only = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(read_only, 0x5a, 4096);
}

static void all(const uint8_t *at, size_t length, uint8_t value, const char *what)
{
    for (size_t i = 0; i < length; i++)
        if (at[i] != value) {
            printf("%s: byte %zu is 0x%02x\n", what, i, at[i]);
            exit(4);
        }
}

void walls_check(void)
{
    all(walls, WALL, 0xa5, "written before the registered memory");
    all(arena + ARENA_SIZE, WALL, 0xa5, "written behind the registered memory");
    all(read_only, 4096, 0x5a, "written to memory registered for reading");
}

uint64_t odd_address(void)
{
    switch (chance(8)) {
    case 0:
        return (uintptr_t)arena + ARENA_SIZE - chance(64);
    case 1:
        return (uintptr_t)arena - chance(64);
    case 2:
        return (uintptr_t)arena + ARENA_SIZE + chance(WALL);
    case 3:
        return (uintptr_t)read_only + chance(4096);
    case 4:
        return chance(2) ? chance(65536) : UINT64_MAX - chance(65536);
    default:
        return (uintptr_t)arena + chance(ARENA_SIZE);
    }
}

struct world {
    struct ibv_context *ctx[2];
    struct ibv_pd *pd[2];
    struct ibv_mr *mr[2], *reading;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq[2];
    struct ibv_srq *srq;
    struct ibv_mw *mw;
    struct ibv_ah *ah;
    struct ibv_qp *qp[PAIRS][2];
    union ibv_gid gid[2];
};

static void connect_one(struct world *w, struct ibv_qp *qp, struct ibv_qp *peer, int side)
{
    bool rc = qp->qp_type == IBV_QPT_RC, ud = qp->qp_type == IBV_QPT_UD;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 15, .qkey = 0x1234};
    ibv_modify_qp(qp, &a,
                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = 1 + chance(5),
                             .dest_qp_num = peer->qp_num,
                             .max_dest_rd_atomic = 4,
                             .min_rnr_timer = 1,
                             .ah_attr = {.is_global = 1,
                                         .port_num = 1,
                                         .grh = {.dgid = w->gid[!side], .sgid_index = 1, .hop_limit = 64}}};
    int mask =
        ud ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    ibv_modify_qp(qp, &a, mask | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 1, .rnr_retry = 1, .max_rd_atomic = 4};
    ibv_modify_qp(
        qp, &a,
        IBV_QP_STATE | IBV_QP_SQ_PSN |
            (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
}

static void objects_make(struct world *w)
{
    static const enum ibv_qp_type types[PAIRS] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    for (int i = 0; i < 2; i++) {
        w->pd[i] = ibv_alloc_pd(w->ctx[i]);
        w->mr[i] = w->pd[i] ? ibv_reg_mr(w->pd[i], arena, ARENA_SIZE, 31) : NULL;
        w->cq[i] = ibv_create_cq(w->ctx[i], 1 + chance(40), NULL, i ? w->channel : NULL, 0);
    }
    if (!w->pd[0] || !w->pd[1] || !w->cq[0] || !w->cq[1])
        return;
    w->reading = ibv_reg_mr(w->pd[1], read_only, 4096, IBV_ACCESS_REMOTE_READ);
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1 + chance(20), .max_sge = 1 + chance(4)}};
    w->srq = ibv_create_srq(w->pd[1], &srq);
    w->mw = ibv_alloc_mw(w->pd[0], 1 + chance(2));
    struct ibv_ah_attr ah = {
        .port_num = 1, .is_global = 1, .grh = {.dgid = w->gid[1], .sgid_index = 1, .hop_limit = 64}};
    w->ah = ibv_create_ah(w->pd[0], &ah);
    for (int i = 0; i < PAIRS; i++) {
        for (int side = 0; side < 2; side++) {
            struct ibv_qp_init_attr attr = {
                .send_cq = w->cq[side],
                .recv_cq = w->cq[side],
                .srq = side && chance(2) ? w->srq : NULL,
                .cap = {1 + chance(20), 1 + chance(20), chance(5), chance(5), chance(200)},
                .qp_type = types[i]};
            w->qp[i][side] = ibv_create_qp(w->pd[side], &attr);
        }
        for (int side = 0; side < 2; side++)
            if (w->qp[i][0] && w->qp[i][1])
                connect_one(w, w->qp[i][side], w->qp[i][!side], side);
    }
}

static void objects_destroy(struct world *w)
{
    for (int i = 0; i < PAIRS; i++)
        for (int side = 0; side < 2; side++)
            if (w->qp[i][side])
                ibv_destroy_qp(w->qp[i][side]);
    if (w->srq)
        ibv_destroy_srq(w->srq);
    if (w->mw)
        ibv_dealloc_mw(w->mw);
    if (w->ah)
        ibv_destroy_ah(w->ah);
    if (w->reading)
        ibv_dereg_mr(w->reading);
    for (int i = 0; i < 2; i++) {
        if (w->cq[i])
            ibv_destroy_cq(w->cq[i]);
        if (w->mr[i])
            ibv_dereg_mr(w->mr[i]);
        if (w->pd[i])
            ibv_dealloc_pd(w->pd[i]);
    }
}

/* What a program does with its objects while somebody spoils their queues; nothing here reads a queue in user
 * space. */
static void objects_use(struct world *w)
{
    struct ibv_qp_attr attr = {.qp_state = chance(7)};
    struct ibv_qp_init_attr init;
    struct ibv_qp *qp = w->qp[chance(PAIRS)][chance(2)];
    struct ibv_srq_attr srq = {.max_wr = 1 + chance(50), .srq_limit = chance(10)};
    switch (chance(8)) {
    case 0:
        if (qp)
            ibv_modify_qp(qp, &attr, IBV_QP_STATE);
        break;
    case 1:
        if (qp)
            ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init);
        break;
    case 2:
        if (w->srq)
            ibv_modify_srq(w->srq, &srq, chance(4));
        break;
    case 3:
        if (w->cq[0])
            ibv_resize_cq(w->cq[0], 1 + chance(60));
        break;
    case 4:
        if (w->cq[1])
            ibv_req_notify_cq(w->cq[1], chance(2));
        break;
    case 5:
        if (w->srq)
            ibv_query_srq(w->srq, &srq);
        break;
    }
}

static void spoil(struct world *w, int acts)
{
    uint32_t keys[8];
    int count = 0;
    for (int i = 0; i < 2; i++)
        if (w->mr[i]) {
            keys[count++] = w->mr[i]->lkey;
            keys[count++] = w->mr[i]->rkey;
        }
    if (w->reading)
        keys[count++] = w->reading->rkey;
    if (w->mw)
        keys[count++] = w->mw->rkey;
    for (int i = 0; count && i < acts; i++) {
        queues_spoil(keys, count);
        struct ibv_qp *qp = w->qp[chance(PAIRS)][chance(2)];
        if (chance(2) && qp)
            doorbell_ring(qp->handle);
        else if (chance(8) == 0)
            doorbell_ring(chance(64));
        if (chance(16) == 0)
            objects_use(w);
    }
}

static void events_swallow(struct world *w)
{
    struct ibv_async_event event;
    for (int i = 0; i < 2; i++) {
        struct pollfd fd = {.fd = w->ctx[i]->async_fd, .events = POLLIN};
        while (poll(&fd, 1, 0) == 1 && !ibv_get_async_event(w->ctx[i], &event))
            ibv_ack_async_event(&event);
    }
}

/* Contexts are opened anew now and then: what mangled calls made goes with them. */
static void contexts_open(struct world *w)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; i < 2; i++) {
        w->ctx[i] = list && count > i ? ibv_open_device(list[i]) : NULL;
        if (!w->ctx[i] || ibv_query_gid(w->ctx[i], 1, 1, &w->gid[i])) {
            fprintf(stderr, "fuzz: two devices are needed\n");
            exit(2);
        }
        cmd_fds[i] = w->ctx[i]->cmd_fd;
        fcntl(w->ctx[i]->async_fd, F_SETFL, O_NONBLOCK);
    }
    ibv_free_device_list(list);
    w->channel = ibv_create_comp_channel(w->ctx[1]);
}

static void contexts_close(struct world *w)
{
    if (w->channel)
        ibv_destroy_comp_channel(w->channel);
    for (int i = 0; i < 2; i++) {
        ibv_close_device(w->ctx[i]);
        cmd_fds[i] = -1;
    }
}

int main(int argc, char **argv)
{
    double limit = argc > 1 ? atof(argv[1]) : 5;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 1000003 + getpid();
    state = seed * 0x9e3779b97f4a7c15 | 1;
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    memory_make();
    time_t end = time(NULL) + (time_t)(limit + 0.5);
    unsigned long rounds = 0;
    while (time(NULL) < end) {
        struct world w = {.ctx = {NULL}};
        contexts_open(&w);
        for (int i = 0; i < 20; i++, rounds++) {
            struct world here = w;
            alarm(30); /* a call that does not come back */
            mangling = chance(2);
            objects_make(&here);
            spoil(&here, chance(200));
            mangling = chance(2);
            events_swallow(&here);
            objects_destroy(&here);
            mangling = 0;
            events_swallow(&here);
            walls_check();
        }
        contexts_close(&w);
    }
    printf("%lu rounds, %lu mangled calls of which %lu were accepted\n", rounds, mangled_calls,
           accepted_calls);
    return 0;
}
