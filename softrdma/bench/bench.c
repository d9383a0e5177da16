/* SPDX-License-Identifier: BSD-3-Clause */
/* What the host costs, beside memcpy: one process, two threads, two processes. Times are of the wall; run it
 * on a quiet machine, and note that two processes that poll need a core each. bench [SCALE]: 1 is a second or
 * two for each part. */
#include <pthread.h>
#include <sched.h>

#include "../tests/pair.h"

#define MIB (1u << 20)

static double scale = 1;
static volatile uint8_t sink;

static int times(int n)
{
    int k = (int)(n * scale);

    return k > 0 ? k : 1;
}

static void report(const char *what, double seconds, int n, double bytes)
{
    double ns = seconds / n * 1e9;

    if (bytes > 4096)
        printf("%-44s %10.0f ns %8.2f GB/s\n", what, ns, bytes / ns);
    else
        printf("%-44s %10.0f ns\n", what, ns);
    fflush(stdout);
}

static void one(struct end *e, enum ibv_wr_opcode opcode, uint32_t length, unsigned flags)
{
    struct ibv_wc wc;

    CHECK(post(e, opcode, 1, length, flags) == 0);
    while (ibv_poll_cq(e->cq, 1, &wc) == 0)
        ;
    CHECK(wc.status == IBV_WC_SUCCESS);
}

static double timed(struct end *e, enum ibv_wr_opcode opcode, uint32_t length, unsigned flags, int n)
{
    double start;

    for (int i = 0; i < n / 10 + 1; i++)
        one(e, opcode, length, flags);
    start = now_s();
    for (int i = 0; i < n; i++)
        one(e, opcode, length, flags);
    return now_s() - start;
}

static double copying(uint8_t *to, const uint8_t *from, size_t length, int n)
{
    double start;

    memcpy(to, from, length);
    start = now_s();
    for (int i = 0; i < n; i++) {
        memcpy(to, from, length);
        sink = to[(size_t)i % length];
    }
    return now_s() - start;
}

static void make_pair(struct end *a, struct end *b, struct ibv_context *ca, struct ibv_context *cb,
                      size_t size)
{
    *a = end_make(ca, IBV_QPT_RC, size);
    *b = end_make(cb, IBV_QPT_RC, size);
    memset(a->buf, 1, size);
    memset(b->buf, 2, size);
    end_connect(a, &b->self);
    end_connect(b, &a->self);
}

static void one_process(struct ibv_context *ca, struct ibv_context *cb)
{
    struct end a, b;
    double copy, move;
    int n = times(2000000), m = times(4000);

    make_pair(&a, &b, ca, cb, MIB);
    report("write of 8 bytes, post and poll", timed(&a, IBV_WR_RDMA_WRITE, 8, 0, n), n, 8);
    report("the same, inline", timed(&a, IBV_WR_RDMA_WRITE, 8, IBV_SEND_INLINE, n), n, 8);
    report("read of 8 bytes", timed(&a, IBV_WR_RDMA_READ, 8, 0, n), n, 8);
    report("fetch and add", timed(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, n), n, 8);
    report("write of 4 KiB", timed(&a, IBV_WR_RDMA_WRITE, 4096, 0, n / 4), n / 4, 4096);
    copy = copying(b.buf, a.buf, MIB, m);
    move = timed(&a, IBV_WR_RDMA_WRITE, MIB, 0, m);
    report("memcpy of 1 MiB", copy, m, MIB);
    report("write of 1 MiB", move, m, MIB);
    printf("%-44s %10.2f\n", "  of memcpy's rate", copy / move);
    end_free(&a);
    end_free(&b);
}

struct job {
    struct end a, b;
    int n;
    double seconds;
    pthread_barrier_t *gate;
};

static void *work(void *arg)
{
    struct job *job = arg;

    pthread_barrier_wait(job->gate);
    job->seconds = timed(&job->a, IBV_WR_RDMA_WRITE, 8, 0, job->n);
    return NULL;
}

static double rate_of(int nthreads, struct ibv_context *ca, struct ibv_context *cb)
{
    struct job jobs[2];
    pthread_t threads[2];
    pthread_barrier_t gate;
    double rate = 0;

    pthread_barrier_init(&gate, NULL, (unsigned)nthreads);
    for (int i = 0; i < nthreads; i++) {
        make_pair(&jobs[i].a, &jobs[i].b, ca, cb, 4096);
        jobs[i].n = times(2000000);
        jobs[i].gate = &gate;
        CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
    }
    for (int i = 0; i < nthreads; i++) {
        pthread_join(threads[i], NULL);
        rate += jobs[i].n / jobs[i].seconds;
        end_free(&jobs[i].a);
        end_free(&jobs[i].b);
    }
    return rate;
}

static void two_threads(struct ibv_context *ca, struct ibv_context *cb)
{
    double alone = rate_of(1, ca, cb), both = rate_of(2, ca, cb);

    printf("%-44s %10.2f M/s\n", "writes of 8 bytes, one thread", alone / 1e6);
    printf("%-44s %10.2f M/s\n", "two threads on two queue pairs", both / 1e6);
    printf("%-44s %10.2f\n", "  scaling", both / alone);
}

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* Each end sends from the first 8 bytes of its buffer into the second 8 of the other's. */
static void wait_value(struct end *e, uint64_t value)
{
    while (__atomic_load_n((uint64_t *)(e->buf + 8), __ATOMIC_ACQUIRE) != value)
        ;
}

/* The peer of two_processes answers each write into its buffer with one into the other's, then each message.
 */
static int echo(int in, int out)
{
    struct end e = end_make(open_device(1), IBV_QPT_RC, MIB);
    int n, m;
    char c;

    pin(1);
    memset(e.buf, 0, MIB);
    exchange(&e, out, in);
    end_connect(&e, &e.peer);
    for (int i = 0; i < 64; i++)
        CHECK(post_recv(&e, (uint64_t)i, 4096, 64) == 0);
    CHECK(write(out, "c", 1) == 1 && read(in, &n, sizeof(n)) == (ssize_t)sizeof(n));
    e.peer.addr += 8;
    for (uint64_t i = 1; i <= (uint64_t)n; i++) {
        wait_value(&e, i);
        *(uint64_t *)e.buf = i;
        one(&e, IBV_WR_RDMA_WRITE, 8, IBV_SEND_INLINE);
    }
    CHECK(read(in, &m, sizeof(m)) == (ssize_t)sizeof(m));
    for (int i = 0; i < m; i++) {
        struct ibv_cq *cq;
        struct ibv_wc wc;
        void *unused;

        CHECK(ibv_req_notify_cq(e.cq, 0) == 0);
        while (ibv_poll_cq(e.cq, 1, &wc) == 0) {
            CHECK(ibv_get_cq_event(e.channel, &cq, &unused) == 0);
            ibv_ack_cq_events(cq, 1);
            CHECK(ibv_req_notify_cq(e.cq, 0) == 0);
        }
        CHECK(wc.status == IBV_WC_SUCCESS && post_recv(&e, 1, 4096, 64) == 0);
        one(&e, IBV_WR_SEND, 8, IBV_SEND_INLINE);
    }
    CHECK(read(in, &c, 1) == 0);
    return PASS;
}

/* The end that counts: small writes that poll, messages that sleep, large writes. */
static void two_processes(int to, int from)
{
    struct end e = end_make(open_device(0), IBV_QPT_RC, MIB);
    int n = times(100000), m = times(20000), k = times(4000);
    double start, copy, move;
    uint8_t *other = malloc(MIB);
    char c;

    pin(0);
    e.rnr_retry = 7;
    e.timeout = 14;
    memset(e.buf, 0, MIB);
    exchange(&e, to, from);
    end_connect(&e, &e.peer);
    for (int i = 0; i < 64; i++)
        CHECK(post_recv(&e, (uint64_t)i, 4096, 64) == 0);
    CHECK(read(from, &c, 1) == 1);
    CHECK(write(to, &n, sizeof(n)) == (ssize_t)sizeof(n));
    e.peer.addr += 8;
    start = now_s();
    for (uint64_t i = 1; i <= (uint64_t)n; i++) {
        *(uint64_t *)e.buf = i;
        one(&e, IBV_WR_RDMA_WRITE, 8, IBV_SEND_INLINE);
        wait_value(&e, i);
    }
    report("two processes, 8 bytes there and back, polling", now_s() - start, n, 8);
    CHECK(write(to, &m, sizeof(m)) == (ssize_t)sizeof(m));
    start = now_s();
    for (int i = 0; i < m; i++) {
        struct ibv_wc wc;
        int got = 0;

        CHECK(post(&e, IBV_WR_SEND, 1, 8, IBV_SEND_INLINE) == 0);
        while (got < 2) { /* the send and the answer */
            struct ibv_cq *cq;
            void *unused;

            CHECK(ibv_req_notify_cq(e.cq, 0) == 0);
            while (ibv_poll_cq(e.cq, 1, &wc) == 0) {
                CHECK(ibv_get_cq_event(e.channel, &cq, &unused) == 0);
                ibv_ack_cq_events(cq, 1);
                CHECK(ibv_req_notify_cq(e.cq, 0) == 0);
            }
            CHECK(wc.status == IBV_WC_SUCCESS);
            got++;
            if (wc.opcode & IBV_WC_RECV)
                CHECK(post_recv(&e, 1, 4096, 64) == 0);
        }
    }
    report("the same with send, sleeping on a channel", now_s() - start, m, 8);
    e.peer.addr -= 8;
    copy = copying(other, e.buf, MIB, k);
    move = timed(&e, IBV_WR_RDMA_WRITE, MIB, 0, k);
    report("memcpy of 1 MiB", copy, k, MIB);
    report("write of 1 MiB to the other process", move, k, MIB);
    printf("%-44s %10.2f\n", "  of memcpy's rate", copy / move);
    free(other);
    end_free(&e);
}

int main(int argc, char **argv)
{
    int to, from, status;
    struct ibv_context *a, *b;
    pid_t pid;

    alarm(600);
    if (argc > 1)
        scale = atof(argv[1]);
    pid = spawn(echo, &to, &from);
    two_processes(to, from);
    close(to);
    waitpid(pid, &status, 0);
    a = open_device(0);
    b = open_device(1);
    one_process(a, b);
    two_threads(a, b);
    return status ? FAIL : PASS;
}
