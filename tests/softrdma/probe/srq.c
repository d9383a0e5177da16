/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: who takes what, the limit event, resizing, what an error of one QP leaves in the
 * queue. */
#include "probe.h"

#include <errno.h>

static void ask_limit(void)
{
    struct pair p;
    struct setup how = usual;
    how.b_srq = true;
    pair_open(&p, &how);
    struct ibv_srq_attr attr = {.srq_limit = 3};
    for (int i = 1; i <= 4; i++)
        recv_post(&p.b, 100 + i, 64);
    fact_errno("srq", "arm the limit at 3 of 4", ERRNO_OF_INT(ibv_modify_srq(p.b.srq, &attr, IBV_SRQ_LIMIT)));
    for (int i = 1; i <= 3; i++) {
        fact_begin("srq", "message %d, limit 3, four receives", i);
        send_simple(&p.a, &p.b, IBV_WR_SEND, 8, i);
        pair_watch(&p, 1, 1, 300);
        ibv_query_srq(p.b.srq, &attr);
        fact_add(" limit now %u", attr.srq_limit);
        fact_end();
    }
    attr.srq_limit = 5;
    fact_begin("srq", "arm the limit above what is posted");
    fact_add(" %s", errno_name(ERRNO_OF_INT(ibv_modify_srq(p.b.srq, &attr, IBV_SRQ_LIMIT))));
    pair_watch(&p, 0, 0, 10);
    fact_end();
    side_to(&p.b, IBV_QPS_ERR);
    fact_begin("srq", "its QP in ERR leaves the receives");
    pair_watch(&p, 0, 0, 30);
    fact_end();
    pair_close(&p);
}

static void ask_resize(void)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 10, .max_sge = 2}};
    struct ibv_srq *srq = ibv_create_srq(pds[0], &init);
    static const struct {
        const char *name;
        struct ibv_srq_attr attr;
        int mask;
    } changes[] = {
        {"grow to 100", {100, 0, 0}, IBV_SRQ_MAX_WR},
        {"limit 200 of 127", {0, 0, 200}, IBV_SRQ_LIMIT},
        {"limit 20", {0, 0, 20}, IBV_SRQ_LIMIT},
        {"shrink to 10, below the limit", {10, 0, 0}, IBV_SRQ_MAX_WR},
        {"shrink to 30", {30, 0, 0}, IBV_SRQ_MAX_WR},
        {"size 0", {0, 0, 0}, IBV_SRQ_MAX_WR},
        {"size beyond the device's", {(1 << 20) + 1, 0, 0}, IBV_SRQ_MAX_WR},
        {"both at once", {50, 0, 7}, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT},
        {"an unknown bit", {50, 0, 7}, 4},
        {"nothing", {50, 0, 7}, 0},
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        struct ibv_srq_attr attr = changes[i].attr, seen = {0};
        int err = ERRNO_OF_INT(ibv_modify_srq(srq, &attr, changes[i].mask));
        ibv_query_srq(srq, &seen);
        fact_begin("srq", "modify, %s", changes[i].name);
        fact_add(" %s, now %u wr %u sge limit %u", errno_name(err), seen.max_wr, seen.max_sge,
                 seen.srq_limit);
        fact_end();
    }
    ibv_destroy_srq(srq);

    /* Posted receives survive a resize, in order. */
    struct pair p;
    struct setup how = usual;
    how.b_srq = true;
    pair_open(&p, &how);
    for (int i = 1; i <= 6; i++)
        recv_post(&p.b, 100 + i, 64);
    struct ibv_srq_attr attr = {.max_wr = 100};
    fact_begin("srq", "six receives through a resize");
    fact_add(" %s", errno_name(ERRNO_OF_INT(ibv_modify_srq(p.b.srq, &attr, IBV_SRQ_MAX_WR))));
    for (int i = 1; i <= 6; i++)
        send_simple(&p.a, &p.b, IBV_WR_SEND, 8, i);
    pair_watch(&p, 6, 6, 500);
    fact_end();
    pair_close(&p);

    pair_open(&p, &how);
    for (int i = 1; i <= 9; i++)
        recv_post(&p.b, 100 + i, 64);
    attr.max_wr = 4;
    fact_errno("srq", "shrink to 4 with nine posted",
               ERRNO_OF_INT(ibv_modify_srq(p.b.srq, &attr, IBV_SRQ_MAX_WR)));
    pair_close(&p);
}

static void ask_sharing(void)
{
    /* Two QPs of one SRQ take from it in turn. */
    struct pair p, q;
    struct setup how = usual;
    how.timeout = 14;
    how.b_srq = true;
    pair_open(&p, &how);
    how.unconnected = true;
    how.b_srq = false;
    pair_open(&q, &how);
    struct ibv_qp_init_attr init = {.send_cq = p.b.send_cq,
                                    .recv_cq = p.b.recv_cq,
                                    .srq = p.b.srq,
                                    .cap = {4, 0, 1, 0, 0},
                                    .qp_type = IBV_QPT_RC};
    ibv_destroy_qp(q.b.qp);
    q.b.qp = ibv_create_qp(q.b.pd, &init);
    side_init(&q.a, &how, QP_ACCESS);
    side_init(&q.b, &how, QP_ACCESS);
    side_rtr(&q.a, &how, &q.b, 0);
    side_rtr(&q.b, &how, &q.a, 0);
    side_rts(&q.a, &how, 0);
    side_rts(&q.b, &how, 0);
    for (int i = 1; i <= 4; i++)
        recv_post(&p.b, 100 + i, 64);
    for (int i = 1; i <= 4; i++) {
        struct pair *from = i % 2 ? &p : &q;
        send_simple(&from->a, &from->b, IBV_WR_SEND, 8, i);
        pause_ms(10);
    }
    struct ibv_wc wc;
    fact_begin("srq", "two QPs take in turn");
    while (ibv_poll_cq(p.b.recv_cq, 1, &wc) > 0)
        fact_add(" [%d by %s]", (int)wc.wr_id,
                 wc.qp_num == p.b.qp->qp_num   ? "the first"
                 : wc.qp_num == q.b.qp->qp_num ? "the second"
                                               : "none");
    fact_end();
    while (ibv_poll_cq(p.a.send_cq, 1, &wc) > 0)
        ;

    fact_begin("srq", "empty SRQ, rnr_retry 1");
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 9);
    pair_watch(&p, 1, 0, 500);
    fact_end();
    ibv_destroy_qp(q.b.qp);
    q.b.qp = NULL;
    pair_close(&q);
    pair_close(&p);

    how = usual;
    how.b_srq = true;
    pair_open(&p, &how);
    recv_post(&p.b, 101, 4);
    recv_post(&p.b, 102, 64);
    fact_begin("srq", "receive too short");
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 1);
    pair_watch(&p, 1, 1, 100);
    fact_end();
    pair_close(&p);

    struct ibv_srq_init_attr small = {.attr = {.max_wr = 3, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pds[0], &small);
    struct ibv_sge sge = {0, 0, 0};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    int posted = 0, err;
    while (!(err = ibv_post_srq_recv(srq, &wr, &bad)) && posted < 100)
        posted++;
    fact("srq", "post to a full SRQ of 3", "%s after %d", errno_name(err), posted);
    ibv_destroy_srq(srq);
    srq = ibv_create_srq(pds[0], &small);
    wr.num_sge = 5;
    fact_errno("srq", "post with five SGEs of one", ibv_post_srq_recv(srq, &wr, &bad));
    ibv_destroy_srq(srq);
}

void ask_srq(void)
{
    ask_limit();
    ask_resize();
    ask_sharing();
}
