/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: the stub libibverbs, which other tests trust: requests complete once and in order, also from several
 * threads; full rings, wrong states and open children are refused; events are read, acknowledged and forgotten as the
 * real library does; faults come when they were asked for.
 *
 * Arguments: the folder of the stub.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "check.h"
#include "control.h"

#undef ibv_get_device_list

#define VERBS(X) \
    X(ibv_get_device_list) X(ibv_free_device_list) X(ibv_open_device) X(ibv_close_device) X(ibv_alloc_pd) \
    X(ibv_dealloc_pd) X(ibv_create_comp_channel) X(ibv_destroy_comp_channel) X(ibv_create_cq) X(ibv_destroy_cq) \
    X(ibv_create_qp) X(ibv_destroy_qp) X(ibv_modify_qp) X(ibv_query_qp) X(ibv_get_cq_event) X(ibv_ack_cq_events) \
    X(ibv_get_async_event) X(ibv_ack_async_event) X(stub_live) X(stub_calls) X(stub_violations) X(stub_fail) \
    X(stub_fail_any) X(stub_fault_pending) X(stub_set_lenient) X(stub_hold) X(stub_release) X(stub_refuse) \
    X(stub_raise_event) X(stub_unacked) X(stub_push_cq_event) X(stub_reset)

static struct {
#define X(name) __typeof__(name) *name;
    VERBS(X)
#undef X
} lib;

static struct ibv_context *context;
static struct ibv_pd *pd;

static void load(const char *folder)
{
    char path[4096];
    void *handle;

    snprintf(path, sizeof path, "%s/libibverbs.so.1", folder);
    handle = dlopen(path, RTLD_NOW);
    CHECK(handle);
#define X(name) \
    *(void **)&lib.name = dlsym(handle, #name); \
    CHECK(lib.name);
    VERBS(X)
#undef X
}

static struct ibv_qp *make_qp(struct ibv_cq *cq, enum ibv_qp_state state)
{
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {8, 8, 2, 2, 32}, .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr = {.qp_state = state};
    struct ibv_qp *qp = lib.ibv_create_qp(pd, &init);

    CHECK(qp);
    lib.stub_set_lenient(1);
    CHECK(lib.ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    lib.stub_set_lenient(0);
    return qp;
}

static void chain(struct ibv_send_wr *wr, int count, uint64_t first)
{
    memset(wr, 0, sizeof *wr * (size_t)count);
    for (int i = 0; i < count; i++) {
        wr[i].wr_id = first + (uint64_t)i;
        wr[i].opcode = IBV_WR_SEND;
        wr[i].send_flags = IBV_SEND_SIGNALED;
        wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
    }
}

static void requests_complete_in_order_until_the_ring_is_full(void)
{
    struct ibv_cq *cq = lib.ibv_create_cq(context, 8, NULL, NULL, 0);
    struct ibv_qp *qp = make_qp(cq, IBV_QPS_RTS);
    struct ibv_send_wr wr[10], *bad = NULL;
    struct ibv_wc wc[16];

    for (int round = 0; round < 5; round++) {
        chain(wr, 10, 100);
        CHECK(ibv_post_send(qp, wr, &bad) == ENOMEM);
        CHECK(bad == &wr[8]);
        CHECK(ibv_poll_cq(cq, 3, wc) == 3);
        CHECK(ibv_poll_cq(cq, 16, wc + 3) == 5);
        for (int i = 0; i < 8; i++)
            CHECK(wc[i].wr_id == 100u + (unsigned int)i && wc[i].status == IBV_WC_SUCCESS &&
                  wc[i].qp_num == qp->qp_num);
        CHECK(ibv_poll_cq(cq, 16, wc) == 0);
    }
    wr[0].next = NULL;
    wr[0].num_sge = 3;
    CHECK(ibv_post_send(qp, wr, &bad) == EINVAL && bad == wr);
    lib.stub_refuse("post_send", 0, EIO, STUB_BAD_WR_RIGHT);
    wr[0].num_sge = 0;
    bad = NULL;
    CHECK(ibv_post_send(qp, wr, &bad) == EIO && bad == wr);
    CHECK(lib.ibv_destroy_cq(cq) == EBUSY);
    CHECK(lib.ibv_dealloc_pd(pd) == EBUSY);
    CHECK(lib.ibv_destroy_qp(qp) == 0);
    CHECK(lib.ibv_destroy_cq(cq) == 0);
}

static void held_requests_fill_their_queue_and_are_flushed(void)
{
    struct ibv_cq *cq = lib.ibv_create_cq(context, 64, NULL, NULL, 0);
    struct ibv_qp *qp = make_qp(cq, IBV_QPS_RTS);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_send_wr wr[10], *bad = NULL;
    struct ibv_wc wc[16];

    lib.stub_hold(1);
    chain(wr, 10, 0);
    CHECK(ibv_post_send(qp, wr, &bad) == ENOMEM && bad == &wr[8]);
    CHECK(ibv_poll_cq(cq, 16, wc) == 0);
    CHECK(lib.stub_release(qp, 0, 2, IBV_WC_RETRY_EXC_ERR) == 2);
    CHECK(ibv_poll_cq(cq, 16, wc) == 2 && wc[1].wr_id == 1 && wc[1].status == IBV_WC_RETRY_EXC_ERR);
    CHECK(lib.ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    CHECK(ibv_poll_cq(cq, 16, wc) == 6 && wc[5].wr_id == 7 && wc[5].status == IBV_WC_WR_FLUSH_ERR);
    lib.stub_hold(0);
    CHECK(lib.ibv_destroy_qp(qp) == 0);
    CHECK(lib.ibv_destroy_cq(cq) == 0);
}

static void states_are_checked(void)
{
    struct ibv_cq *cq = lib.ibv_create_cq(context, 8, NULL, NULL, 0);
    struct ibv_qp *qp = make_qp(cq, IBV_QPS_RESET);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_send_wr wr, *bad;
    const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

    chain(&wr, 1, 0);
    CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL);
    CHECK(lib.ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
    CHECK(lib.ibv_modify_qp(qp, &attr, init | IBV_QP_QKEY) == EINVAL);
    attr.port_num = 9;
    CHECK(lib.ibv_modify_qp(qp, &attr, init) == EINVAL);
    attr.port_num = 1;
    CHECK(lib.ibv_modify_qp(qp, &attr, init) == 0 && qp->state == IBV_QPS_INIT);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(lib.ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
    CHECK(lib.ibv_destroy_qp(qp) == 0);
    CHECK(lib.ibv_destroy_cq(cq) == 0);
}

static void events_are_counted_and_forgotten_with_their_object(void)
{
    struct ibv_comp_channel *channel = lib.ibv_create_comp_channel(context);
    struct ibv_cq *cq = lib.ibv_create_cq(context, 8, &cq, channel, 0), *got;
    struct ibv_qp *qp = make_qp(cq, IBV_QPS_RTS);
    struct ibv_async_event event;
    struct ibv_send_wr wr, *bad;
    void *cookie;

    CHECK(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(lib.ibv_get_cq_event(channel, &got, &cookie) == -1 && errno == EAGAIN);
    CHECK(lib.ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
    CHECK(lib.ibv_destroy_comp_channel(channel) == EBUSY);

    chain(&wr, 1, 0);
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
    CHECK(lib.ibv_get_cq_event(channel, &got, &cookie) == -1);
    CHECK(ibv_req_notify_cq(cq, 1) == 0);
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
    CHECK(lib.ibv_get_cq_event(channel, &got, &cookie) == -1);
    CHECK(ibv_req_notify_cq(cq, 0) == 0);
    CHECK(ibv_post_send(qp, &wr, &bad) == 0 && ibv_post_send(qp, &wr, &bad) == 0);
    CHECK(lib.ibv_get_cq_event(channel, &got, &cookie) == 0 && got == cq && cookie == &cq);
    CHECK(lib.ibv_get_cq_event(channel, &got, &cookie) == -1);
    CHECK(lib.stub_unacked() == 1);
    lib.ibv_ack_cq_events(cq, 1);

    CHECK(lib.stub_push_cq_event(cq) == 0);
    lib.stub_raise_event(context, IBV_EVENT_QP_FATAL, qp, 0);
    lib.stub_raise_event(context, IBV_EVENT_PORT_ERR, NULL, 1);
    lib.stub_raise_event(context, IBV_EVENT_QP_FATAL, qp, 0);
    CHECK(lib.ibv_get_async_event(context, &event) == 0 && event.element.qp == qp);
    lib.ibv_ack_async_event(&event);
    CHECK(lib.ibv_destroy_qp(qp) == 0);
    CHECK(lib.ibv_get_async_event(context, &event) == 0 && event.element.port_num == 1);
    lib.ibv_ack_async_event(&event);
    CHECK(lib.ibv_get_async_event(context, &event) == -1);
    CHECK(lib.ibv_destroy_cq(cq) == 0);
    CHECK(lib.ibv_get_cq_event(channel, &got, &cookie) == -1);
    CHECK(lib.stub_unacked() == 0);
    CHECK(lib.ibv_destroy_comp_channel(channel) == 0);
}

static void faults_come_when_asked_for(void)
{
    lib.stub_reset();
    lib.stub_fail("create_cq", 2, ENOSPC, 2);
    for (int i = 1; i <= 4; i++) {
        struct ibv_cq *cq = lib.ibv_create_cq(context, 4, NULL, NULL, 0);

        CHECK(!cq == (i == 2 || i == 3));
        if (cq)
            CHECK(lib.ibv_destroy_cq(cq) == 0);
        else
            CHECK(errno == ENOSPC);
    }
    CHECK(lib.stub_calls("create_cq") == 4 && lib.stub_calls("destroy_cq") == 2);
    lib.stub_fail_any(2, EIO, 0);
    for (int i = 0; i < 2; i++) {
        struct ibv_pd *other = lib.ibv_alloc_pd(context);

        CHECK(!other == (i == 1));
        if (other)
            CHECK(lib.ibv_dealloc_pd(other) == 0);
    }
    CHECK(!lib.stub_fault_pending());
}

enum { POSTERS = 3, ROUNDS = 20000 };

static struct ibv_cq *shared;
static atomic_int posting = POSTERS;

static void *post_all(void *arg)
{
    struct ibv_qp *qp = arg;
    struct ibv_send_wr wr[3], *bad;

    for (uint64_t i = 0; i < ROUNDS; i += 3) {
        struct ibv_send_wr *from = wr;

        chain(wr, 3, i);
        while (ibv_post_send(qp, from, &bad))
            from = bad;
    }
    atomic_fetch_sub(&posting, 1);
    return NULL;
}

static void threads_share_a_completion_queue(void)
{
    pthread_t threads[POSTERS];
    struct ibv_qp *qps[POSTERS];
    uint64_t next[POSTERS] = {0};
    struct ibv_wc wc[7];
    int n;

    shared = lib.ibv_create_cq(context, 64, NULL, NULL, 0);
    for (int i = 0; i < POSTERS; i++)
        qps[i] = make_qp(shared, IBV_QPS_RTS);
    for (int i = 0; i < POSTERS; i++)
        CHECK(pthread_create(&threads[i], NULL, post_all, qps[i]) == 0);
    do {
        bool last = !atomic_load(&posting);

        while ((n = ibv_poll_cq(shared, 7, wc)) > 0)
            for (int i = 0; i < n; i++) {
                int who = 0;

                while (qps[who]->qp_num != wc[i].qp_num)
                    CHECK(++who < POSTERS);
                CHECK(wc[i].wr_id == next[who]++);
            }
        CHECK(n == 0);
        if (last)
            break;
        sched_yield();
    } while (true);
    for (int i = 0; i < POSTERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(next[i] >= ROUNDS);
        CHECK(lib.ibv_destroy_qp(qps[i]) == 0);
    }
    CHECK(lib.ibv_destroy_cq(shared) == 0);
}

int main(int argc, char **argv)
{
    struct ibv_device **list;

    if (argc < 2)
        return 77;
    load(argv[1]);
    list = lib.ibv_get_device_list(NULL);
    CHECK(list);
    context = lib.ibv_open_device(list[0]);
    lib.ibv_free_device_list(list);
    CHECK(context);
    pd = lib.ibv_alloc_pd(context);
    CHECK(pd);
    requests_complete_in_order_until_the_ring_is_full();
    held_requests_fill_their_queue_and_are_flushed();
    states_are_checked();
    events_are_counted_and_forgotten_with_their_object();
    faults_come_when_asked_for();
    threads_share_a_completion_queue();
    CHECK(lib.ibv_dealloc_pd(pd) == 0);
    CHECK(lib.ibv_close_device(context) == 0);
    CHECK(lib.stub_live(NULL) == 0);
    CHECK(lib.stub_violations() == 0);
    return 0;
}
