/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair of queue pairs on which most questions are asked: making it, connecting it, posting to it,
 * watching what comes of it. */
#include "probe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct ibv_context *contexts[2];
struct ibv_pd *pds[2];
int gid_index = 1;

/* Ack timeout 4.096 us << 8 is below a kernel tick, so a dead peer is found within a few milliseconds. */
const struct setup usual = {
    .type = IBV_QPT_RC,
    .depth = 15,
    .a_cqe = 63,
    .b_cqe = 63,
    .a_mr_access = ALL_ACCESS,
    .b_mr_access = ALL_ACCESS,
    .a_qp_access = QP_ACCESS,
    .b_qp_access = QP_ACCESS,
    .timeout = 8,
    .retry_cnt = 1,
    .rnr_retry = 1,
    .min_rnr_timer = 1,
    .rd_atomic = 4,
    .dest_rd_atomic = 4,
    .mtu = IBV_MTU_1024,
};

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ---- making and breaking ---- */

static void side_open(struct side *s, int device, const struct setup *how, uint32_t cqe, int mr_access,
                      bool srq)
{
    *s = (struct side){.ctx = contexts[device], .pd = pds[device]};
    if (how->channels) {
        s->channel = ibv_create_comp_channel(s->ctx);
        must(s->channel, "ibv_create_comp_channel");
    }
    s->send_cq = ibv_create_cq(s->ctx, cqe, NULL, s->channel, 0);
    must(s->send_cq, "ibv_create_cq");
    s->recv_cq = ibv_create_cq(s->ctx, cqe, NULL, s->channel, 0);
    must(s->recv_cq, "ibv_create_cq");
    s->buf = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(s->buf != MAP_FAILED, "mmap");
    memset(s->buf, 0, BUFFER_SIZE); /* the pages exist before anything reads them */
    s->mr = ibv_reg_mr(s->pd, s->buf, BUFFER_SIZE, mr_access);
    must(s->mr, "ibv_reg_mr");
    must(!ibv_query_gid(s->ctx, 1, gid_index, &s->gid), "ibv_query_gid");
    if (srq) {
        struct ibv_srq_init_attr attr = {.attr = {.max_wr = how->depth, .max_sge = 2}};
        s->srq = ibv_create_srq(s->pd, &attr);
        must(s->srq, "ibv_create_srq");
    }
    struct ibv_qp_init_attr attr = {
        .send_cq = s->send_cq,
        .recv_cq = s->recv_cq,
        .srq = s->srq,
        .cap = {.max_send_wr = how->depth,
                .max_recv_wr = how->depth,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 16},
        .qp_type = how->type,
    };
    s->qp = ibv_create_qp(s->pd, &attr);
    must(s->qp, "ibv_create_qp");
}

static void side_close(struct side *s)
{
    if (s->qp)
        ibv_destroy_qp(s->qp);
    if (s->srq)
        ibv_destroy_srq(s->srq);
    ibv_destroy_cq(s->send_cq);
    ibv_destroy_cq(s->recv_cq);
    if (s->channel)
        ibv_destroy_comp_channel(s->channel);
    if (s->mr)
        ibv_dereg_mr(s->mr);
    munmap(s->buf, BUFFER_SIZE);
}

void pair_open(struct pair *p, const struct setup *how)
{
    p->how = *how;
    side_open(&p->a, 0, how, how->a_cqe, how->a_mr_access, false);
    side_open(&p->b, 1, how, how->b_cqe, how->b_mr_access, how->b_srq);
    if (how->unconnected)
        return;
    errno = side_init(&p->a, how, how->a_qp_access);
    errno = errno ? errno : side_init(&p->b, how, how->b_qp_access);
    must(!errno, "modify to INIT");
    errno = side_rtr(&p->a, how, &p->b, 0);
    errno = errno ? errno : side_rtr(&p->b, how, &p->a, how->b_rq_psn);
    must(!errno, "modify to RTR");
    errno = side_rts(&p->a, how, how->a_sq_psn);
    errno = errno ? errno : side_rts(&p->b, how, 0);
    must(!errno, "modify to RTS");
}

void pair_close(struct pair *p)
{
    side_close(&p->a);
    side_close(&p->b);
}

/* ---- states ---- */

int side_init(struct side *s, const struct setup *how, int access)
{
    bool ud = how->type == IBV_QPT_UD;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access, .qkey = QKEY};
    return ibv_modify_qp(s->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int side_rtr(struct side *s, const struct setup *how, const struct side *peer, uint32_t rq_psn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = how->mtu,
        .dest_qp_num = peer->qp->qp_num,
        .rq_psn = rq_psn,
        .max_dest_rd_atomic = how->dest_rd_atomic,
        .min_rnr_timer = how->min_rnr_timer,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 64}},
    };
    int mask = IBV_QP_STATE;
    if (how->type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (how->type == IBV_QPT_RC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(s->qp, &attr, mask);
}

int side_rts(struct side *s, const struct setup *how, uint32_t sq_psn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = sq_psn,
        .timeout = how->timeout,
        .retry_cnt = how->retry_cnt,
        .rnr_retry = how->rnr_retry,
        .max_rd_atomic = how->rd_atomic,
    };
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (how->type == IBV_QPT_RC)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return ibv_modify_qp(s->qp, &attr, mask);
}

int side_to(struct side *s, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    return ibv_modify_qp(s->qp, &attr, IBV_QP_STATE);
}

struct ibv_qp_attr side_query(struct side *s)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    memset(&attr, 0, sizeof(attr));
    must(!ibv_query_qp(s->qp, &attr, 0x1fffff, &init), "ibv_query_qp");
    return attr;
}

int side_state(struct side *s)
{
    return side_query(s).qp_state;
}

/* ---- requests ---- */

struct work work_make(const struct side *from, const struct side *to, enum ibv_wr_opcode opcode,
                      uint32_t length, int id)
{
    struct work w = {
        .wr = {.wr_id = id, .num_sge = length ? 1 : 0, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED},
        .sge = {.addr = (uintptr_t)from->buf, .length = length, .lkey = from->mr->lkey},
    };
    w.wr.imm_data = htobe32(IMM);
    w.wr.wr.rdma.remote_addr = (uintptr_t)to->buf;
    w.wr.wr.rdma.rkey = to->mr->rkey;
    return w;
}

struct work work_atomic(const struct side *from, const struct side *to, enum ibv_wr_opcode opcode,
                        uint64_t compare_add, uint64_t swap)
{
    struct work w = work_make(from, to, opcode, 8, 1);
    w.wr.wr.atomic.remote_addr = (uintptr_t)to->buf;
    w.wr.wr.atomic.rkey = to->mr->rkey;
    w.wr.wr.atomic.compare_add = compare_add;
    w.wr.wr.atomic.swap = swap;
    return w;
}

int work_post(struct side *from, struct work *w)
{
    struct ibv_send_wr *bad = NULL;
    w->wr.sg_list = &w->sge;
    return ibv_post_send(from->qp, &w->wr, &bad);
}

int send_simple(struct side *from, const struct side *to, enum ibv_wr_opcode opcode, uint32_t length, int id)
{
    struct work w = work_make(from, to, opcode, length, id);
    return work_post(from, &w);
}

int recv_post_key(struct side *s, int id, uint32_t length, uint32_t lkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)s->buf + LANDING, .length = length, .lkey = lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    return s->srq ? ibv_post_srq_recv(s->srq, &wr, &bad) : ibv_post_recv(s->qp, &wr, &bad);
}

int recv_post(struct side *s, int id, uint32_t length)
{
    return recv_post_key(s, id, length, s->mr->lkey);
}

/* ---- watching ---- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static const char *opcode_name(enum ibv_wc_opcode opcode)
{
    static const char *const sends[] = {"SEND",    "WRITE",     "READ", "CMP_SWAP", "FETCH_ADD",
                                        "BIND_MW", "LOCAL_INV", "TSO",  "FLUSH",    "ATOMIC_WRITE"};
    if ((unsigned)opcode < sizeof(sends) / sizeof(*sends))
        return sends[opcode];
    return opcode == IBV_WC_RECV ? "RECV" : opcode == IBV_WC_RECV_RDMA_WITH_IMM ? "RECV_IMM" : "opcode?";
}

static void wc_show(const struct ibv_wc *wc)
{
    fact_add(" [%d ", (int)wc->wr_id);
    if (wc->status) {
        fact_add("%s", status_name(wc->status));
        if (wc->vendor_err)
            fact_add(" vendor 0x%x", wc->vendor_err);
    } else {
        fact_add("%s %u", opcode_name(wc->opcode), wc->byte_len);
        if (wc->wc_flags & IBV_WC_GRH)
            fact_add(" grh");
        if (wc->wc_flags & IBV_WC_WITH_IMM)
            fact_add(wc->opcode & IBV_WC_RECV ? " imm %x" : " imm", be32toh(wc->imm_data));
        if (wc->wc_flags & IBV_WC_WITH_INV)
            fact_add(" inv");
    }
    fact_add("]");
}

/* Takes what is there; returns how many. The list is kept apart so that the four CQs can be polled in turns
 * and printed in order. */
struct heap {
    struct ibv_wc wc[64];
    int count;
};

static void heap_fill(struct heap *h, struct ibv_cq *cq)
{
    while (h->count < 64 && ibv_poll_cq(cq, 1, &h->wc[h->count]) > 0)
        h->count++;
}

static void heap_show(const char *title, const struct heap *h)
{
    if (h->count)
        fact_add(" %s", title);
    for (int i = 0; i < h->count; i++)
        wc_show(&h->wc[i]);
}

void async_show(int device)
{
    struct pollfd fd = {.fd = contexts[device]->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    while (poll(&fd, 1, 0) == 1 && !ibv_get_async_event(contexts[device], &event)) {
        fact_add(" async(%c) %s;", 'a' + device, ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
    }
}

void pair_watch(struct pair *p, int sends, int recvs, int ms)
{
    static struct heap as, ar, bs, br;
    as.count = ar.count = bs.count = br.count = 0;
    double end = now_ms() + ms, settle = 0;
    for (;;) {
        heap_fill(&as, p->a.send_cq);
        heap_fill(&br, p->b.recv_cq);
        heap_fill(&ar, p->a.recv_cq);
        heap_fill(&bs, p->b.send_cq);
        double t = now_ms();
        if (!settle && (t >= end || (as.count >= sends && br.count >= recvs)))
            settle = t + 8;
        if (settle && t >= settle)
            break;
        pause_ms(1);
    }
    heap_show("send(a)", &as);
    heap_show("recv(b)", &br);
    heap_show("recv(a)", &ar);
    heap_show("send(b)", &bs);
    fact_add(" %s/%s", p->a.qp ? state_name(side_state(&p->a)) : "-",
             p->b.qp ? state_name(side_state(&p->b)) : "-");
    async_show(0);
    async_show(1);
}
