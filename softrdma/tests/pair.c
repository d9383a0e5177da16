/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the test programs; see pair.h. */
#include "pair.h"

#include <signal.h>
#include <sys/prctl.h>

struct ibv_context *open_device(int index)
{
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    struct ibv_context *ctx;

    if (alarm(60) > 60) /* nobody outlives a test that went wrong; a longer limit of its own stays */
        alarm(600);
    if (!list || n <= index) {
        fprintf(stderr, "needs %d devices, has %d\n", index + 1, n);
        exit(SKIP);
    }
    ctx = ibv_open_device(list[index]);
    ibv_free_device_list(list);
    CHECK(ctx);
    return ctx;
}

struct end end_make(struct ibv_context *ctx, enum ibv_qp_type type, size_t size)
{
    struct end e = {
        .ctx = ctx, .size = size, .timeout = 8, .retry_cnt = 2, .rnr_retry = 3, .min_rnr_timer = 1};
    struct ibv_qp_init_attr attr = {.qp_type = type, .cap = {64, 64, 4, 4, 64}};

    CHECK(e.pd = ibv_alloc_pd(ctx));
    CHECK(e.channel = ibv_create_comp_channel(ctx));
    CHECK(e.cq = ibv_create_cq(ctx, 255, NULL, e.channel, 0));
    e.buf = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(e.buf != MAP_FAILED);
    CHECK(e.mr = ibv_reg_mr(e.pd, e.buf, size, ALL_ACCESS));
    attr.send_cq = attr.recv_cq = e.cq;
    CHECK(e.qp = ibv_create_qp(e.pd, &attr));
    CHECK(ibv_query_gid(ctx, 1, 1, &e.self.gid) == 0);
    e.self.qpn = e.qp->qp_num;
    e.self.rkey = e.mr->rkey;
    e.self.addr = (uintptr_t)e.buf;
    return e;
}

int end_try_connect(struct end *e, const struct address *peer)
{
    bool rc = e->qp->qp_type == IBV_QPT_RC, ud = e->qp->qp_type == IBV_QPT_UD;
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234, .qp_access_flags = ALL_ACCESS};
    int err;

    e->peer = *peer;
    err = ibv_modify_qp(
        e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    if (err)
        return err;
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_1024,
                             .dest_qp_num = peer->qpn,
                             .max_dest_rd_atomic = 4,
                             .min_rnr_timer = e->min_rnr_timer,
                             .ah_attr = {.is_global = 1,
                                         .port_num = 1,
                                         .grh = {.dgid = peer->gid, .sgid_index = 1, .hop_limit = 64}}};
    err = ibv_modify_qp(e->qp, &a,
                        ud ? IBV_QP_STATE
                           : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                 (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
    if (err)
        return err;
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .timeout = e->timeout,
                             .retry_cnt = e->retry_cnt,
                             .rnr_retry = e->rnr_retry,
                             .max_rd_atomic = 4};
    return ibv_modify_qp(
        e->qp, &a,
        IBV_QP_STATE | IBV_QP_SQ_PSN |
            (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
}

void end_connect(struct end *e, const struct address *peer)
{
    CHECK(end_try_connect(e, peer) == 0);
}

void end_free(struct end *e)
{
    CHECK(ibv_destroy_qp(e->qp) == 0);
    CHECK(ibv_dereg_mr(e->mr) == 0);
    CHECK(ibv_destroy_cq(e->cq) == 0);
    CHECK(ibv_destroy_comp_channel(e->channel) == 0);
    CHECK(ibv_dealloc_pd(e->pd) == 0);
    munmap(e->buf, e->size);
}

int post_recv(struct end *e, uint64_t id, size_t offset, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)e->buf + offset, length, e->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

    return ibv_post_recv(e->qp, &wr, &bad);
}

int post(struct end *e, enum ibv_wr_opcode opcode, uint64_t id, uint32_t length, unsigned flags)
{
    struct ibv_sge sge = {(uintptr_t)e->buf, length, e->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id,
                             .sg_list = &sge,
                             .num_sge = length ? 1 : 0,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED | flags},
                       *bad;

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = e->peer.addr;
        wr.wr.atomic.rkey = e->peer.rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = e->peer.addr;
        wr.wr.rdma.rkey = e->peer.rkey;
    }
    return ibv_post_send(e->qp, &wr, &bad);
}

double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

struct ibv_wc wait_wc(struct ibv_cq *cq, int limit_ms)
{
    double end = now_s() + limit_ms / 1e3;
    struct ibv_wc wc;

    do {
        int n = ibv_poll_cq(cq, 1, &wc);

        CHECK(n >= 0);
        if (n)
            return wc;
        usleep(50);
    } while (now_s() < end);
    memset(&wc, 0, sizeof(wc));
    wc.status = (enum ibv_wc_status) - 1;
    return wc;
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
    return attr.qp_state;
}

pid_t spawn(int (*run)(int in, int out), int *ret_to, int *ret_from)
{
    int to[2], from[2];
    pid_t pid;

    CHECK(pipe(to) == 0 && pipe(from) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(to[1]);
        close(from[0]);
        exit(run(to[0], from[1]));
    }
    close(to[0]);
    close(from[1]);
    *ret_to = to[1];
    *ret_from = from[0];
    return pid;
}

void exchange(struct end *e, int to, int from)
{
    CHECK(write(to, &e->self, sizeof(e->self)) == (ssize_t)sizeof(e->self));
    CHECK(read(from, &e->peer, sizeof(e->peer)) == (ssize_t)sizeof(e->peer));
}
