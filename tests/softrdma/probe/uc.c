/* SPDX-License-Identifier: BSD-3-Clause */
/* Unreliable connections: the sender always succeeds, what does not fit is dropped. */
#include "probe.h"

#include <errno.h>
#include <string.h>

enum mishap { NONE, NO_RECEIVE, BAD_RKEY, BAD_LKEY, SHORT_RECEIVE, PEER_RESET, PEER_ERR };

static void ask_case(const char *question, enum ibv_wr_opcode opcode, uint32_t length, enum mishap mishap,
                     int b_access, uint32_t rq_psn)
{
    struct pair p;
    struct setup how = usual;
    how.type = IBV_QPT_UC;
    how.b_qp_access = b_access;
    how.b_rq_psn = rq_psn;
    pair_open(&p, &how);
    if (mishap != NO_RECEIVE)
        recv_post(&p.b, 101, mishap == SHORT_RECEIVE ? 4 : 32768);
    if (mishap == PEER_RESET || mishap == PEER_ERR)
        side_to(&p.b, mishap == PEER_RESET ? IBV_QPS_RESET : IBV_QPS_ERR);
    struct work w = work_make(&p.a, &p.b, opcode, length, 1);
    p.a.buf[0] = 33;
    if (mishap == BAD_RKEY)
        w.wr.wr.rdma.rkey ^= 0x10000;
    if (mishap == BAD_LKEY)
        w.sge.lkey ^= 0x10000;
    fact_begin("uc", "%s", question);
    fact_add(" %s", errno_name(work_post(&p.a, &w)));
    bool receives =
        opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    pair_watch(&p, 1, receives, 40);
    fact_add(" byte %d", p.b.buf[0]);
    fact_end();
    fact_begin("uc", "%s, then a good SEND", question);
    recv_post(&p.b, 102, 64);
    send_simple(&p.a, &p.b, IBV_WR_SEND, 8, 2);
    pair_watch(&p, 1, 1, 150); /* a receive that is flushed may take its time */
    fact_end();
    pair_close(&p);
}

void ask_uc(void)
{
    ask_case("SEND", IBV_WR_SEND, 8, NONE, QP_ACCESS, 0);
    ask_case("SEND_WITH_IMM of 5000", IBV_WR_SEND_WITH_IMM, 5000, NONE, QP_ACCESS, 0);
    ask_case("WRITE of 5000", IBV_WR_RDMA_WRITE, 5000, NONE, QP_ACCESS, 0);
    ask_case("WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, 8, NONE, QP_ACCESS, 0);
    ask_case("READ", IBV_WR_RDMA_READ, 8, NO_RECEIVE, QP_ACCESS, 0);
    ask_case("FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, NO_RECEIVE, QP_ACCESS, 0);
    ask_case("SEND without a receive", IBV_WR_SEND, 8, NO_RECEIVE, QP_ACCESS, 0);
    ask_case("WRITE_WITH_IMM without a receive", IBV_WR_RDMA_WRITE_WITH_IMM, 8, NO_RECEIVE, QP_ACCESS, 0);
    ask_case("SEND, receive too short", IBV_WR_SEND, 8, SHORT_RECEIVE, QP_ACCESS, 0);
    ask_case("WRITE with an unknown rkey", IBV_WR_RDMA_WRITE, 8, BAD_RKEY, QP_ACCESS, 0);
    ask_case("WRITE, QP without REMOTE_WRITE", IBV_WR_RDMA_WRITE, 8, NO_RECEIVE, IBV_ACCESS_LOCAL_WRITE, 0);
    ask_case("SEND with an unknown lkey", IBV_WR_SEND, 8, BAD_LKEY, QP_ACCESS, 0);
    ask_case("SEND, peer in RESET", IBV_WR_SEND, 8, PEER_RESET, QP_ACCESS, 0);
    ask_case("SEND, peer in ERR", IBV_WR_SEND, 8, PEER_ERR, QP_ACCESS, 0);
    ask_case("SEND, responder expects 100 more", IBV_WR_SEND, 8, NONE, QP_ACCESS, 100);
}
