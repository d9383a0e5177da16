/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C side of the benchmark for efa: the operations of bench/operations_efa.py, with the builders between wr_start and
 * wr_complete and with both kinds of completion queue, on the libraries that RDMA_LIBRARY_PATH leads to.
 */
#include "efadv.h"
#include "obey.h"
#include "verbs.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH 64
#define INLINE_BYTES 32

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_cq_ex *cq_ex;
static struct ibv_qp_ex *qp, *qp_of_ex; /* the second completes in cq_ex */
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static _Alignas(4096) char buffer[4096];
static struct ibv_sge sge;
static struct ibv_recv_wr receive;
static unsigned int sum; /* what is read goes somewhere */

/* ---- setting up ------------------------------------------------------------------------------------------------- */

static struct ibv_qp *make_qp(struct ibv_cq *on)
{
    struct dv_qp_init_attr efa = {.driver_qp_type = DV_QP_SRD};
    struct ibv_qp_init_attr_ex init = {
        .send_cq = on,
        .recv_cq = on,
        .cap = {.max_send_wr = 256, .max_recv_wr = 256, .max_send_sge = 2, .max_recv_sge = 1,
                .max_inline_data = INLINE_BYTES},
        .qp_type = IBV_QPT_DRIVER,
        .pd = pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                          IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    };
    struct ibv_qp *made = efadv.create_qp_ex(context, &init, &efa, sizeof efa);

    check(made != NULL, "efadv_create_qp_ex");
    return made;
}

static struct ibv_qp_ex *prepare_qp(struct ibv_cq *on)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
    struct ibv_qp *made = make_qp(on);

    check(!verbs.modify_qp(made, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "to INIT");
    attr.qp_state = IBV_QPS_RTR;
    check(!verbs.modify_qp(made, &attr, IBV_QP_STATE), "to RTR");
    attr.qp_state = IBV_QPS_RTS;
    check(!verbs.modify_qp(made, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
    return verbs.qp_to_qp_ex(made);
}

static void open_efa(void)
{
    struct ibv_device **list = verbs.get_device_list(NULL);
    struct dv_device_attr attr;

    check(list != NULL, "ibv_get_device_list");
    for (int i = 0; list[i]; i++) {
        context = verbs.open_device(list[i]);
        check(context != NULL, "ibv_open_device");
        if (!efadv.query_device(context, &attr, sizeof attr))
            break;
        verbs.close_device(context);
        context = NULL;
    }
    verbs.free_device_list(list);
    check(context != NULL, "there is no EFA device");
}

static void set_up(void)
{
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};
    struct ibv_cq_init_attr_ex init = {.cqe = 1024, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct dv_cq_init_attr efa = {.wc_flags = 0};
    char reason[1024];

    if (verbs_load(reason, sizeof reason) < 0 || efadv_load(reason, sizeof reason) < 0)
        die(reason);
    open_efa();
    pd = verbs.alloc_pd(context);
    cq = verbs.create_cq(context, 1024, NULL, NULL, 0);
    cq_ex = efadv.create_cq(context, &init, &efa, sizeof efa);
    check(pd && cq && cq_ex, "a protection domain and two completion queues");
    mr = verbs_reg_mr(pd, (uintptr_t)buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    ah = verbs.create_ah(pd, &to);
    check(mr && ah, "a region and an address handle");
    qp = prepare_qp(cq);
    qp_of_ex = prepare_qp(ibv_cq_ex_to_cq(cq_ex));
    sge = (struct ibv_sge){(uintptr_t)buffer, 8, mr->lkey};
    receive = (struct ibv_recv_wr){.wr_id = 1, .sg_list = &sge, .num_sge = 1};
}

/* ---- the operations --------------------------------------------------------------------------------------------- */

static inline void write_on(struct ibv_qp_ex *on, uint64_t wr_id)
{
    on->wr_id = wr_id;
    on->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(on, 2, 0x1000);
    ibv_wr_set_sge(on, mr->lkey, (uintptr_t)buffer, 8);
    ibv_wr_set_ud_addr(on, ah, 3, 4);
}

static void writes(struct ibv_qp_ex *on, int count)
{
    ibv_wr_start(on);
    for (int i = 0; i < count; i++)
        write_on(on, (uint64_t)i);
    check(!ibv_wr_complete(on), "a send failed");
}

static void poll_cq(int count)
{
    struct ibv_wc wc[DEPTH];

    check(ibv_poll_cq(cq, count, wc) == count, "a completion is missing");
}

/* Reads what a struct ibv_wc holds of each. */
static inline void read_one(void)
{
    sum += cq_ex->status + (unsigned int)cq_ex->wr_id + ibv_wc_read_opcode(cq_ex) + ibv_wc_read_vendor_err(cq_ex) +
           ibv_wc_read_wc_flags(cq_ex) + ibv_wc_read_byte_len(cq_ex) + ibv_wc_read_qp_num(cq_ex);
}

static void poll_ex(int count)
{
    struct ibv_poll_cq_attr attr = {0};

    check(!ibv_start_poll(cq_ex, &attr), "a completion is missing");
    read_one();
    for (int i = 1; i < count; i++) {
        check(!ibv_next_poll(cq_ex), "a completion is missing");
        read_one();
    }
    ibv_end_poll(cq_ex);
}

static void do_prepared(long n)
{
    while (n--) {
        writes(qp, 1);
        poll_cq(1);
    }
}

static void do_inline(long n)
{
    while (n--) {
        ibv_wr_start(qp);
        qp->wr_id = 1;
        qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        ibv_wr_send(qp);
        ibv_wr_set_inline_data(qp, buffer, INLINE_BYTES);
        ibv_wr_set_ud_addr(qp, ah, 3, 4);
        check(!ibv_wr_complete(qp), "a send failed");
        poll_cq(1);
    }
}

static void do_batch(long n)
{
    for (; n >= DEPTH; n -= DEPTH) {
        writes(qp, DEPTH);
        poll_cq(DEPTH);
    }
}

static void do_prepared_ex(long n)
{
    while (n--) {
        writes(qp_of_ex, 1);
        poll_ex(1);
    }
}

static int64_t time_poll64(long n)
{
    int64_t took = 0;

    for (; n >= DEPTH; n -= DEPTH) {
        int64_t start;

        writes(qp, DEPTH);
        start = now();
        poll_cq(DEPTH);
        took += now() - start;
    }
    return took;
}

static int64_t time_poll64_ex(long n)
{
    int64_t took = 0;

    for (; n >= DEPTH; n -= DEPTH) {
        int64_t start;

        writes(qp_of_ex, DEPTH);
        start = now();
        poll_ex(DEPTH);
        took += now() - start;
    }
    return took;
}

static void do_recv(long n)
{
    struct ibv_recv_wr *bad;

    while (n--) {
        check(!ibv_post_recv(&qp->qp_base, &receive, &bad), "a receive failed");
        poll_cq(1);
    }
}

static void do_empty(long n)
{
    struct ibv_wc wc;

    while (n--)
        check(!ibv_poll_cq(cq, 1, &wc), "the queue is not empty");
}

static void do_empty_ex(long n)
{
    struct ibv_poll_cq_attr attr = {0};

    while (n--)
        check(ibv_start_poll(cq_ex, &attr), "the queue is not empty");
}

static void do_qp(long n)
{
    while (n--)
        check(!verbs.destroy_qp(make_qp(cq)), "ibv_destroy_qp");
}

static void do_ah(long n)
{
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};

    while (n--) {
        struct ibv_ah *made = verbs.create_ah(pd, &to);
        check(made && !verbs.destroy_ah(made), "an address handle");
    }
}

static const struct row rows[] = {
    {"prepared", do_prepared, NULL}, {"anew", do_prepared, NULL},        {"changed", do_prepared, NULL},
    {"batch", do_batch, NULL},       {"inline", do_inline, NULL},        {"recv", do_recv, NULL},
    {"empty", do_empty, NULL},       {"poll64", NULL, time_poll64},      {"prepared_ex", do_prepared_ex, NULL},
    {"empty_ex", do_empty_ex, NULL}, {"poll64_ex", NULL, time_poll64_ex}, {"qp", do_qp, NULL},
    {"ah", do_ah, NULL},
};

/* ---- many objects ----------------------------------------------------------------------------------------------- */

static void *make_one_qp(void)
{
    return make_qp(cq);
}

static int destroy_one_qp(void *object)
{
    return verbs.destroy_qp(object);
}

static void *make_one_ah(void)
{
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};

    return verbs.create_ah(pd, &to);
}

static int destroy_one_ah(void *object)
{
    return verbs.destroy_ah(object);
}

static const struct kind kinds[] = {{"ah", make_one_ah, destroy_one_ah}, {"qp", make_one_qp, destroy_one_qp}};

static void mark(void)
{
    struct ibv_device_attr attr;

    verbs.query_device(context, &attr);
}

int main(void)
{
    set_up();
    obey(rows, sizeof rows / sizeof *rows, kinds, sizeof kinds / sizeof *kinds, mark);
    return sum == 0x7fffffff;
}
