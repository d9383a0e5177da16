/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: binding of both types, what a window lets through, invalidation, and what holds what. */
#include "probe.h"

#include <errno.h>

/* b binds a window over its buffer; a uses it. */
struct window {
    struct pair p;
    struct ibv_mw *mw;
    uint32_t rkey;
};

static void window_open(struct window *w, enum ibv_mw_type type, int b_mr_access)
{
    struct setup how = usual;
    how.b_mr_access = b_mr_access;
    pair_open(&w->p, &how);
    w->mw = ibv_alloc_mw(w->p.b.pd, type);
}

static int window_bind(struct window *w, size_t offset, size_t length, int access, int id)
{
    w->rkey = ibv_inc_rkey(w->mw->rkey);
    struct ibv_send_wr wr =
                           {
                               .wr_id = id,
                               .opcode = IBV_WR_BIND_MW,
                               .send_flags = IBV_SEND_SIGNALED,
                               .bind_mw = {.mw = w->mw,
                                           .rkey = w->rkey,
                                           .bind_info = {.mr = w->p.b.mr,
                                                         .addr = (uintptr_t)w->p.b.buf + offset,
                                                         .length = length,
                                                         .mw_access_flags = access}},
                           },
                       *bad;
    return ibv_post_send(w->p.b.qp, &wr, &bad);
}

static void window_use(struct window *w, enum ibv_wr_opcode opcode, size_t offset, uint32_t length)
{
    struct work work = work_make(&w->p.a, &w->p.b, opcode, length, 1);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        work = work_atomic(&w->p.a, &w->p.b, opcode, 1, 0), work.wr.wr.atomic.rkey = w->rkey,
        work.wr.wr.atomic.remote_addr += offset;
    else
        work.wr.wr.rdma.rkey = w->rkey, work.wr.wr.rdma.remote_addr += offset;
    work_post(&w->p.a, &work);
    pair_watch(&w->p, 1, 0, 100);
}

/* The window before the QP to which type 2 is tied: the other way round the kernel waits for the window, for
 * minutes. */
static void window_close(struct window *w)
{
    if (w->mw)
        ibv_dealloc_mw(w->mw);
    pair_close(&w->p);
}

/* Bind, then a write of eight bytes at the window's start. */
static void ask_bind(const char *question, enum ibv_mw_type type, int mr_access, size_t offset, size_t length,
                     int access)
{
    struct window w;
    window_open(&w, type, mr_access);
    fact_begin("windows", "bind %s", question);
    fact_add(" %s", errno_name(window_bind(&w, offset, length, access, 9)));
    pair_watch(&w.p, 0, 0, 10);
    fact_end();
    fact_begin("windows", "write after bind %s", question);
    window_use(&w, IBV_WR_RDMA_WRITE, offset, 8);
    fact_end();
    window_close(&w);
}

static void ask_rights(const char *question, int access, enum ibv_wr_opcode opcode, size_t offset,
                       uint32_t length)
{
    struct window w;
    window_open(&w, IBV_MW_TYPE_2, ALL_ACCESS);
    window_bind(&w, 64, 64, access, 9);
    pause_ms(10);
    struct ibv_wc wc;
    while (ibv_poll_cq(w.p.b.send_cq, 1, &wc) > 0)
        ;
    fact_begin("windows", "%s", question);
    window_use(&w, opcode, offset, length);
    fact_end();
    window_close(&w);
}

static void ask_invalidate(void)
{
    struct window w;
    struct ibv_send_wr inv = {.wr_id = 8, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;
    window_open(&w, IBV_MW_TYPE_2, ALL_ACCESS);
    window_bind(&w, 0, 64, IBV_ACCESS_REMOTE_WRITE, 9);
    inv.invalidate_rkey = w.rkey;
    fact_begin("windows", "LOCAL_INV of a bound type 2 window");
    fact_add(" %s", errno_name(ibv_post_send(w.p.b.qp, &inv, &bad)));
    pair_watch(&w.p, 0, 0, 20);
    fact_end();
    fact_begin("windows", "write after LOCAL_INV");
    window_use(&w, IBV_WR_RDMA_WRITE, 0, 8);
    fact_end();
    window_close(&w);

    window_open(&w, IBV_MW_TYPE_2, ALL_ACCESS);
    window_bind(&w, 0, 64, IBV_ACCESS_REMOTE_WRITE, 9);
    pause_ms(10);
    struct work send = work_make(&w.p.a, &w.p.b, IBV_WR_SEND_WITH_INV, 8, 1);
    send.wr.invalidate_rkey = w.rkey;
    recv_post(&w.p.b, 101, 64);
    fact_begin("windows", "SEND_WITH_INV of a bound type 2 window");
    work_post(&w.p.a, &send);
    pair_watch(&w.p, 1, 1, 200);
    struct ibv_wc wc;
    fact_end();
    fact_begin("windows", "write after SEND_WITH_INV");
    window_use(&w, IBV_WR_RDMA_WRITE, 0, 8);
    fact_end();
    window_close(&w);

    window_open(&w, IBV_MW_TYPE_2, ALL_ACCESS);
    window_bind(&w, 0, 64, IBV_ACCESS_REMOTE_WRITE, 9);
    inv.invalidate_rkey = w.rkey;
    ibv_post_send(w.p.b.qp, &inv, &bad);
    pause_ms(10);
    while (ibv_poll_cq(w.p.b.send_cq, 1, &wc) > 0)
        ;
    w.mw->rkey = w.rkey; /* what a user does after a bind of type 2 */
    fact_begin("windows", "bind again after LOCAL_INV");
    fact_add(" %s", errno_name(window_bind(&w, 0, 64, IBV_ACCESS_REMOTE_WRITE, 10)));
    pair_watch(&w.p, 0, 0, 20);
    fact_end();
    fact_begin("windows", "write after the second bind");
    window_use(&w, IBV_WR_RDMA_WRITE, 0, 8);
    fact_end();
    window_close(&w);

    window_open(&w, IBV_MW_TYPE_2, ALL_ACCESS);
    window_bind(&w, 0, 64, IBV_ACCESS_REMOTE_WRITE, 9);
    pause_ms(10);
    w.mw->rkey = w.rkey;
    fact_begin("windows", "bind of a bound type 2 window");
    fact_add(" %s", errno_name(window_bind(&w, 0, 64, IBV_ACCESS_REMOTE_WRITE, 10)));
    pair_watch(&w.p, 0, 0, 20);
    fact_end();
    window_close(&w);

    window_open(&w, IBV_MW_TYPE_1, ALL_ACCESS);
    window_bind(&w, 0, 64, IBV_ACCESS_REMOTE_WRITE, 9);
    pause_ms(10);
    inv.invalidate_rkey = w.rkey;
    fact_begin("windows", "LOCAL_INV of a type 1 window");
    ibv_post_send(w.p.b.qp, &inv, &bad);
    pair_watch(&w.p, 0, 0, 20);
    fact_end();
    window_close(&w);
}

static void ask_type1_call(void)
{
    struct window w;
    window_open(&w, IBV_MW_TYPE_1, ALL_ACCESS);
    struct ibv_mw_bind bind = {.wr_id = 9,
                               .send_flags = IBV_SEND_SIGNALED,
                               .bind_info = {.mr = w.p.b.mr,
                                             .addr = (uintptr_t)w.p.b.buf,
                                             .length = 64,
                                             .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
    uint32_t before = w.mw->rkey;
    fact_begin("windows", "ibv_bind_mw");
    fact_add(" %s", errno_name(ERRNO_OF_INT(ibv_bind_mw(w.p.b.qp, w.mw, &bind))));
    fact_add(" key %s", w.mw->rkey == before             ? "stays"
                        : w.mw->rkey >> 8 == before >> 8 ? "changes its low byte"
                                                         : "changes");
    pair_watch(&w.p, 0, 0, 20);
    fact_end();
    fact_errno("windows", "dereg_mr under a bound window", ERRNO_OF_INT(ibv_dereg_mr(w.p.b.mr)));
    uint32_t old = w.rkey = w.mw->rkey;
    fact_begin("windows", "write by ibv_bind_mw's window");
    window_use(&w, IBV_WR_RDMA_WRITE, 0, 8);
    fact_end();
    bind.bind_info.addr += 64;
    ibv_bind_mw(w.p.b.qp, w.mw, &bind);
    pause_ms(10);
    w.rkey = w.mw->rkey;
    fact_begin("windows", "write where ibv_bind_mw bound anew");
    window_use(&w, IBV_WR_RDMA_WRITE, 64, 8);
    fact_end();
    w.rkey = old;
    fact_begin("windows", "write by the key before the last bind, keys %s",
               old == w.mw->rkey ? "equal" : "distinct");
    window_use(&w, IBV_WR_RDMA_WRITE, 64, 8);
    fact_end();
    window_close(&w);

    window_open(&w, IBV_MW_TYPE_1, ALL_ACCESS);
    bind.bind_info.mr = w.p.b.mr;
    bind.bind_info.addr = (uintptr_t)w.p.b.buf;
    ibv_bind_mw(w.p.b.qp, w.mw, &bind);
    pause_ms(10);
    bind.bind_info.length = 0;
    fact_begin("windows", "ibv_bind_mw of length 0 unbinds");
    fact_add(" %s", errno_name(ERRNO_OF_INT(ibv_bind_mw(w.p.b.qp, w.mw, &bind))));
    pair_watch(&w.p, 0, 0, 20);
    struct ibv_mr *mr = w.p.b.mr;
    int err = ERRNO_OF_INT(ibv_dereg_mr(mr));
    fact_add(" dereg_mr %s", errno_name(err));
    if (!err)
        w.p.b.mr = NULL;
    fact_end();
    window_close(&w);

    window_open(&w, IBV_MW_TYPE_2, ALL_ACCESS);
    bind.bind_info.length = 64;
    bind.bind_info.mr = w.p.b.mr;
    fact_errno("windows", "ibv_bind_mw of a type 2 window", ERRNO_OF_INT(ibv_bind_mw(w.p.b.qp, w.mw, &bind)));
    window_bind(&w, 0, 64, IBV_ACCESS_REMOTE_WRITE, 9);
    pause_ms(10);
    fact_errno("windows", "dealloc_mw while bound", ERRNO_OF_INT(ibv_dealloc_mw(w.mw)));
    w.mw = NULL;
    fact_begin("windows", "write by the key of a freed window");
    struct work work = work_make(&w.p.a, &w.p.b, IBV_WR_RDMA_WRITE, 8, 1);
    work.wr.wr.rdma.rkey = w.rkey;
    work_post(&w.p.a, &work);
    pair_watch(&w.p, 1, 0, 100);
    fact_end();
    window_close(&w);
}

void ask_windows(void)
{
    const int write = IBV_ACCESS_REMOTE_WRITE;
    ask_bind("type 1", IBV_MW_TYPE_1, ALL_ACCESS, 0, 64, write);
    ask_bind("type 2", IBV_MW_TYPE_2, ALL_ACCESS, 0, 64, write);
    ask_bind("type 1, MR without MW_BIND", IBV_MW_TYPE_1, ALL_ACCESS & ~IBV_ACCESS_MW_BIND, 0, 64, write);
    ask_bind("type 2, MR without MW_BIND", IBV_MW_TYPE_2, ALL_ACCESS & ~IBV_ACCESS_MW_BIND, 0, 64, write);
    ask_bind("type 2, writable, MR without LOCAL_WRITE", IBV_MW_TYPE_2,
             IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ, 0, 64, write);
    ask_bind("type 2, past the MR", IBV_MW_TYPE_2, ALL_ACCESS, 0, BUFFER_SIZE + 1, write);
    ask_bind("type 2, before the MR", IBV_MW_TYPE_2, ALL_ACCESS, -8, 64, write);
    ask_bind("type 2, length 0", IBV_MW_TYPE_2, ALL_ACCESS, 0, 0, write);
    ask_bind("type 1, length 0", IBV_MW_TYPE_1, ALL_ACCESS, 0, 0, write);
    ask_bind("type 1, zero based", IBV_MW_TYPE_1, ALL_ACCESS, 0, 64, write | IBV_ACCESS_ZERO_BASED);
    ask_bind("type 2, zero based", IBV_MW_TYPE_2, ALL_ACCESS, 0, 64, write | IBV_ACCESS_ZERO_BASED);
    ask_bind("type 2, shorter than the write", IBV_MW_TYPE_2, ALL_ACCESS, 0, 4, write);
    ask_bind("type 2, without rights", IBV_MW_TYPE_2, ALL_ACCESS, 0, 64, 0);
    ask_rights("window of 64 at 64, write at its start", write, IBV_WR_RDMA_WRITE, 64, 8);
    ask_rights("window of 64 at 64, write to its last bytes", write, IBV_WR_RDMA_WRITE, 120, 8);
    ask_rights("window of 64 at 64, write before it", write, IBV_WR_RDMA_WRITE, 0, 8);
    ask_rights("window of 64 at 64, write across its end", write, IBV_WR_RDMA_WRITE, 124, 8);
    ask_rights("window of 64 at 64, write past the MR", write, IBV_WR_RDMA_WRITE, BUFFER_SIZE, 8);
    ask_rights("read by a window for writing", write, IBV_WR_RDMA_READ, 64, 8);
    ask_rights("read by a window for reading", IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ, 64, 8);
    ask_rights("write by a window for reading", IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE, 64, 8);
    ask_rights("FETCH_ADD by a window for atomics", IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD, 64,
               8);
    ask_rights("FETCH_ADD by a window for writing", write, IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 8);
    ask_invalidate();
    ask_type1_call();
}
