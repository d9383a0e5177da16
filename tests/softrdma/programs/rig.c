/* SPDX-License-Identifier: BSD-3-Clause */
/* One RC end and its connection; see rig.h. */
#include "rig.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(2);
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

void end_open(struct end *e, int device, size_t size, bool events)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    memset(e, 0, sizeof(*e));
    need(list && count > device, "ibv_get_device_list");
    e->ctx = ibv_open_device(list[device]);
    need(e->ctx, "ibv_open_device");
    ibv_free_device_list(list);
    e->pd = ibv_alloc_pd(e->ctx);
    need(e->pd, "ibv_alloc_pd");
    if (events) {
        e->channel = ibv_create_comp_channel(e->ctx);
        need(e->channel, "ibv_create_comp_channel");
    }
    e->cq = ibv_create_cq(e->ctx, 1024, NULL, e->channel, 0);
    need(e->cq, "ibv_create_cq");
    e->size = size;
    e->buf = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(e->buf != MAP_FAILED, "mmap");
    memset(e->buf, 0, size);
    e->mr = ibv_reg_mr(e->pd, e->buf, size,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC);
    need(e->mr, "ibv_reg_mr");
    need(!ibv_query_gid(e->ctx, 1, 1, &e->gid), "ibv_query_gid");
    struct ibv_qp_init_attr attr = {.send_cq = e->cq,
                                    .recv_cq = e->cq,
                                    .cap = {.max_send_wr = 256,
                                            .max_recv_wr = 256,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = 64},
                                    .qp_type = IBV_QPT_RC};
    e->qp = ibv_create_qp(e->pd, &attr);
    need(e->qp, "ibv_create_qp");
}

struct address end_address(const struct end *e)
{
    return (struct address){
        .gid = e->gid, .qpn = e->qp->qp_num, .rkey = e->mr->rkey, .addr = (uintptr_t)e->buf};
}

void end_connect_patient(struct end *e, const struct address *peer, int timeout, int retry_cnt)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
    errno = ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    need(!errno, "modify to INIT");
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_4096,
                             .dest_qp_num = peer->qpn,
                             .max_dest_rd_atomic = 16,
                             .min_rnr_timer = 1,
                             .ah_attr = {.is_global = 1,
                                         .port_num = 1,
                                         .grh = {.dgid = peer->gid, .sgid_index = 1, .hop_limit = 64}}};
    errno = ibv_modify_qp(e->qp, &a,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    need(!errno, "modify to RTR");
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .timeout = timeout,
                             .retry_cnt = retry_cnt,
                             .rnr_retry = 7,
                             .max_rd_atomic = 16};
    errno = ibv_modify_qp(e->qp, &a,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    need(!errno, "modify to RTS");
}

void end_connect(struct end *e, const struct address *peer)
{
    end_connect_patient(e, peer, 14, 6);
}

void write_post(struct end *e, const struct address *peer, enum ibv_wr_opcode opcode, size_t from, size_t to,
                uint32_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)e->buf + from, .length = length, .lkey = e->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = opcode,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = peer->addr + to;
        wr.wr.atomic.rkey = peer->rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = peer->addr + to;
        wr.wr.rdma.rkey = peer->rkey;
    }
    errno = ibv_post_send(e->qp, &wr, &bad);
    need(!errno, "ibv_post_send");
}

void recv_post(struct end *e, size_t at, uint32_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)e->buf + at, .length = length, .lkey = e->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 1000, .sg_list = &sge, .num_sge = 1}, *bad;
    errno = ibv_post_recv(e->qp, &wr, &bad);
    need(!errno, "ibv_post_recv");
}

enum ibv_wc_status completion_wait(struct end *e, struct ibv_wc *wc)
{
    int got;
    while ((got = ibv_poll_cq(e->cq, 1, wc)) == 0)
        sched_yield();
    need(got == 1, "ibv_poll_cq");
    return wc->status;
}

void address_print(const struct address *a)
{
    printf("address");
    for (int i = 0; i < 16; i++)
        printf(" %u", a->gid.raw[i]);
    printf(" %u %u %" PRIu64 "\n", a->qpn, a->rkey, a->addr);
    fflush(stdout);
}

struct address address_read(void)
{
    struct address a;
    unsigned byte;
    int got = scanf(" address");
    for (int i = 0; i < 16 && got >= 0; i++) {
        got = scanf("%u", &byte);
        a.gid.raw[i] = byte;
    }
    got = scanf("%u %u %" SCNu64, &a.qpn, &a.rkey, &a.addr);
    need(got == 3, "reading the peer's address");
    return a;
}
