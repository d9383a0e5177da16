/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: a peer process that is killed, at whatever moment, leaves its partner with retry exceeded, in
 * the time that timeout and retry_cnt give, and able to work with the next peer. */
#include <signal.h>

#include "pair.h"

/* The peer: connects, says so, and takes part until it is killed. */
static int peer(int in, int out)
{
    struct end e = end_make(open_device(1), IBV_QPT_RC, 65536);
    char c;

    exchange(&e, out, in);
    end_connect(&e, &e.peer);
    CHECK(write(out, "c", 1) == 1);
    CHECK(read(in, &c, 1) == 1); /* the other end listens */
    for (uint64_t i = 0;; i++) { /* keeps writing into the other's memory, so as to die in the middle of it */
        while (post(&e, IBV_WR_RDMA_WRITE, i, 32768, 0) != 0)
            wait_wc(e.cq, 1000);
        wait_wc(e.cq, 1000);
    }
}

static void round_with_kill(struct ibv_context *ctx, int delay_us)
{
    int to, from, status;
    pid_t pid = spawn(peer, &to, &from);
    struct end e = end_make(ctx, IBV_QPT_RC, 65536);
    struct ibv_wc wc;
    double start;
    char c;

    exchange(&e, to, from);
    end_connect(&e, &e.peer);
    CHECK(read(from, &c, 1) == 1 && write(to, &c, 1) == 1);
    CHECK(post(&e, IBV_WR_RDMA_WRITE, 1, 4096, 0) == 0);
    wc = wait_wc(e.cq, 2000);
    CHECK(wc.status == IBV_WC_SUCCESS);
    usleep((useconds_t)delay_us);
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
    start = now_s();
    CHECK(post(&e, IBV_WR_RDMA_WRITE, 2, 4096, 0) == 0);
    wc = wait_wc(e.cq, 2000);
    CHECK(wc.status == IBV_WC_RETRY_EXC_ERR && wc.wr_id == 2);
    CHECK(now_s() - start < 1);
    CHECK(state_of(e.qp) == IBV_QPS_ERR);
    close(to);
    close(from);
    end_free(&e);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    struct ibv_context *ctx = NULL;

    for (int i = 0; i < rounds; i++) {
        if (!ctx) { /* the first child is born before there is anything to inherit */
            int to, from, status;
            pid_t pid = spawn(peer, &to, &from);
            struct end e;

            ctx = open_device(0);
            e = end_make(ctx, IBV_QPT_RC, 65536);
            exchange(&e, to, from);
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            end_free(&e);
        }
        round_with_kill(ctx, rand() % 2000);
    }
    CHECK(ibv_close_device(ctx) == 0);
    return PASS;
}
