/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C side of the benchmark: the same operations as bench/operations.py, as a C program would do them, on the
 * libibverbs.so.1 that RDMA_LIBRARY_PATH leads to. What it obeys is in obey.h.
 */
#include "obey.h"
#include "verbs.h"

#include <stdlib.h>

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

static const struct row rows[] = {
    {"prepared", do_prepared, NULL}, {"anew", do_anew, NULL},     {"members", do_anew, NULL},
    {"changed", do_changed, NULL},   {"batch", do_batch, NULL},   {"recv", do_recv, NULL},
    {"empty", do_empty, NULL},       {"flags", do_nothing, NULL}, {"sge16", do_sge16, NULL},
    {"inline", do_inline, NULL},     {"reg", do_reg, NULL},       {"qp", do_qp, NULL},
};

/* ---- many objects ----------------------------------------------------------------------------------------------- */

static void *make_mr(void)
{
    return verbs_reg_mr(pd, (uintptr_t)buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
}

static int destroy_mr(void *object)
{
    return verbs.dereg_mr(object);
}

static void *make_one_qp(void)
{
    return make_qp();
}

static int destroy_one_qp(void *object)
{
    return verbs.destroy_qp(object);
}

static const struct kind kinds[] = {{"mr", make_mr, destroy_mr}, {"qp", make_one_qp, destroy_one_qp}};

static void mark(void)
{
    struct ibv_device_attr attr;

    verbs.query_device(context, &attr);
}

int main(void)
{
    set_up();
    obey(rows, sizeof rows / sizeof *rows, kinds, sizeof kinds / sizeof *kinds, mark);
    return 0;
}
