/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers and retries: no receive posted, a peer that is gone, sequence numbers that do not meet, addresses
 * that are not the peer's. */
#include "probe.h"

#include <errno.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void ask_rnr(void)
{
    struct pair p;
    struct setup how = usual;
    how.timeout = 14; /* the ack timer runs during an RNR wait too */
    pair_open(&p, &how);
    fact_begin("retry", "SEND without a receive, rnr_retry 1");
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 1);
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 2);
    pair_watch(&p, 2, 0, 1000);
    fact_end();
    pair_close(&p);

    how.rnr_retry = 0;
    pair_open(&p, &how);
    fact_begin("retry", "SEND without a receive, rnr_retry 0");
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 1);
    pair_watch(&p, 1, 0, 1000);
    fact_end();
    pair_close(&p);

    how.rnr_retry = 7;
    how.timeout = 18;
    pair_open(&p, &how);
    fact_begin("retry", "rnr_retry 7 waits for a receive, timeout 18");
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 1);
    pause_ms(40);
    recv_post(&p.b, 101, 64);
    pair_watch(&p, 1, 1, 1500);
    fact_end();
    fact_begin("retry", "WRITE_WITH_IMM without a receive waits as well");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 2);
    pause_ms(40);
    recv_post(&p.b, 102, 64);
    pair_watch(&p, 1, 1, 1500);
    fact_end();
    fact_begin("retry", "requests behind a waiting SEND wait");
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 3);
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 4);
    pair_watch(&p, 1, 0, 30);
    fact_end();
    fact_begin("retry", "and complete in order");
    recv_post(&p.b, 103, 64);
    pair_watch(&p, 2, 1, 1500);
    fact_end();
    pair_close(&p);

    how = usual;
    how.rnr_retry = 7;
    pair_open(&p, &how);
    fact_begin("retry", "rnr_retry 7 with an ack timeout shorter than the wait");
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 1);
    pause_ms(40);
    recv_post(&p.b, 101, 64);
    pair_watch(&p, 1, 1, 500);
    fact_end();
    pair_close(&p);

    /* The first arrival finds a bad key and no receive. */
    how = usual;
    how.timeout = 14;
    pair_open(&p, &how);
    struct work w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 1);
    w.wr.wr.rdma.rkey ^= 0x10000;
    fact_begin("retry", "WRITE_WITH_IMM with an unknown rkey and no receive");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 1000);
    fact_end();
    pair_close(&p);

    /* min_rnr_timer 31 is 491.52 ms, of the responder; the requester's own is 10 us. */
    how = usual;
    how.timeout = 20;
    how.min_rnr_timer = 31;
    pair_open(&p, &how);
    double start = seconds();
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 1);
    fact_begin("retry", "rnr_retry 1 with min_rnr_timer 31");
    pair_watch(&p, 1, 0, 3000);
    double took = seconds() - start;
    fact_add(" in %s", took < 0.4 ? "less than 0.4 s" : took < 1.6 ? "0.4 to 1.6 s" : "more than 1.6 s");
    fact_end();
    pair_close(&p);
}

/* What becomes of one write. */
static void watch_write(struct pair *p, const char *question, int limit_ms)
{
    fact_begin("retry", "%s", question);
    send_simple(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
    pair_watch(p, 1, 0, limit_ms);
    fact_end();
}

/* The same to a peer that was connected and is in RESET now. */
static void ask_reset(const struct setup *how, const char *question, int limit_ms)
{
    struct pair p;
    pair_open(&p, how);
    side_to(&p.b, IBV_QPS_RESET);
    watch_write(&p, question, limit_ms);
    pair_close(&p);
}

static void ask_peer(const char *question, enum ibv_qp_state state)
{
    struct pair p;
    pair_open(&p, &usual);
    side_to(&p.b, state);
    fact_begin("retry", "%s", question);
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    send_simple(&p.a, &p.b, IBV_WR_RDMA_READ, 8, 2);
    pair_watch(&p, 2, 0, 2000);
    fact_end();
    pair_close(&p);
}

static void ask_gone(void)
{
    struct pair p;
    ask_peer("peer in RESET", IBV_QPS_RESET);
    ask_peer("peer in ERR", IBV_QPS_ERR);

    pair_open(&p, &usual);
    ibv_destroy_qp(p.b.qp);
    p.b.qp = NULL;
    watch_write(&p, "peer destroyed", 2000);
    pair_close(&p);

    struct setup how = usual;
    how.unconnected = true;
    pair_open(&p, &how);
    side_init(&p.a, &how, QP_ACCESS);
    side_init(&p.b, &how, QP_ACCESS);
    side_rtr(&p.a, &how, &p.b, 0);
    side_rts(&p.a, &how, 0);
    watch_write(&p, "peer in INIT", 2000);
    pair_close(&p);

    pair_open(&p, &how);
    side_init(&p.a, &how, QP_ACCESS);
    side_init(&p.b, &how, QP_ACCESS);
    side_rtr(&p.a, &how, &p.b, 0);
    side_rtr(&p.b, &how, &p.a, 0);
    side_rts(&p.a, &how, 0);
    fact_begin("retry", "peer in RTR answers");
    recv_post(&p.b, 101, 64);
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 1);
    pair_watch(&p, 1, 1, 2000);
    fact_end();
    pair_close(&p);

    /* No timer at all: pending as long as one cares to look. */
    how = usual;
    how.timeout = 0;
    ask_reset(&how, "peer in RESET, timeout 0, 300 ms", 300);

    how = usual;
    how.retry_cnt = 7;
    ask_reset(&how, "peer in RESET, retry_cnt 7, 500 ms", 500);

    how = usual;
    how.retry_cnt = 0;
    ask_reset(&how, "peer in RESET, retry_cnt 0", 1000);

    /* 4.096 us << 15 is 134 ms; with retry_cnt 2 the third silence ends it. */
    how = usual;
    how.timeout = 15;
    how.retry_cnt = 2;
    pair_open(&p, &how);
    side_to(&p.b, IBV_QPS_RESET);
    double start = seconds();
    fact_begin("retry", "peer in RESET, timeout 15, retry_cnt 2");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    pair_watch(&p, 1, 0, 4000);
    double took = seconds() - start;
    fact_add(" in %s", took < 0.25 ? "less than 0.25 s" : took < 1.2 ? "0.25 to 1.2 s" : "more than 1.2 s");
    fact_end();
    pair_close(&p);
}

/* A peer that comes back before the retries are used up. */
static void ask_return(void)
{
    struct pair p;
    struct setup how = usual;
    how.timeout = 14; /* 67 ms */
    how.retry_cnt = 6;
    pair_open(&p, &how);
    side_to(&p.b, IBV_QPS_RESET);
    fact_begin("retry", "peer in RESET that is connected again while the requester retries");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    pause_ms(30);
    side_init(&p.b, &how, QP_ACCESS);
    side_rtr(&p.b, &how, &p.a, 0);
    pair_watch(&p, 1, 0, 1500);
    fact_end();
    pair_close(&p);
}

static void ask_psn(const char *question, uint32_t sender, uint32_t receiver)
{
    struct pair p;
    struct setup how = usual;
    how.a_sq_psn = sender;
    how.b_rq_psn = receiver;
    pair_open(&p, &how);
    fact_begin("retry", "%s", question);
    recv_post(&p.b, 101, 64);
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 1);
    pair_watch(&p, 1, 0, 2000);
    fact_end();
    pair_close(&p);
}

static void ask_stranger(void)
{
    /* b is connected to somebody else: a's messages come from the right address, from the wrong QP. */
    struct pair p, other;
    pair_open(&p, &usual);
    pair_open(&other, &usual);
    side_to(&p.b, IBV_QPS_RESET);
    side_init(&p.b, &usual, QP_ACCESS);
    side_rtr(&p.b, &usual, &other.a, 0);
    side_rts(&p.b, &usual, 0);
    watch_write(&p, "peer connected to another QP of the same device", 2000);
    pair_close(&p);
    pair_close(&other);

    /* b is connected to an address that is not a's. */
    pair_open(&p, &usual);
    side_to(&p.b, IBV_QPS_RESET);
    side_init(&p.b, &usual, QP_ACCESS);
    side_rtr(&p.b, &usual, &p.b, 0);
    side_rts(&p.b, &usual, 0);
    watch_write(&p, "peer connected to another device", 2000);
    pair_close(&p);

    /* UC where RC is expected. */
    struct setup how = usual;
    how.unconnected = true;
    pair_open(&p, &how);
    how.type = IBV_QPT_UC;
    pair_open(&other, &how);
    how.type = IBV_QPT_RC;
    side_init(&p.a, &how, QP_ACCESS);
    side_rtr(&p.a, &how, &other.b, 0);
    side_rts(&p.a, &how, 0);
    how.type = IBV_QPT_UC;
    side_init(&other.b, &how, QP_ACCESS);
    side_rtr(&other.b, &how, &p.a, 0);
    side_rts(&other.b, &how, 0);
    fact_begin("retry", "RC requester, UC responder");
    send_simple(&p.a, &other.b, IBV_WR_RDMA_WRITE, 8, 1);
    pair_watch(&p, 1, 0, 2000);
    fact_end();
    pair_close(&p);
    pair_close(&other);
}

void ask_retry(void)
{
    ask_rnr();
    ask_gone();
    ask_return();
    ask_psn("responder expects 100 more", 0, 100);
    ask_psn("responder expects 51 less", 0, 0xffffff - 50);
    ask_psn("both start at 0xfffffe", 0xfffffe, 0xfffffe);
    ask_stranger();
}
