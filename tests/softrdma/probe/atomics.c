/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations: values before and after, addresses, lengths, and that two QPs do not lose each other's
 * additions. */
#include "probe.h"

#include <errno.h>
#include <string.h>

static void ask_value(const char *question, enum ibv_wr_opcode opcode, uint64_t start, uint64_t compare_add,
                      uint64_t swap)
{
    struct pair p;
    pair_open(&p, &usual);
    uint64_t *there = (uint64_t *)p.b.buf, *here = (uint64_t *)p.a.buf;
    *there = start;
    *here = 0x5555;
    struct work w = work_atomic(&p.a, &p.b, opcode, compare_add, swap);
    fact_begin("atomics", "%s", question);
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 300);
    fact_add(" was 0x%llx, is 0x%llx", (unsigned long long)*here, (unsigned long long)*there);
    fact_end();
    pair_close(&p);
}

static void ask_shapes(void)
{
    struct pair p;
    pair_open(&p, &usual);
    *(uint64_t *)p.b.buf = 0x1122334455667788;
    memset(p.a.buf, 0xee, 32);
    struct work w = work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
    w.sge.length = 16;
    fact_begin("atomics", "FETCH_ADD with a local SGE of 16");
    fact_add(" %s", errno_name(work_post(&p.a, &w)));
    pair_watch(&p, 1, 0, 300);
    fact_add(" bytes %02x %02x, the ninth %02x", p.a.buf[0], p.a.buf[7], p.a.buf[8]);
    fact_end();
    pair_close(&p);

    pair_open(&p, &usual);
    w = work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
    w.sge.addr += 3; /* the local bytes need no alignment */
    fact_begin("atomics", "FETCH_ADD into an odd local address");
    fact_add(" %s", errno_name(work_post(&p.a, &w)));
    pair_watch(&p, 1, 0, 300);
    fact_end();
    pair_close(&p);

    pair_open(&p, &usual);
    w = work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
    w.wr.num_sge = 0;
    fact_begin("atomics", "FETCH_ADD without an SGE");
    fact_add(" %s", errno_name(work_post(&p.a, &w)));
    pair_watch(&p, 1, 0, 100);
    fact_end();
    pair_close(&p);

    pair_open(&p, &usual);
    w = work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 1);
    w.wr.wr.atomic.remote_addr += BUFFER_SIZE;
    fact_begin("atomics", "CMP_SWAP just past the MR");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 100);
    fact_end();
    pair_close(&p);

    pair_open(&p, &usual);
    w = work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 1);
    w.wr.wr.atomic.remote_addr += BUFFER_SIZE - 8;
    fact_begin("atomics", "CMP_SWAP of the last eight bytes");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 100);
    fact_end();
    pair_close(&p);
}

/* Two requesters add to one word. */
static void ask_together(void)
{
    struct pair p, q;
    pair_open(&p, &usual);
    pair_open(&q, &usual);
    struct work w[2] = {work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0),
                        work_atomic(&q.a, &p.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0)};
    struct side *sides[2] = {&p.a, &q.a};
    struct ibv_wc wc;
    int done = 0;
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 2; k++)
            work_post(sides[k], &w[k]);
        for (int k = 0; k < 2; k++)
            for (int t = 0; t < 500; t++) {
                if (ibv_poll_cq(sides[k]->send_cq, 1, &wc) == 1) {
                    done += !wc.status;
                    break;
                }
                pause_ms(1);
            }
    }
    fact("atomics", "two QPs add 100 times each", "%d done, the word is %d", done, *(int *)p.b.buf);
    pair_close(&p);
    pair_close(&q);
}

void ask_atomics(void)
{
    ask_value("FETCH_ADD 3 to 5", IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 3, 0);
    ask_value("FETCH_ADD -1 to 0", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, UINT64_MAX, 0);
    ask_value("FETCH_ADD across 32 bits", IBV_WR_ATOMIC_FETCH_AND_ADD, 0xffffffff, 1, 0);
    ask_value("CMP_SWAP that meets", IBV_WR_ATOMIC_CMP_AND_SWP, 5, 5, 9);
    ask_value("CMP_SWAP that misses", IBV_WR_ATOMIC_CMP_AND_SWP, 5, 6, 9);
    ask_shapes();
    ask_together();
}
