/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable connections when all goes well: what each operation moves and reports, order, lists, inline data,
 * PSNs, loopback. */
#include "probe.h"

#include <errno.h>
#include <string.h>

static void fill(uint8_t *at, size_t length)
{
    for (size_t i = 0; i < length; i++)
        at[i] = (uint8_t)(i * 7 + (i >> 8) + 1);
}

static void ask_operations(void)
{
    static const struct {
        const char *name;
        enum ibv_wr_opcode opcode;
        bool receive;
        size_t source,
            target; /* offsets in the buffers between which the bytes move, from a to b, except for a READ */
    } ops[] = {
        {"WRITE", IBV_WR_RDMA_WRITE, false, 0, 0}, {"WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, true, 0, 0},
        {"SEND", IBV_WR_SEND, true, 0, LANDING},   {"SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM, true, 0, LANDING},
        {"READ", IBV_WR_RDMA_READ, false, 0, 0},
    };
    static const uint32_t lengths[] = {0, 1, 8, 1024, 1025, 5000, 32768};
    for (size_t o = 0; o < sizeof(ops) / sizeof(*ops); o++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
            struct pair p;
            pair_open(&p, &usual);
            bool read = ops[o].opcode == IBV_WR_RDMA_READ;
            uint8_t *from = (read ? p.b.buf : p.a.buf) + ops[o].source,
                    *to = (read ? p.a.buf : p.b.buf) + ops[o].target;
            fill(from, lengths[i]);
            if (ops[o].receive)
                recv_post(&p.b, 101, 32768);
            fact_begin("rc", "%s of %u", ops[o].name, lengths[i]);
            send_simple(&p.a, &p.b, ops[o].opcode, lengths[i], 1);
            pair_watch(&p, 1, ops[o].receive, 1000);
            fact_add(" bytes %s, next byte %d", memcmp(from, to, lengths[i]) ? "differ" : "arrived",
                     lengths[i] < 32768 ? to[lengths[i]] : 0);
            fact_end();
            pair_close(&p);
        }
    }
}

static void ask_pieces(void)
{
    struct pair p;
    pair_open(&p, &usual);
    struct ibv_send_wr *bad;
    struct ibv_recv_wr *bad_recv;
    fill(p.a.buf, 4096);
    struct ibv_sge gather[2] = {{(uintptr_t)p.a.buf, 100, p.a.mr->lkey},
                                {(uintptr_t)p.a.buf + 1000, 3000, p.a.mr->lkey}};
    struct ibv_sge scatter[2] = {{(uintptr_t)p.b.buf + 5000, 1500, p.b.mr->lkey},
                                 {(uintptr_t)p.b.buf + 20000, 4000, p.b.mr->lkey}};
    struct ibv_recv_wr recv = {.wr_id = 101, .sg_list = scatter, .num_sge = 2};
    ibv_post_recv(p.b.qp, &recv, &bad_recv);
    struct ibv_send_wr send = {
        .wr_id = 1, .sg_list = gather, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    fact_begin("rc", "SEND of 100+3000 bytes into 1500+4000");
    ibv_post_send(p.a.qp, &send, &bad);
    pair_watch(&p, 1, 1, 500);
    bool good = !memcmp(p.b.buf + 5000, p.a.buf, 100) && !memcmp(p.b.buf + 5100, p.a.buf + 1000, 1400) &&
                !memcmp(p.b.buf + 20000, p.a.buf + 2400, 1600);
    fact_add(" bytes %s", good ? "arrived" : "differ");
    fact_end();

    send.opcode = IBV_WR_RDMA_READ;
    send.wr.rdma.remote_addr = (uintptr_t)p.b.buf + 5000;
    send.wr.rdma.rkey = p.b.mr->rkey;
    gather[0] = (struct ibv_sge){(uintptr_t)p.a.buf + 40000, 700, p.a.mr->lkey};
    gather[1] = (struct ibv_sge){(uintptr_t)p.a.buf + 50000, 800, p.a.mr->lkey};
    fact_begin("rc", "READ into 700+800 bytes");
    ibv_post_send(p.a.qp, &send, &bad);
    pair_watch(&p, 1, 0, 500);
    good = !memcmp(p.a.buf + 40000, p.b.buf + 5000, 700) && !memcmp(p.a.buf + 50000, p.b.buf + 5700, 800);
    fact_add(" bytes %s", good ? "arrived" : "differ");
    fact_end();

    gather[0].length = 0;
    send.opcode = IBV_WR_RDMA_WRITE;
    fact_begin("rc", "WRITE with an empty first SGE");
    ibv_post_send(p.a.qp, &send, &bad);
    pair_watch(&p, 1, 0, 500);
    fact_end();

    recv.num_sge = 0;
    ibv_post_recv(p.b.qp, &recv, &bad_recv);
    send.num_sge = 0;
    send.opcode = IBV_WR_SEND;
    fact_begin("rc", "empty SEND into a receive without SGE");
    ibv_post_send(p.a.qp, &send, &bad);
    pair_watch(&p, 1, 1, 500);
    fact_end();
    ibv_post_recv(p.b.qp, &recv, &bad_recv);
    send.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    fact_begin("rc", "empty WRITE_WITH_IMM into a receive without SGE");
    ibv_post_send(p.a.qp, &send, &bad);
    pair_watch(&p, 1, 1, 500);
    fact_end();
    pair_close(&p);
}

static void ask_lists(void)
{
    struct pair p;
    pair_open(&p, &usual);
    struct work w[6];
    struct ibv_send_wr *bad = NULL;
    for (int i = 0; i < 6; i++) {
        w[i] = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, i + 1);
        w[i].wr.send_flags = i % 3 == 2 ? IBV_SEND_SIGNALED : 0;
    }
    for (int i = 0; i < 6; i++) {
        w[i].wr.sg_list = &w[i].sge;
        w[i].wr.next = i < 5 ? &w[i + 1].wr : NULL;
    }
    fact_begin("rc", "list of six writes, each third signaled");
    fact_add(" %s", errno_name(ibv_post_send(p.a.qp, &w[0].wr, &bad)));
    pair_watch(&p, 2, 0, 300);
    fact_end();

    w[3].wr.num_sge = 3;
    for (int i = 0; i < 6; i++)
        w[i].wr.send_flags = IBV_SEND_SIGNALED;
    fact_begin("rc", "list whose fourth request is refused");
    fact_add(" %s", errno_name(ibv_post_send(p.a.qp, &w[0].wr, &bad)));
    fact_add(" bad %ld", bad ? (long)bad->wr_id : -1);
    pair_watch(&p, 3, 0, 300);
    fact_end();

    struct ibv_recv_wr recv[3], *bad_recv = NULL;
    for (int i = 0; i < 3; i++)
        recv[i] = (struct ibv_recv_wr){.wr_id = 100 + i,
                                       .sg_list = &w[0].sge,
                                       .num_sge = i == 1 ? 3 : 1,
                                       .next = i < 2 ? &recv[i + 1] : NULL};
    fact_begin("rc", "list of receives whose second is refused");
    fact_add(" %s", errno_name(ibv_post_recv(p.a.qp, recv, &bad_recv)));
    fact_add(" bad %ld", bad_recv ? (long)bad_recv->wr_id : -1);
    side_to(&p.a, IBV_QPS_ERR);
    pair_watch(&p, 0, 0, 30);
    fact_end();
    pair_close(&p);
}

static void ask_inline(void)
{
    struct pair p;
    pair_open(&p, &usual);
    struct work w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    fill(p.a.buf, 8);
    w.wr.send_flags |= IBV_SEND_INLINE;
    w.sge.lkey = 0xdead; /* inline data needs no key */
    fact_begin("rc", "inline WRITE with a meaningless lkey");
    work_post(&p.a, &w);
    memset(p.a.buf, 0, 8);
    pair_watch(&p, 1, 0, 300);
    fact_add(" byte %d", p.b.buf[7]);
    fact_end();
    w = work_make(&p.a, &p.b, IBV_WR_RDMA_READ, 8, 2);
    w.wr.send_flags |= IBV_SEND_INLINE;
    fact_begin("rc", "inline READ");
    fact_add(" %s", errno_name(work_post(&p.a, &w)));
    pair_watch(&p, 1, 0, 300);
    fact_end();
    pair_close(&p);
}

static void ask_numbers(void)
{
    struct pair p;
    struct setup how = usual;
    how.a_sq_psn = 0xfffffe; /* about to wrap */
    how.b_rq_psn = 0xfffffe;
    pair_open(&p, &how);
    fact_begin("rc", "PSNs from fffffe with MTU 1024 after WRITE 0, 1, 1024, 1025, READ 3000, FETCH_ADD");
    static const uint32_t lengths[] = {0, 1, 1024, 1025};
    struct ibv_wc wc;
    for (int i = 0; i < 6; i++) {
        struct work w = i < 4 ? work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, lengths[i], 1)
                              : work_make(&p.a, &p.b, IBV_WR_RDMA_READ, 3000, 1);
        if (i == 5)
            w = work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
        work_post(&p.a, &w);
        for (int t = 0; t < 300 && ibv_poll_cq(p.a.send_cq, 1, &wc) < 1; t++)
            pause_ms(1);
        fact_add(" %x", side_query(&p.a).sq_psn);
    }
    fact_add(", the responder's rq_psn %x", side_query(&p.b).rq_psn);
    fact_end();
    pair_close(&p);
}

static void ask_shapes(void)
{
    struct pair p;
    struct setup how = usual;
    how.mtu = IBV_MTU_256;
    pair_open(&p, &how);
    fill(p.a.buf, 5000);
    fact_begin("rc", "WRITE of 5000 with MTU 256");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 5000, 1);
    pair_watch(&p, 1, 0, 500);
    fact_add(" bytes %s", memcmp(p.a.buf, p.b.buf, 5000) ? "differ" : "arrived");
    fact_end();
    pair_close(&p);

    /* A QP connected to itself. */
    how = usual;
    how.unconnected = true;
    pair_open(&p, &how);
    side_init(&p.a, &how, QP_ACCESS);
    fact_errno("rc", "QP connected to itself", side_rtr(&p.a, &how, &p.a, 0));
    side_rts(&p.a, &how, 0);
    fact_begin("rc", "SEND to itself");
    recv_post(&p.a, 101, 64);
    send_simple(&p.a, &p.a, IBV_WR_SEND, 8, 1);
    pair_watch(&p, 1, 0, 200);
    fact_end();
    pair_close(&p);

    /* Both ends with one CQ for everything and sq_sig_all. */
    how = usual;
    pair_open(&p, &how);
    struct ibv_qp_init_attr init = {.send_cq = p.a.send_cq,
                                    .recv_cq = p.a.send_cq,
                                    .cap = {4, 4, 1, 1, 0},
                                    .qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1};
    ibv_destroy_qp(p.a.qp);
    p.a.qp = ibv_create_qp(p.a.pd, &init);
    side_init(&p.a, &how, QP_ACCESS);
    side_rtr(&p.a, &how, &p.b, 0);
    side_rts(&p.a, &how, 0);
    side_to(&p.b, IBV_QPS_RESET);
    side_init(&p.b, &how, QP_ACCESS);
    side_rtr(&p.b, &how, &p.a, 0);
    side_rts(&p.b, &how, 0);
    struct work w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.send_flags = 0;
    fact_begin("rc", "unsignaled WRITE with sq_sig_all");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 200);
    fact_end();
    pair_close(&p);
}

static void ask_fields(void)
{
    struct pair p;
    struct ibv_wc wc;
    pair_open(&p, &usual);
    recv_post(&p.b, 101, 64);
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 1);
    pause_ms(20);
    memset(&wc, 0xee, sizeof(wc));
    ibv_poll_cq(p.b.recv_cq, 1, &wc);
    fact("rc", "other fields of a receive completion",
         "qp_num %s src_qp %x slid %u sl %u path %u pkey %u vendor %x",
         wc.qp_num == p.b.qp->qp_num ? "own" : "other", wc.src_qp, wc.slid, wc.sl, wc.dlid_path_bits,
         wc.pkey_index, wc.vendor_err);
    memset(&wc, 0xee, sizeof(wc));
    ibv_poll_cq(p.a.send_cq, 1, &wc);
    fact("rc", "other fields of a send completion",
         "qp_num %s src_qp %x slid %u sl %u path %u pkey %u vendor %x",
         wc.qp_num == p.a.qp->qp_num ? "own" : "other", wc.src_qp, wc.slid, wc.sl, wc.dlid_path_bits,
         wc.pkey_index, wc.vendor_err);
    pair_close(&p);
}

static void ask_order(void)
{
    struct pair p;
    struct work w;
    pair_open(&p, &usual);
    for (int i = 0; i < 4; i++)
        recv_post(&p.b, 101 + i, 8);
    p.b.buf[0] = 5;
    fact_begin("rc", "WRITE, READ, fenced SEND, FETCH_ADD, SEND in order");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    send_simple(&p.a, &p.b, IBV_WR_RDMA_READ, 3000, 2);
    w = work_make(&p.a, &p.b, IBV_WR_SEND, 8, 3);
    w.wr.send_flags |= IBV_SEND_FENCE;
    work_post(&p.a, &w);
    w = work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
    w.wr.wr_id = 4;
    work_post(&p.a, &w);
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 5);
    pair_watch(&p, 5, 2, 500);
    fact_end();
    pair_close(&p);

    /* More requests than the queue holds, in rounds: indices wrap. */
    pair_open(&p, &usual);
    struct ibv_wc wc;
    int good = 0;
    for (int i = 0; i < 100; i++) {
        recv_post(&p.b, i, 8);
        send_simple(&p.a, &p.b, IBV_WR_SEND, 8, i);
        int got = 0;
        for (int t = 0; t < 300 && (got = ibv_poll_cq(p.a.send_cq, 1, &wc)) < 1; t++)
            pause_ms(1);
        good += got == 1 && !wc.status && wc.wr_id == (uint64_t)i;
        for (int t = 0; t < 300 && (got = ibv_poll_cq(p.b.recv_cq, 1, &wc)) < 1; t++)
            pause_ms(1);
        good += got == 1 && !wc.status && wc.wr_id == (uint64_t)i;
    }
    fact("rc", "100 sends through queues of 15", "%d of 200 completions as they should be", good);
    pair_close(&p);
}

void ask_rc(void)
{
    ask_operations();
    ask_pieces();
    ask_lists();
    ask_inline();
    ask_numbers();
    ask_shapes();
    ask_fields();
    ask_order();
}
