/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C side of the benchmark: the same operations as bench/operations.py, as a C program would do them, on the
 * libibverbs.so.1 that RDMA_LIBRARY_PATH leads to. It obeys lines from standard input (bench/worker.py is its twin):
 *
 *   time ROW N     does the row's operation N times; answers the nanoseconds it took
 *   many KIND N    makes N objects of a kind and destroys them; answers what each tenth cost, and the memory
 *   mark           calls ibv_query_device, by which a profiler tells one row from the next; answers 0
 *
 * Every answer is one line of JSON.
 */
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 64
#define SGES 16
#define INLINE_BYTES 64

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static _Alignas(4096) char buffer[4096];

static struct ibv_sge sge, sge16[SGES], sge_inline;
static struct ibv_send_wr prepared, prepared16, prepared_inline, batch[DEPTH];
static struct ibv_recv_wr receive;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "calls: %s\n", what);
    exit(1);
}

static void check(int good, const char *what)
{
    if (!good)
        die(what);
}

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    check(file && fscanf(file, "%*d %ld", &pages) == 1, "/proc/self/statm");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* ---- setting up ------------------------------------------------------------------------------------------------- */

static struct ibv_qp *make_qp(void)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 256, .max_recv_wr = 256, .max_send_sge = SGES, .max_recv_sge = 1,
                .max_inline_data = INLINE_BYTES},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp *made = verbs.create_qp(pd, &init);

    check(made != NULL, "ibv_create_qp");
    return made;
}

static void connect_qp(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};

    check(!verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "to INIT");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
                                .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
                                .ah_attr = {.is_global = 1, .grh = {.hop_limit = 1}, .port_num = 1}};
    check(!verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "to RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
                                .max_rd_atomic = 1};
    check(!verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "to RTS");
}

static struct ibv_send_wr write_of(struct ibv_sge *list, int count, unsigned flags)
{
    return (struct ibv_send_wr){.wr_id = 1, .sg_list = list, .num_sge = count, .opcode = IBV_WR_RDMA_WRITE,
                                .send_flags = flags, .wr.rdma = {.remote_addr = 0x1000, .rkey = 2}};
}

static void prepare(void)
{
    sge = (struct ibv_sge){(uintptr_t)buffer, 8, mr->lkey};
    sge_inline = (struct ibv_sge){(uintptr_t)buffer, INLINE_BYTES, mr->lkey};
    for (int i = 0; i < SGES; i++)
        sge16[i] = (struct ibv_sge){(uintptr_t)buffer + (size_t)i * 64, 64, mr->lkey};
    prepared = write_of(&sge, 1, IBV_SEND_SIGNALED);
    prepared16 = write_of(sge16, SGES, IBV_SEND_SIGNALED);
    prepared_inline = write_of(&sge_inline, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    for (int i = 0; i < DEPTH; i++) {
        batch[i] = prepared;
        batch[i].next = i + 1 < DEPTH ? &batch[i + 1] : NULL;
    }
    receive = (struct ibv_recv_wr){.wr_id = 1, .sg_list = &sge, .num_sge = 1};
}

static void set_up(void)
{
    struct ibv_device **list;
    char reason[1024];

    if (verbs_load(reason, sizeof reason) < 0)
        die(reason);
    list = verbs.get_device_list(NULL);
    check(list && list[0], "there is no device");
    context = verbs.open_device(list[0]);
    check(context != NULL, "ibv_open_device");
    verbs.free_device_list(list);
    pd = verbs.alloc_pd(context);
    check(pd != NULL, "ibv_alloc_pd");
    cq = verbs.create_cq(context, 1024, NULL, NULL, 0);
    check(cq != NULL, "ibv_create_cq");
    mr = verbs_reg_mr(pd, (uintptr_t)buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    check(mr != NULL, "ibv_reg_mr");
    qp = make_qp();
    connect_qp();
    prepare();
}

/* ---- the operations --------------------------------------------------------------------------------------------- */

static void send_and_poll(struct ibv_send_wr *wr, int most)
{
    struct ibv_send_wr *bad;
    struct ibv_wc wc[DEPTH];

    if (ibv_post_send(qp, wr, &bad) || ibv_poll_cq(cq, most, wc) != most)
        die("a send failed");
}

static void do_prepared(long n)
{
    while (n--)
        send_and_poll(&prepared, 1);
}

static void do_anew(long n)
{
    while (n--) {
        struct ibv_sge one = {(uintptr_t)buffer, 8, mr->lkey};
        struct ibv_send_wr wr = write_of(&one, 1, IBV_SEND_SIGNALED);
        send_and_poll(&wr, 1);
    }
}

static void do_changed(long n)
{
    while (n--) {
        prepared.wr_id = (uint64_t)n;
        send_and_poll(&prepared, 1);
    }
}

static void do_batch(long n)
{
    for (; n >= DEPTH; n -= DEPTH)
        send_and_poll(batch, DEPTH);
}

static void do_recv(long n)
{
    struct ibv_recv_wr *bad;
    struct ibv_wc wc;

    while (n--)
        if (ibv_post_recv(qp, &receive, &bad) || ibv_poll_cq(cq, 1, &wc) != 1)
            die("a receive failed");
}

static void do_empty(long n)
{
    struct ibv_wc wc;

    while (n--)
        if (ibv_poll_cq(cq, 1, &wc))
            die("the queue is not empty");
}

static void do_sge16(long n)
{
    while (n--)
        send_and_poll(&prepared16, 1);
}

static void do_inline(long n)
{
    while (n--)
        send_and_poll(&prepared_inline, 1);
}

static void do_reg(long n)
{
    while (n--) {
        struct ibv_mr *made = verbs_reg_mr(pd, (uintptr_t)buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
        if (!made || verbs.dereg_mr(made))
            die("a registration failed");
    }
}

static void do_qp(long n)
{
    while (n--)
        if (verbs.destroy_qp(make_qp()))
            die("ibv_destroy_qp");
}

/* The value of flags is known to a C compiler: there is no operation to measure. */
static void do_nothing(long n)
{
    (void)n;
}

static const struct row {
    const char *name;
    void (*run)(long n);
} rows[] = {
    {"prepared", do_prepared}, {"anew", do_anew},     {"members", do_anew},  {"changed", do_changed},
    {"batch", do_batch},       {"recv", do_recv},     {"empty", do_empty},   {"flags", do_nothing},
    {"sge16", do_sge16},       {"inline", do_inline}, {"reg", do_reg},       {"qp", do_qp},
};

static void time_row(const char *name, long n)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!strcmp(rows[i].name, name)) {
            int64_t start = now();
            rows[i].run(n);
            printf("%lld\n", (long long)(now() - start));
            return;
        }
    }
    die("there is no such row");
}

/* ---- many objects ----------------------------------------------------------------------------------------------- */

#define PARTS 10

static void *make_one(int of_mrs)
{
    void *made = of_mrs ? (void *)verbs_reg_mr(pd, (uintptr_t)buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE)
                        : (void *)make_qp();

    check(made != NULL, "an object could not be made");
    return made;
}

static void destroy_one(int of_mrs, void *object)
{
    check(!(of_mrs ? verbs.dereg_mr(object) : verbs.destroy_qp(object)), "an object could not be destroyed");
}

static void print_parts(const char *name, const double *parts)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < PARTS; i++)
        printf("%s%.1f", i ? ", " : "", parts[i]);
    printf("], ");
}

static void many(const char *kind, long n)
{
    int of_mrs = !strcmp(kind, "mr");
    void **objects = calloc((size_t)n, sizeof *objects);
    double create[PARTS], destroy[PARTS];
    long part = n / PARTS, before;

    check(objects && part, "too many objects, or too few");
    before = resident();
    for (int i = 0; i < PARTS; i++) {
        int64_t start = now();
        for (long k = i * part; k < (i + 1) * part; k++)
            objects[k] = make_one(of_mrs);
        create[i] = (double)(now() - start) / (double)part;
    }
    before = resident() - before;
    for (int i = 0; i < PARTS; i++) {
        int64_t start = now();
        for (long k = i * part; k < (i + 1) * part; k++)
            destroy_one(of_mrs, objects[k]);
        destroy[i] = (double)(now() - start) / (double)part;
    }
    free(objects);
    printf("{");
    print_parts("create", create);
    print_parts("destroy", destroy);
    printf("\"resident\": %.1f}\n", (double)before / (double)(part * PARTS));
}

int main(void)
{
    char line[128], what[32];
    struct ibv_device_attr attr;
    long n;

    set_up();
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "time %31s %ld", what, &n) == 2) {
            time_row(what, n);
        } else if (sscanf(line, "many %31s %ld", what, &n) == 2) {
            many(what, n);
        } else if (!strcmp(line, "mark\n")) {
            verbs.query_device(context, &attr);
            puts("0");
        } else {
            die("what is that?");
        }
        fflush(stdout);
    }
    return 0;
}
