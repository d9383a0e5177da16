/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable connections when something is wrong: which side learns of it, with which status, and what becomes
 * of the queues. */
#include "probe.h"

#include <errno.h>

/* One case: how the pair is made, what is done to it, how many completions are worth waiting for. */
struct fault {
    const char *name;
    void (*change)(struct setup *how);
    void (*act)(struct pair *p);
    int sends, recvs;
};

static void write_far_key(struct pair *p)
{
    recv_post(&p->a, 201, 8);
    recv_post(&p->b, 101, 8);
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.wr.rdma.rkey ^= 0x10000;
    w.wr.send_flags = 0; /* an error is reported even so */
    work_post(&p->a, &w);
    w.wr.wr_id = 2;
    work_post(&p->a, &w);
    w.wr.wr_id = 3;
    w.wr.send_flags = IBV_SEND_SIGNALED;
    work_post(&p->a, &w);
}
static void read_far_key(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_READ, 8, 1);
    w.wr.wr.rdma.rkey ^= 0x10000;
    work_post(&p->a, &w);
}
static void write_key_low_byte(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.wr.rdma.rkey ^= 1;
    work_post(&p->a, &w);
}
static void write_past_end(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.wr.rdma.remote_addr += BUFFER_SIZE - 4;
    work_post(&p->a, &w);
}
static void write_to_last_bytes(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.wr.rdma.remote_addr += BUFFER_SIZE - 8;
    work_post(&p->a, &w);
}
static void write_before_start(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.wr.rdma.remote_addr -= 1;
    work_post(&p->a, &w);
}
static void write_wrapping(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.wr.rdma.remote_addr = UINT64_MAX - 3;
    work_post(&p->a, &w);
}
static void write_crossing_end(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_WRITE, 5000, 1);
    w.wr.wr.rdma.remote_addr += BUFFER_SIZE - 4000;
    work_post(&p->a, &w);
}
static void write_nothing_far_key(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_WRITE, 0, 1);
    w.wr.wr.rdma.rkey = 0;
    work_post(&p->a, &w);
}
static void read_nothing_far_key(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_READ, 0, 1);
    w.wr.wr.rdma.rkey = 0;
    work_post(&p->a, &w);
}
static void write_plain(struct pair *p)
{
    send_simple(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
}
static void write_with_receives(struct pair *p)
{
    recv_post(&p->b, 101, 8);
    send_simple(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
}
static void read_plain(struct pair *p)
{
    send_simple(&p->a, &p->b, IBV_WR_RDMA_READ, 8, 1);
}
static void atomic_plain(struct pair *p)
{
    struct work w = work_atomic(&p->a, &p->b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
    work_post(&p->a, &w);
}
static void atomic_far_key(struct pair *p)
{
    struct work w = work_atomic(&p->a, &p->b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
    w.wr.wr.atomic.rkey ^= 0x10000;
    work_post(&p->a, &w);
}
static void send_local_key(struct pair *p)
{
    recv_post(&p->b, 101, 64);
    struct work w = work_make(&p->a, &p->b, IBV_WR_SEND, 8, 1);
    w.sge.lkey ^= 0x10000;
    work_post(&p->a, &w);
    send_simple(&p->a, &p->b, IBV_WR_SEND, 8, 2);
}
static void send_local_past_end(struct pair *p)
{
    recv_post(&p->b, 101, 64);
    struct work w = work_make(&p->a, &p->b, IBV_WR_SEND, 8, 1);
    w.sge.addr += BUFFER_SIZE - 6;
    work_post(&p->a, &w);
}
static void send_nothing_local_key(struct pair *p)
{
    recv_post(&p->b, 101, 64);
    struct work w = work_make(&p->a, &p->b, IBV_WR_SEND, 8, 1);
    w.sge.length = 0;
    w.sge.lkey ^= 0x10000;
    work_post(&p->a, &w);
}
static void receive_key(struct pair *p)
{
    recv_post_key(&p->b, 101, 64, p->b.mr->lkey ^ 0x10000);
    recv_post(&p->b, 102, 64);
    send_simple(&p->a, &p->b, IBV_WR_SEND, 8, 1);
}
static void receive_short(struct pair *p)
{
    recv_post(&p->b, 101, 4);
    recv_post(&p->b, 102, 64);
    send_simple(&p->a, &p->b, IBV_WR_SEND, 8, 1);
}
static void receive_short_of_packets(struct pair *p)
{
    recv_post(&p->b, 101, 3000);
    send_simple(&p->a, &p->b, IBV_WR_SEND, 5000, 1);
}
static void receive_exact(struct pair *p)
{
    recv_post(&p->b, 101, 5000);
    send_simple(&p->a, &p->b, IBV_WR_SEND, 5000, 1);
}
static void imm_without_space(struct pair *p)
{
    recv_post(&p->b, 101, 4); /* the length of a receive does not matter to a write with immediate */
    send_simple(&p->a, &p->b, IBV_WR_RDMA_WRITE_WITH_IMM, 64, 1);
}
static void imm_far_key(struct pair *p)
{
    recv_post(&p->b, 101, 64);
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 1);
    w.wr.wr.rdma.rkey ^= 0x10000;
    work_post(&p->a, &w);
}
static void six_writes(struct pair *p)
{
    for (int i = 1; i <= 6; i++)
        send_simple(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, i);
    pause_ms(30); /* nobody polls meanwhile */
}
static void six_sends(struct pair *p)
{
    for (int i = 1; i <= 6; i++)
        recv_post(&p->b, 100 + i, 64);
    for (int i = 1; i <= 6; i++) {
        send_simple(&p->a, &p->b, IBV_WR_SEND, 8, i);
        pause_ms(5);
    }
    pause_ms(30);
}
static void invalidate_mr(struct pair *p)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_LOCAL_INV, 0, 1);
    w.wr.invalidate_rkey = p->a.mr->rkey;
    work_post(&p->a, &w);
}
static void send_invalidating_mr(struct pair *p)
{
    recv_post(&p->b, 101, 64);
    struct work w = work_make(&p->a, &p->b, IBV_WR_SEND_WITH_INV, 8, 1);
    w.wr.invalidate_rkey = p->b.mr->rkey;
    work_post(&p->a, &w);
}
static void send_invalidating_nothing(struct pair *p)
{
    recv_post(&p->b, 101, 64);
    struct work w = work_make(&p->a, &p->b, IBV_WR_SEND_WITH_INV, 8, 1);
    w.wr.invalidate_rkey = 0x12300;
    work_post(&p->a, &w);
}
static void unknown_opcode(struct pair *p)
{
    send_simple(&p->a, &p->b, 60, 8, 1);
}
static void both_directions(struct pair *p)
{
    send_simple(&p->b, &p->a, IBV_WR_RDMA_WRITE, 8, 7);
    send_simple(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
}
static void write_then_error(struct pair *p)
{
    send_simple(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 1);
    send_simple(&p->a, &p->b, IBV_WR_RDMA_READ, 8, 2);
    struct work w = work_make(&p->a, &p->b, IBV_WR_RDMA_READ, 8, 3);
    w.wr.wr.rdma.rkey ^= 0x10000;
    work_post(&p->a, &w);
    send_simple(&p->a, &p->b, IBV_WR_RDMA_WRITE, 8, 4);
}

static void without_remote_write(struct setup *how)
{
    how->b_qp_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}
static void without_remote_read(struct setup *how)
{
    how->b_qp_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
}
static void without_rights(struct setup *how)
{
    how->b_qp_access = 0;
}
static void mr_without_write(struct setup *how)
{
    how->b_mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
}
static void mr_without_read(struct setup *how)
{
    how->b_mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
}
static void mr_without_atomic(struct setup *how)
{
    how->b_mr_access = ALL_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC;
}
static void local_mr_read_only(struct setup *how)
{
    how->a_mr_access = 0;
}
static void receive_mr_read_only(struct setup *how)
{
    how->b_mr_access = IBV_ACCESS_REMOTE_READ;
}
static void no_dest_rd_atomic(struct setup *how)
{
    how->dest_rd_atomic = 0;
}
static void no_rd_atomic(struct setup *how)
{
    how->rd_atomic = 0;
}
static void small_send_cq(struct setup *how)
{
    how->a_cqe = 3;
}
static void small_recv_cq(struct setup *how)
{
    how->b_cqe = 3;
}

static const struct fault faults[] = {
    {"WRITE x3 with an unknown rkey", NULL, write_far_key, 3, 1},
    {"WRITE with the key's low byte wrong", NULL, write_key_low_byte, 1, 0},
    {"WRITE past the end", NULL, write_past_end, 1, 0},
    {"WRITE to the last eight bytes", NULL, write_to_last_bytes, 1, 0},
    {"WRITE one byte before the start", NULL, write_before_start, 1, 0},
    {"WRITE around the end of the address space", NULL, write_wrapping, 1, 0},
    {"WRITE of several packets across the end", NULL, write_crossing_end, 1, 0},
    {"empty WRITE with rkey 0", NULL, write_nothing_far_key, 1, 0},
    {"READ with an unknown rkey", NULL, read_far_key, 1, 0},
    {"empty READ with rkey 0", NULL, read_nothing_far_key, 1, 0},
    {"FETCH_ADD with an unknown rkey", NULL, atomic_far_key, 1, 0},
    {"WRITE, READ, bad READ, WRITE", NULL, write_then_error, 4, 0},
    {"WRITE, QP without REMOTE_WRITE", without_remote_write, write_with_receives, 1, 1},
    {"READ, QP without REMOTE_READ", without_remote_read, read_plain, 1, 0},
    {"FETCH_ADD, QP without REMOTE_ATOMIC", without_remote_read, atomic_plain, 1, 0},
    {"SEND, QP without any right", without_rights, receive_exact, 1, 1},
    {"WRITE, MR without REMOTE_WRITE", mr_without_write, write_plain, 1, 0},
    {"READ, MR without REMOTE_READ", mr_without_read, read_plain, 1, 0},
    {"FETCH_ADD, MR without REMOTE_ATOMIC", mr_without_atomic, atomic_plain, 1, 0},
    {"READ into an MR without LOCAL_WRITE", local_mr_read_only, read_plain, 1, 0},
    {"FETCH_ADD into an MR without LOCAL_WRITE", local_mr_read_only, atomic_plain, 1, 0},
    {"SEND from an MR without LOCAL_WRITE", local_mr_read_only, receive_exact, 1, 1},
    {"receive into an MR without LOCAL_WRITE", receive_mr_read_only, receive_exact, 1, 1},
    {"READ, max_dest_rd_atomic 0", no_dest_rd_atomic, read_plain, 1, 0},
    {"FETCH_ADD, max_dest_rd_atomic 0", no_dest_rd_atomic, atomic_plain, 1, 0},
    {"WRITE, max_rd_atomic 0", no_rd_atomic, write_plain, 1, 0},
    {"SEND with an unknown lkey", NULL, send_local_key, 2, 0},
    {"SEND past the end of the local MR", NULL, send_local_past_end, 1, 0},
    {"empty SGE with an unknown lkey", NULL, send_nothing_local_key, 1, 1},
    {"receive with an unknown lkey", NULL, receive_key, 1, 2},
    {"receive too short", NULL, receive_short, 1, 2},
    {"receive too short for several packets", NULL, receive_short_of_packets, 1, 1},
    {"receive of the exact length", NULL, receive_exact, 1, 1},
    {"WRITE_WITH_IMM with a short receive", NULL, imm_without_space, 1, 1},
    {"WRITE_WITH_IMM with an unknown rkey", NULL, imm_far_key, 1, 1},
    {"six WRITEs, send CQ of 3", small_send_cq, six_writes, 6, 0},
    {"six SENDs, receive CQ of 3", small_recv_cq, six_sends, 6, 6},
    {"LOCAL_INV of an MR", NULL, invalidate_mr, 1, 0},
    {"SEND_WITH_INV of an MR", NULL, send_invalidating_mr, 1, 1},
    {"SEND_WITH_INV of nothing", NULL, send_invalidating_nothing, 1, 1},
    {"opcode 60", NULL, unknown_opcode, 1, 0},
    {"WRITE both ways", NULL, both_directions, 1, 0},
};

static void ask_fault(const struct fault *f)
{
    struct pair p;
    struct setup how = usual;
    if (f->change)
        f->change(&how);
    pair_open(&p, &how);
    fact_begin("faults", "%s", f->name);
    f->act(&p);
    pair_watch(&p, f->sends, f->recvs, 150);
    fact_end();
    pair_close(&p);
}

/* A QP in ERR discards what comes, and flushes what is posted; after RESET it is as new (states/write after
 * ERR). */
static void ask_flush_order(void)
{
    struct pair p;
    struct setup how = usual;
    how.timeout = 20; /* seconds: the requests stay in the queue */
    pair_open(&p, &how);
    side_to(&p.b, IBV_QPS_RESET);
    for (int i = 1; i <= 4; i++) {
        recv_post(&p.a, 200 + i, 8);
        struct work w = work_make(&p.a, &p.b, i == 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 8, i);
        w.wr.send_flags = i % 2 ? 0 : IBV_SEND_SIGNALED;
        work_post(&p.a, &w);
    }
    side_to(&p.a, IBV_QPS_ERR);
    fact_begin("faults", "four pending requests and four receives flushed by ERR");
    pair_watch(&p, 4, 0, 100);
    fact_end();
    pair_close(&p);
}

static void ask_reset_pending(void)
{
    struct pair p;
    struct setup how = usual;
    how.timeout = 20;
    pair_open(&p, &how);
    side_to(&p.b, IBV_QPS_RESET);
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    pause_ms(5);
    side_to(&p.a, IBV_QPS_RESET);
    fact_begin("faults", "a pending request discarded by RESET");
    pair_watch(&p, 1, 0, 40);
    fact_end();
    pair_close(&p);
}

void ask_faults(void)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        ask_fault(&faults[i]);
    ask_flush_order();
    ask_reset_pending();
}
