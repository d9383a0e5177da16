/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: threads that make, use and destroy everything at once on contexts that they share, contexts that they
 * open themselves, and one completion queue for all, get every completion and every event that is theirs; no descriptor
 * is left behind.
 *
 * threads [ROUNDS]. Under the thread sanitizer it is the host's locks that are judged: no memory of the program's own is
 * shared by two threads but through them. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "pair.h"

enum { THREADS = 4, REQUESTS = 16, SIZE = 4096 };

static struct ibv_context *shared[2];
static pthread_barrier_t gate;
static int rounds = 40;

static void connect_pair(struct end *a, struct end *b, struct ibv_context *ca, struct ibv_context *cb, int type)
{
    *a = end_make(ca, type, SIZE);
    *b = end_make(cb, type, SIZE);
    end_connect(a, &b->self);
    end_connect(b, &a->self);
}

static void move(struct end *a, struct end *b)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};

    for (int i = 0; i < REQUESTS; i++) {
        enum ibv_wr_opcode opcode = opcodes[i % 3];

        if (opcode == IBV_WR_SEND)
            CHECK(post_recv(b, (uint64_t)i, 0, SIZE) == 0);
        CHECK(post(a, opcode, (uint64_t)i, 64, IBV_SEND_SIGNALED) == 0);
        CHECK(wait_wc(a->cq, 5000).status == IBV_WC_SUCCESS);
        if (opcode == IBV_WR_SEND)
            CHECK(wait_wc(b->cq, 5000).status == IBV_WC_SUCCESS);
    }
}

/* Sleeps on the channel until a send has arrived. */
static void sleep_on_channel(struct end *a, struct end *b)
{
    struct pollfd ready = {.fd = b->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *ignored;

    CHECK(ibv_req_notify_cq(b->cq, 0) == 0);
    CHECK(post_recv(b, 7, 0, SIZE) == 0);
    CHECK(post(a, IBV_WR_SEND, 8, 64, IBV_SEND_SIGNALED) == 0);
    CHECK(poll(&ready, 1, 5000) == 1);
    CHECK(ibv_get_cq_event(b->channel, &cq, &ignored) == 0 && cq == b->cq);
    ibv_ack_cq_events(cq, 1);
    CHECK(wait_wc(a->cq, 5000).status == IBV_WC_SUCCESS);
    CHECK(wait_wc(b->cq, 5000).status == IBV_WC_SUCCESS);
}

/* A request that is refused: both ends fail, and the responder's context hears of it. */
static void fail(struct end *a, struct end *b)
{
    a->peer.rkey ^= 0x5555;
    CHECK(post_recv(b, 9, 0, SIZE) == 0);
    CHECK(post(a, IBV_WR_RDMA_WRITE, 10, 64, IBV_SEND_SIGNALED) == 0);
    CHECK(wait_wc(a->cq, 5000).status == IBV_WC_REM_ACCESS_ERR);
    CHECK(state_of(a->qp) == IBV_QPS_ERR);
}

static void *work(void *arg)
{
    int number = (int)(intptr_t)arg;

    pthread_barrier_wait(&gate);
    for (int i = 0; i < rounds; i++) {
        struct ibv_context *own[2] = {shared[0], shared[1]};
        bool mine = (i + number) % 4 == 0;
        struct end a, b;

        if (mine)
            for (int k = 0; k < 2; k++)
                own[k] = open_device(k);
        connect_pair(&a, &b, own[0], own[i % 2], i % 3 == 2 ? IBV_QPT_UC : IBV_QPT_RC);
        if (i % 3 != 2) {
            move(&a, &b);
            sleep_on_channel(&a, &b);
            if (i % 5 == 0)
                fail(&a, &b);
        }
        end_free(&a);
        end_free(&b);
        if (mine)
            for (int k = 0; k < 2; k++)
                CHECK(ibv_close_device(own[k]) == 0);
    }
    return NULL;
}

static void *open_and_close(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&gate);
    for (int i = 0; i < rounds * 8; i++)
        CHECK(ibv_close_device(open_device(i % 2)) == 0);
    return NULL;
}

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    CHECK(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* All threads send into and from one queue, and any of them takes any completion. */
static struct {
    struct end a[THREADS], b[THREADS];
    atomic_int taken;
} common;

static void *share(void *arg)
{
    int number = (int)(intptr_t)arg, posted = 0, all = THREADS * rounds;
    double end = now_s() + 60;

    pthread_barrier_wait(&gate);
    while (atomic_load(&common.taken) < all) {
        struct ibv_wc wc[4];
        int n;

        CHECK(now_s() < end);
        if (posted < rounds && post(&common.a[number], IBV_WR_RDMA_WRITE, (uint64_t)posted, 64, IBV_SEND_SIGNALED) == 0)
            posted++;
        n = ibv_poll_cq(common.a[0].cq, 4, wc);
        CHECK(n >= 0);
        for (int i = 0; i < n; i++)
            CHECK(wc[i].status == IBV_WC_SUCCESS);
        atomic_fetch_add(&common.taken, n);
    }
    return NULL;
}

static struct end on_cq_of(const struct end *first, struct ibv_context *ctx)
{
    struct ibv_qp_init_attr attr = {.send_cq = first->cq, .recv_cq = first->cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 64, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
    struct end e = end_make(ctx, IBV_QPT_RC, SIZE);

    CHECK(ibv_destroy_qp(e.qp) == 0);
    CHECK(e.qp = ibv_create_qp(e.pd, &attr));
    e.self.qpn = e.qp->qp_num;
    return e;
}

static void run(void *(*what)(void *))
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, what, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    int before;

    if (argc > 1)
        rounds = atoi(argv[1]);
    alarm(120); /* a hang is a failure, and outlives nothing */
    for (int i = 0; i < 2; i++)
        shared[i] = open_device(i);
    pthread_barrier_init(&gate, NULL, THREADS);
    run(work);
    before = descriptors(); /* a first use opens some that stay */
    run(work);
    run(open_and_close);
    CHECK(descriptors() == before);

    for (int i = 0; i < THREADS; i++) {
        common.a[i] = i ? on_cq_of(&common.a[0], shared[0]) : end_make(shared[0], IBV_QPT_RC, SIZE);
        common.b[i] = end_make(shared[1], IBV_QPT_RC, SIZE);
        end_connect(&common.a[i], &common.b[i].self);
        end_connect(&common.b[i], &common.a[i].self);
    }
    run(share);
    for (int i = THREADS - 1; i >= 0; i--) {
        end_free(&common.a[i]);
        end_free(&common.b[i]);
    }
    for (int i = 0; i < 2; i++)
        CHECK(ibv_close_device(shared[i]) == 0);
    return PASS;
}
