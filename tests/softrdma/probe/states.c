/* SPDX-License-Identifier: BSD-3-Clause */
/* The state machine: every edge, every attribute left out or added, values out of range, what is read back,
 * and what a request does that is posted in each state. */
#include "probe.h"

#include <errno.h>
#include <string.h>

static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

/* Sensible values for every attribute, so that only the mask decides. */
static struct ibv_qp_attr sensible(const struct side *peer)
{
    return (struct ibv_qp_attr){
        .cur_qp_state = IBV_QPS_RTS,
        .port_num = 1,
        .qp_access_flags = QP_ACCESS,
        .qkey = QKEY,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer->qp->qp_num,
        .max_dest_rd_atomic = 4,
        .max_rd_atomic = 4,
        .min_rnr_timer = 12,
        .timeout = 14,
        .retry_cnt = 3,
        .rnr_retry = 3,
        .alt_port_num = 1,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 64}},
        .alt_ah_attr = {.is_global = 1,
                        .port_num = 1,
                        .grh = {.dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 64}},
    };
}

static int full_mask(enum ibv_qp_type type, int from, int to)
{
    bool rc = type == IBV_QPT_RC, ud = type == IBV_QPT_UD;
    if (to == IBV_QPS_INIT && from == IBV_QPS_RESET)
        return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    if (to == IBV_QPS_RTR && !ud)
        return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    if (to == IBV_QPS_RTS && from == IBV_QPS_RTR)
        return IBV_QP_STATE | IBV_QP_SQ_PSN |
               (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
    return IBV_QP_STATE;
}

/* Brings a's QP from RESET into `state`, by the shortest way. */
static int reach(struct pair *p, enum ibv_qp_state state)
{
    int err = side_to(&p->a, IBV_QPS_RESET);
    if (!err && state >= IBV_QPS_INIT)
        err = side_init(&p->a, &p->how, QP_ACCESS);
    if (!err && state >= IBV_QPS_RTR && state != IBV_QPS_ERR)
        err = side_rtr(&p->a, &p->how, &p->b, 0);
    if (!err && state >= IBV_QPS_RTS && state != IBV_QPS_ERR)
        err = side_rts(&p->a, &p->how, 0);
    if (!err && state == IBV_QPS_SQD) {
        err = side_to(&p->a, IBV_QPS_SQD);
        pause_ms(2); /* draining may be asynchronous */
    }
    if (!err && state == IBV_QPS_ERR)
        err = side_to(&p->a, IBV_QPS_ERR);
    return err;
}

static int attempt(struct pair *p, int from, int to, int mask)
{
    struct ibv_qp_attr attr = sensible(&p->b);
    int tries = 3;
    while (reach(p, from) && --tries)
        pause_ms(5); /* a drain that is not over */
    if (!tries)
        return -1;
    attr.qp_state = to;
    return ibv_modify_qp(p->a.qp, &attr, mask);
}

static void swallow_async(void)
{
    struct ibv_async_event event;
    for (int i = 0; i < 2; i++)
        while (!ibv_get_async_event(contexts[i], &event))
            ibv_ack_async_event(&event);
}

static void ask_edges(struct pair *p)
{
    for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
        if (from == IBV_QPS_SQE)
            continue; /* cannot be reached from here */
        fact_begin("states", "%s edges from %s", type_name(p->how.type), state_name(from));
        for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR + 1; to++)
            fact_add(" %s %s%s", state_name(to),
                     errno_name(attempt(p, from, to, full_mask(p->how.type, from, to))),
                     to > IBV_QPS_ERR ? "" : ",");
        fact_end();
    }
}

static void ask_masks(struct pair *p)
{
    static const struct {
        int from, to;
    } edges[] = {
        {IBV_QPS_RESET, IBV_QPS_INIT}, {IBV_QPS_INIT, IBV_QPS_INIT}, {IBV_QPS_INIT, IBV_QPS_RTR},
        {IBV_QPS_RTR, IBV_QPS_RTS},    {IBV_QPS_RTS, IBV_QPS_RTS},   {IBV_QPS_RTS, IBV_QPS_SQD},
        {IBV_QPS_SQD, IBV_QPS_SQD},    {IBV_QPS_SQD, IBV_QPS_RTS},   {IBV_QPS_RTS, IBV_QPS_ERR},
        {IBV_QPS_RTS, IBV_QPS_RESET},
    };
    static const char *const bits[] = {
        "STATE",  "CUR_STATE", "SQD_NOTIFY", "ACCESS",    "PKEY",     "PORT",   "QKEY", "AV",
        "MTU",    "TIMEOUT",   "RETRY",      "RNR_RETRY", "RQ_PSN",   "MAX_RD", "ALT",  "MIN_RNR",
        "SQ_PSN", "DEST_RD",   "MIG",        "CAP",       "DEST_QPN", "RATE",
    };
    for (size_t e = 0; e < sizeof(edges) / sizeof(*edges); e++) {
        int full = full_mask(p->how.type, edges[e].from, edges[e].to);
        fact_begin("states", "%s %s to %s, one attribute more or less", type_name(p->how.type),
                   state_name(edges[e].from), state_name(edges[e].to));
        for (int bit = 0; bit < 22; bit++) {
            int err = attempt(p, edges[e].from, edges[e].to, full ^ 1 << bit);
            if (!err || err != EINVAL) /* the rule is a refusal with EINVAL; what is printed is the rest */
                fact_add(" %c%s%s%s", full & 1 << bit ? '-' : '+', bits[bit], err ? " " : "",
                         err ? errno_name(err) : "");
        }
        fact_end();
    }
}

static void ask_value(struct pair *p, const char *question, int from, int to, int mask,
                      const struct ibv_qp_attr *change, size_t offset, size_t size)
{
    struct ibv_qp_attr attr = sensible(&p->b);
    memcpy((char *)&attr + offset, (const char *)change + offset, size);
    attr.qp_state = to;
    if (reach(p, from))
        fact("states", question, "cannot get there");
    else
        fact_errno("states", question, ibv_modify_qp(p->a.qp, &attr, mask));
}

#define VALUE(question, from, to, more, field, value)                                                        \
    do {                                                                                                     \
        struct ibv_qp_attr change_ = {.field = value};                                                       \
        ask_value(p, question, from, to, full_mask(p->how.type, from, to) | (more), &change_,                \
                  __builtin_offsetof(struct ibv_qp_attr, field), sizeof(change_.field));                     \
    } while (0)

static void ask_values(struct pair *p)
{
    union ibv_gid far = p->b.gid, family;
    far.raw[15] = 77;
    ibv_query_gid(contexts[1], 1, 0, &family);
    VALUE("port 0", IBV_QPS_RESET, IBV_QPS_INIT, 0, port_num, 0);
    VALUE("port 2", IBV_QPS_RESET, IBV_QPS_INIT, 0, port_num, 2);
    VALUE("pkey_index 5", IBV_QPS_RESET, IBV_QPS_INIT, 0, pkey_index, 5);
    VALUE("access bit 12", IBV_QPS_RESET, IBV_QPS_INIT, 0, qp_access_flags, 1 << 12);
    VALUE("path_mtu 0", IBV_QPS_INIT, IBV_QPS_RTR, 0, path_mtu, 0);
    VALUE("path_mtu 5", IBV_QPS_INIT, IBV_QPS_RTR, 0, path_mtu, 5);
    VALUE("path_mtu 6", IBV_QPS_INIT, IBV_QPS_RTR, 0, path_mtu, 6);
    VALUE("dest_qp_num of 25 bits", IBV_QPS_INIT, IBV_QPS_RTR, 0, dest_qp_num, 0x1ffffff);
    VALUE("rq_psn of 25 bits", IBV_QPS_INIT, IBV_QPS_RTR, 0, rq_psn, 0x1000005);
    VALUE("max_dest_rd_atomic 200", IBV_QPS_INIT, IBV_QPS_RTR, 0, max_dest_rd_atomic, 200);
    VALUE("min_rnr_timer 32", IBV_QPS_INIT, IBV_QPS_RTR, 0, min_rnr_timer, 32);
    VALUE("address without GRH", IBV_QPS_INIT, IBV_QPS_RTR, 0, ah_attr.is_global, 0);
    VALUE("address with port 2", IBV_QPS_INIT, IBV_QPS_RTR, 0, ah_attr.port_num, 2);
    VALUE("address with an empty source index", IBV_QPS_INIT, IBV_QPS_RTR, 0, ah_attr.grh.sgid_index, 200);
    VALUE("address of the other family", IBV_QPS_INIT, IBV_QPS_RTR, 0, ah_attr.grh.dgid, family);
    VALUE("address of nobody", IBV_QPS_INIT, IBV_QPS_RTR, 0, ah_attr.grh.dgid, far);
    VALUE("timeout 31", IBV_QPS_RTR, IBV_QPS_RTS, 0, timeout, 31);
    VALUE("timeout 32", IBV_QPS_RTR, IBV_QPS_RTS, 0, timeout, 32);
    VALUE("retry_cnt 8", IBV_QPS_RTR, IBV_QPS_RTS, 0, retry_cnt, 8);
    VALUE("rnr_retry 8", IBV_QPS_RTR, IBV_QPS_RTS, 0, rnr_retry, 8);
    VALUE("max_rd_atomic 128", IBV_QPS_RTR, IBV_QPS_RTS, 0, max_rd_atomic, 128);
    VALUE("max_rd_atomic 129", IBV_QPS_RTR, IBV_QPS_RTS, 0, max_rd_atomic, 129);
    VALUE("sq_psn of 25 bits", IBV_QPS_RTR, IBV_QPS_RTS, 0, sq_psn, 0x1000005);
    VALUE("cur_qp_state right", IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_RTS);
    VALUE("cur_qp_state wrong", IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_SQD);
    VALUE("cur_qp_state INIT", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_INIT);
    VALUE("path_mig_state 1", IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_PATH_MIG_STATE, path_mig_state, 1);
    fact_errno("states", "query_qp with mask -1", ({
                   struct ibv_qp_attr attr;
                   struct ibv_qp_init_attr init;
                   ibv_query_qp(p->a.qp, &attr, -1, &init);
               }));
    fact_errno("states", "query_qp with mask 0x1ffffff", ({
                   struct ibv_qp_attr attr;
                   struct ibv_qp_init_attr init;
                   ibv_query_qp(p->a.qp, &attr, 0x1ffffff, &init);
               }));
    fact_errno("states", "modify_qp with mask 0", ({
                   struct ibv_qp_attr attr = {0};
                   reach(p, IBV_QPS_RTS);
                   ibv_modify_qp(p->a.qp, &attr, 0);
               }));
}

static void attr_show(const char *question, struct side *s, const struct side *peer)
{
    struct ibv_qp_attr a = side_query(s);
    fact("states", question,
         "state %s cur %s mtu %d mig %d qkey %x rq_psn %x sq_psn %x dest %s access %x pkey %d draining %d rd "
         "%d dest_rd %d min_rnr %d port %d "
         "timeout %d retry %d rnr %d alt_port %d alt_timeout %d",
         state_name(a.qp_state), state_name(a.cur_qp_state), a.path_mtu, a.path_mig_state, a.qkey, a.rq_psn,
         a.sq_psn,
         a.dest_qp_num == peer->qp->qp_num ? "peer"
         : a.dest_qp_num                   ? "other"
                                           : "0",
         a.qp_access_flags, a.pkey_index, a.sq_draining, a.max_rd_atomic, a.max_dest_rd_atomic,
         a.min_rnr_timer, a.port_num, a.timeout, a.retry_cnt, a.rnr_retry, a.alt_port_num, a.alt_timeout);
}

static void ask_readback(struct pair *p)
{
    side_to(&p->a, IBV_QPS_RESET);
    attr_show("query in RESET after use", &p->a, &p->b);
    p->how.rd_atomic = 5;
    p->how.dest_rd_atomic = 9;
    p->how.timeout = 14;
    p->how.rnr_retry = 6;
    p->how.min_rnr_timer = 12;
    side_init(&p->a, &p->how, IBV_ACCESS_REMOTE_READ);
    attr_show("query in INIT", &p->a, &p->b);
    side_rtr(&p->a, &p->how, &p->b, 0x123456);
    attr_show("query in RTR", &p->a, &p->b);
    side_rts(&p->a, &p->how, 0xfedcba);
    attr_show("query in RTS", &p->a, &p->b);
    struct ibv_qp_attr a = side_query(&p->a);
    fact("states", "address read back",
         "global %d port %d dgid %s sgid_index %d hop %d class %d flow %x sl %d dlid %d rate %d",
         a.ah_attr.is_global, a.ah_attr.port_num,
         memcmp(&a.ah_attr.grh.dgid, &p->b.gid, 16) ? "other" : "as given", a.ah_attr.grh.sgid_index,
         a.ah_attr.grh.hop_limit, a.ah_attr.grh.traffic_class, a.ah_attr.grh.flow_label, a.ah_attr.sl,
         a.ah_attr.dlid, a.ah_attr.static_rate);
    side_to(&p->a, IBV_QPS_ERR);
    attr_show("query in ERR", &p->a, &p->b);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    ibv_query_qp(p->a.qp, &attr, IBV_QP_STATE, &init);
    fact("states", "init attributes read back", "type %s sig_all %d srq %s cqs %s", type_name(init.qp_type),
         init.sq_sig_all, init.srq ? "set" : "none",
         init.send_cq == p->a.send_cq && init.recv_cq == p->a.recv_cq ? "as given" : "other");
}

static void ask_posts(void)
{
    struct pair p;
    struct setup how = usual;
    how.unconnected = true;
    pair_open(&p, &how);
    fact_errno("states", "post_send in RESET", send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1));
    fact_errno("states", "post_recv in RESET", recv_post(&p.a, 11, 8));
    side_init(&p.a, &how, QP_ACCESS);
    side_init(&p.b, &how, QP_ACCESS);
    fact_errno("states", "post_send in INIT", send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 2));
    fact_errno("states", "post_recv in INIT", recv_post(&p.a, 12, 8));
    side_rtr(&p.a, &how, &p.b, 0);
    side_rtr(&p.b, &how, &p.a, 0);
    fact_errno("states", "post_send in RTR", send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 3));
    fact_errno("states", "post_recv in RTR", recv_post(&p.a, 13, 8));
    side_rts(&p.a, &how, 0);
    side_rts(&p.b, &how, 0);
    fact_begin("states", "requests refused in RESET, INIT and RTR, once in RTS");
    pair_watch(&p, 3, 0, 60);
    fact_end();
    fact_begin("states", "and after the next post");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 4);
    pair_watch(&p, 4, 0, 200);
    fact_end();
    fact_begin("states", "two receives flushed by ERR");
    side_to(&p.a, IBV_QPS_ERR);
    pair_watch(&p, 0, 0, 30);
    fact_end();
    fact_begin("states", "send posted in ERR");
    fact_add(" %s", errno_name(send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 5)));
    pair_watch(&p, 1, 0, 200);
    fact_end();
    pair_close(&p);

    pair_open(&p, &usual);
    side_to(&p.a, IBV_QPS_ERR);
    fact_begin("states", "receive posted in ERR, then a send");
    fact_add(" %s", errno_name(recv_post(&p.a, 14, 8)));
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 6);
    pause_ms(150);
    pair_watch(&p, 1, 0, 200);
    fact_end();
    pair_close(&p);

    pair_open(&p, &usual);
    recv_post(&p.a, 1, 8);
    recv_post(&p.a, 2, 8);
    fact_begin("states", "receives discarded by RESET");
    side_to(&p.a, IBV_QPS_RESET);
    pair_watch(&p, 0, 1, 30);
    fact_end();
    pair_close(&p);
}

static void ask_drain(void)
{
    struct pair p;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    pair_open(&p, &usual);
    fact_errno("states", "RTS to SQD with notify",
               ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
    fact_begin("states", "idle queue drained");
    pair_watch(&p, 0, 0, 20);
    fact_end();
    fact_begin("states", "post_send in SQD");
    fact_add(" %s", errno_name(send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1)));
    pair_watch(&p, 1, 0, 40);
    fact_end();
    fact_begin("states", "a message received in SQD");
    struct work w = work_make(&p.b, &p.a, IBV_WR_RDMA_WRITE, 8, 7);
    work_post(&p.b, &w);
    pause_ms(20);
    pair_watch(&p, 0, 0, 0);
    fact_end();
    fact_begin("states", "back to RTS");
    fact_add(" %s", errno_name(side_to(&p.a, IBV_QPS_RTS)));
    pair_watch(&p, 1, 0, 40);
    fact_end();
    fact_begin("states", "one more request after that");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 2);
    pair_watch(&p, 2, 0, 200);
    fact_end();
    pair_close(&p);

    pair_open(&p, &usual);
    fact_begin("states", "SQD without notify");
    fact_add(" %s", errno_name(side_to(&p.a, IBV_QPS_SQD)));
    pair_watch(&p, 0, 0, 20);
    fact_end();
    pair_close(&p);
}

/* ERR and back: a QP that went through RESET is as good as new. */
static void ask_again(void)
{
    struct pair p;
    pair_open(&p, &usual);
    side_to(&p.a, IBV_QPS_ERR);
    side_to(&p.b, IBV_QPS_ERR);
    for (struct side *s = &p.a; s; s = s == &p.a ? &p.b : NULL) {
        side_to(s, IBV_QPS_RESET);
        side_init(s, &p.how, QP_ACCESS);
        side_rtr(s, &p.how, s == &p.a ? &p.b : &p.a, 0);
        side_rts(s, &p.how, 0);
    }
    fact_begin("states", "write after ERR, RESET and back");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    pair_watch(&p, 1, 0, 200);
    fact_end();
    pair_close(&p);
}

void ask_states(void)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        struct pair p;
        struct setup how = usual;
        how.type = types[i];
        how.unconnected = true;
        pair_open(&p, &how);
        ask_edges(&p);
        ask_masks(&p);
        if (types[i] == IBV_QPT_RC) {
            ask_values(&p);
            ask_readback(&p);
        }
        swallow_async();
        pair_close(&p);
    }
    ask_posts();
    ask_drain();
    ask_again();
}
