/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: a peer process that is killed, at whatever moment, leaves its partner with retry exceeded, in
 * the time that timeout and retry_cnt give, and able to work with the next peer; and the partner's completion queue can
 * be destroyed when the peer died while it wrote an event of it. */
#include <poll.h>
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

/* A peer that sends, each message an event at the other end, until it is killed. */
static int talker(int in, int out)
{
    struct end e = end_make(open_device(1), IBV_QPT_RC, 4096);
    char c;

    e.rnr_retry = 7;
    exchange(&e, out, in);
    end_connect(&e, &e.peer);
    CHECK(write(out, "c", 1) == 1);
    CHECK(read(in, &c, 1) == 1);
    for (uint64_t i = 0;; i++) {
        post(&e, IBV_WR_SEND, i, 8, 0);
        wait_wc(e.cq, 1000);
    }
}

static void take_event(struct end *e)
{
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    CHECK(ibv_get_cq_event(e->channel, &cq, &context) == 0);
    ibv_ack_cq_events(cq, 1);
    CHECK(ibv_req_notify_cq(cq, 0) == 0);
    while (ibv_poll_cq(cq, 1, &wc) == 1)
        CHECK(wc.status != IBV_WC_SUCCESS || post_recv(e, 0, 0, 64) == 0);
}

static void round_with_kill_beside_an_event(struct ibv_context *ctx, int delay_us)
{
    int to, from, status;
    pid_t pid = spawn(talker, &to, &from);
    struct end e = end_make(ctx, IBV_QPT_RC, 4096);
    struct pollfd ready = {.fd = e.channel->fd, .events = POLLIN};
    double start;
    char c;

    exchange(&e, to, from);
    end_connect(&e, &e.peer);
    for (int i = 0; i < 4; i++)
        CHECK(post_recv(&e, 0, 0, 64) == 0);
    CHECK(ibv_req_notify_cq(e.cq, 0) == 0);
    CHECK(read(from, &c, 1) == 1 && write(to, &c, 1) == 1);
    for (start = now_s(); now_s() - start < delay_us * 1e-6;) {
        if (poll(&ready, 1, 1) == 1)
            take_event(&e);
    }
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
    while (poll(&ready, 1, 20) == 1)
        take_event(&e);
    close(to);
    close(from);
    alarm(10); /* libibverbs waits without end for events that the kernel says it reported */
    end_free(&e);
    alarm(0);
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
        round_with_kill_beside_an_event(ctx, 5000 + rand() % 5000);
    }
    CHECK(ibv_close_device(ctx) == 0);
    return PASS;
}
