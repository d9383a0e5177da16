/* SPDX-License-Identifier: BSD-3-Clause */
/* bench one | threads N | serve CPU | drive CPU [events]: what verbs cost on this host, a line `name value
 * unit` each.
 *
 * one      post and poll within this process, between two devices, beside memcpy
 * threads  N threads with a pair of QPs each, writing 8 bytes as fast as they can
 * drive    the same between two processes: drive measures, serve answers; they are introduced over stdin and
 * stdout */
#define _GNU_SOURCE
#include "rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)
#define WINDOW                                                                                               \
    0.001 /* seconds: what counts is the best of many short windows, in which nobody else had the CPU */
#define WINDOWS 400

static void line(const char *name, double value, const char *unit)
{
    printf("%s %.4g %s\n", name, value, unit);
    fflush(stdout);
}

static void stay_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set); /* with fewer CPUs than that, it stays where it is */
}

static void poll_one(struct end *e)
{
    struct ibv_wc wc;
    int got;
    while (!(got = ibv_poll_cq(e->cq, 1, &wc)))
        ;
    if (got < 0 || wc.status) {
        printf("failed: %s\n", got < 0 ? "poll" : ibv_wc_status_str(wc.status));
        exit(3);
    }
}

/* A request made once and posted many times, as programs do that care. */
struct request {
    struct ibv_sge sge;
    struct ibv_send_wr wr;
};

static void request_make(struct request *r, struct end *e, const struct address *peer,
                         enum ibv_wr_opcode opcode, uint32_t length, int flags)
{
    *r = (struct request){.sge = {(uintptr_t)e->buf, length, e->mr->lkey},
                          .wr = {.num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED | flags}};
    r->wr.sg_list = &r->sge;
    r->wr.wr.rdma.remote_addr = peer->addr;
    r->wr.wr.rdma.rkey = peer->rkey;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        r->wr.wr.atomic.remote_addr = peer->addr;
        r->wr.wr.atomic.rkey = peer->rkey;
        r->wr.wr.atomic.compare_add = 1;
    }
}

static void request_do(struct request *r, struct end *e)
{
    struct ibv_send_wr *bad;
    need(!ibv_post_send(e->qp, &r->wr, &bad), "ibv_post_send");
    poll_one(e);
}

/* Seconds per call of the body, in the best window. */
#define BEST(body)                                                                                           \
    ({                                                                                                       \
        double best_ = 1e9;                                                                                  \
        for (int window_ = 0; window_ < WINDOWS; window_++) {                                                \
            double start_ = seconds(), took_;                                                                \
            unsigned long count_ = 0;                                                                        \
            do {                                                                                             \
                for (int k_ = 0; k_ < 8; k_++, count_++) {                                                   \
                    body;                                                                                    \
                }                                                                                            \
                took_ = seconds() - start_;                                                                  \
            } while (took_ < WINDOW);                                                                        \
            best_ = took_ / count_ < best_ ? took_ / count_ : best_;                                         \
        }                                                                                                    \
        best_;                                                                                               \
    })

static void measure(const char *name, struct end *a, const struct address *b, enum ibv_wr_opcode opcode,
                    uint32_t length, int flags)
{
    struct request r;
    request_make(&r, a, b, opcode, length, flags);
    double each = BEST(request_do(&r, a));
    line(name, each * 1e9, "ns");
}

static double memcpy_rate(struct end *a, struct end *b)
{
    double each = BEST({
        memcpy(b->buf, a->buf, MIB);
        __asm__ volatile("" ::: "memory");
    });
    return MIB / each / 1e9;
}

static double write_rate(struct end *a, const struct address *b)
{
    struct request r;
    request_make(&r, a, b, IBV_WR_RDMA_WRITE, MIB, 0);
    double each = BEST(request_do(&r, a));
    return MIB / each / 1e9;
}

static void lists(struct end *a, const struct address *b)
{
    struct request r[32];
    struct ibv_send_wr *bad;
    for (int i = 0; i < 32; i++) {
        request_make(&r[i], a, b, IBV_WR_RDMA_WRITE, 8, 0);
        r[i].wr.send_flags = i == 31 ? IBV_SEND_SIGNALED : 0;
        r[i].wr.next = i < 31 ? &r[i + 1].wr : NULL;
    }
    double each = BEST({
        need(!ibv_post_send(a->qp, &r[0].wr, &bad), "ibv_post_send");
        poll_one(a);
    });
    line("write_8_in_lists_of_32", each / 32 * 1e9, "ns");
}

static void events(struct end *a, const struct address *b)
{
    struct request r;
    struct ibv_send_wr *bad;
    struct ibv_cq *cq;
    void *context;
    request_make(&r, a, b, IBV_WR_RDMA_WRITE, 8, 0);
    double each = BEST({
        ibv_req_notify_cq(a->cq, 0);
        need(!ibv_post_send(a->qp, &r.wr, &bad), "ibv_post_send");
        need(!ibv_get_cq_event(a->channel, &cq, &context), "ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
        poll_one(a);
    });
    line("arm_write_8_event", each * 1e9, "ns");
}

static void one(void)
{
    struct end a, b;
    end_open(&a, 0, 2 * MIB, true);
    end_open(&b, 1, 2 * MIB, false);
    struct address to_a = end_address(&a), to_b = end_address(&b);
    end_connect(&a, &to_b);
    end_connect(&b, &to_a);
    memset(a.buf, 1, a.size);
    measure("write_8", &a, &to_b, IBV_WR_RDMA_WRITE, 8, 0);
    measure("write_8_inline", &a, &to_b, IBV_WR_RDMA_WRITE, 8, IBV_SEND_INLINE);
    measure("read_8", &a, &to_b, IBV_WR_RDMA_READ, 8, 0);
    measure("fetch_add", &a, &to_b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0);
    measure("write_4096", &a, &to_b, IBV_WR_RDMA_WRITE, 4096, 0);
    struct request r;
    request_make(&r, &a, &to_b, IBV_WR_SEND, 8, 0);
    double each = BEST({
        recv_post(&b, MIB, 64);
        request_do(&r, &a);
        poll_one(&b);
    });
    line("recv_and_send_8", each * 1e9, "ns");
    lists(&a, &to_b);
    events(&a, &to_b);
    double copy = memcpy_rate(&a, &b), rate = write_rate(&a, &to_b);
    line("memcpy_1MiB", copy, "GB/s");
    line("write_1MiB", rate, "GB/s");
    line("write_1MiB_beside_memcpy", rate / copy, "times");
}

/* ---- threads ---- */

/* All threads do their share of a window at once. The best window is one in which each had a CPU: its length
 * is from the first start to the last end. */
#define SHARE 2000

struct worker {
    pthread_t thread;
    struct end a, b;
    int count; /* of threads that run */
    double start[WINDOWS], end[WINDOWS];
};

static atomic_uint arrived;

static void meet(unsigned everybody)
{
    atomic_fetch_add(&arrived, 1);
    for (unsigned i = 0; atomic_load(&arrived) < everybody; i++)
        if (i > 1000)
            sched_yield();
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct request r;
    struct address to_b = end_address(&w->b);
    request_make(&r, &w->a, &to_b, IBV_WR_RDMA_WRITE, 8, 0);
    for (int i = 0; i < WINDOWS; i++) {
        meet(w->count * (i + 1));
        w->start[i] = seconds();
        for (int k = 0; k < SHARE; k++)
            request_do(&r, &w->a);
        w->end[i] = seconds();
    }
    return NULL;
}

static double rate_of(struct worker *workers, int count)
{
    double best = 1e9;
    atomic_store(&arrived, 0);
    for (int i = 0; i < count; i++) {
        workers[i].count = count;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < WINDOWS; i++) {
        double start = 1e300, end = 0;
        for (int k = 0; k < count; k++) {
            start = workers[k].start[i] < start ? workers[k].start[i] : start;
            end = workers[k].end[i] > end ? workers[k].end[i] : end;
        }
        best = end - start < best ? end - start : best;
    }
    return count * SHARE / best;
}

static void threads(int count)
{
    static struct worker workers[16];
    need(count >= 1 && count <= 16, "1 to 16 threads");
    for (int i = 0; i < count; i++) {
        struct worker *w = &workers[i];
        end_open(&w->a, 0, 4096, false);
        end_open(&w->b, 1, 4096, false);
        struct address to_a = end_address(&w->a), to_b = end_address(&w->b);
        end_connect(&w->a, &to_b);
        end_connect(&w->b, &to_a);
    }
    double alone = rate_of(workers, 1), together = rate_of(workers, count);
    line("thread_alone", alone / 1e6, "M/s");
    char name[32];
    snprintf(name, sizeof(name), "threads_%d", count);
    line(name, together / 1e6, "M/s");
    snprintf(name, sizeof(name), "threads_%d_scale", count);
    line(name, together / alone, "times");
}

/* ---- two processes ---- */

static struct address introduce(struct end *e, int receives)
{
    struct address own = end_address(e);
    address_print(&own);
    struct address peer = address_read();
    end_connect(e, &peer);
    for (int i = 0; i < receives; i++)
        recv_post(e, 4096, 64);
    puts("connected");
    fflush(stdout);
    char c;
    need(read(0, &c, 1) == 1, "waiting for the word to go");
    return peer;
}

/* The last byte of the message says which round it is; both sides watch their memory, as programs with no
 * time to lose do. */
static void bounce(struct end *e, const struct address *peer, unsigned rounds, bool first)
{
    struct request r;
    volatile uint8_t *mine = e->buf + 64;
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    request_make(&r, e, peer, IBV_WR_RDMA_WRITE, 8, IBV_SEND_INLINE);
    r.wr.wr.rdma.remote_addr += 64 - 7;
    for (unsigned i = 1; i <= rounds; i++) {
        if (!first)
            while (*mine != (uint8_t)i)
                ;
        e->buf[7] = (uint8_t)i;
        need(!ibv_post_send(e->qp, &r.wr, &bad), "ibv_post_send");
        if (first)
            while (*mine != (uint8_t)i)
                ;
        while (ibv_poll_cq(e->cq, 1, &wc) > 0)
            need(!wc.status, "completion");
    }
    while (ibv_poll_cq(e->cq, 1, &wc) > 0)
        ;
}

static void sleep_bounce(struct end *e, const struct address *peer, unsigned rounds, bool first)
{
    struct request r;
    struct ibv_send_wr *bad;
    struct ibv_cq *cq;
    void *context;
    struct ibv_wc wc;
    request_make(&r, e, peer, IBV_WR_SEND, 8, IBV_SEND_INLINE);
    r.wr.send_flags = IBV_SEND_INLINE; /* the answer says that it went */
    for (unsigned i = 0; i < rounds; i++) {
        if (i % 64 == 0)
            r.wr.send_flags |= IBV_SEND_SIGNALED;
        else
            r.wr.send_flags &= ~IBV_SEND_SIGNALED;
        if (first)
            need(!ibv_post_send(e->qp, &r.wr, &bad), "ibv_post_send");
        for (bool got = false; !got;) {
            ibv_req_notify_cq(e->cq, 0);
            while (ibv_poll_cq(e->cq, 1, &wc) > 0) {
                need(!wc.status, "completion");
                got |= wc.opcode == IBV_WC_RECV;
            }
            if (got)
                break;
            need(!ibv_get_cq_event(e->channel, &cq, &context), "ibv_get_cq_event");
            ibv_ack_cq_events(cq, 1);
        }
        recv_post(e, 4096, 64);
        if (!first)
            need(!ibv_post_send(e->qp, &r.wr, &bad), "ibv_post_send");
    }
}

static void two(bool drive, int cpu, bool with_events)
{
    const unsigned rounds = with_events ? 50 : 200, tries = with_events ? 100 : 300;
    struct end e;
    stay_on(cpu);
    end_open(&e, drive ? 0 : 1, 2 * MIB, true);
    struct address peer = introduce(&e, 100);
    double best = 1e9;
    for (unsigned try = 0; try < tries; try++) {
        double start = seconds();
        (with_events ? sleep_bounce : bounce)(&e, &peer, rounds, drive);
        double each = (seconds() - start) / rounds;
        best = each < best ? each : best;
    }
    if (drive) {
        line(with_events ? "round_trip_sleeping" : "round_trip", best * 1e6, "us");
        if (!with_events) {
            struct end other;
            end_open(&other, 1, 2 * MIB, false);
            double copy = memcpy_rate(&e, &other), rate = write_rate(&e, &peer);
            line("write_1MiB_to_process", rate, "GB/s");
            line("write_1MiB_to_process_beside_memcpy", rate / copy, "times");
        }
        puts("done");
        fflush(stdout);
    }
    char c;
    while (read(0, &c, 1) > 0)
        ;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "one"))
        one();
    else if (!strcmp(mode, "threads") && argc > 2)
        threads(atoi(argv[2]));
    else if ((!strcmp(mode, "serve") || !strcmp(mode, "drive")) && argc > 2)
        two(!strcmp(mode, "drive"), atoi(argv[2]), argc > 3);
    else {
        fprintf(stderr, "bench one | threads N | serve CPU [events] | drive CPU [events]\n");
        return 2;
    }
    return 0;
}
