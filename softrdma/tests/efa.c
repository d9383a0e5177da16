/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: what the EFA device promises, one function a promise: through the installed libefa, in one process. */
#include <pthread.h>
#include <signal.h>

#include "srd.h"

#define SIZE 65536

static struct ibv_context *ctx, *other;

/* Two ends on two devices; each can address the other unless told otherwise. */
struct couple {
    struct srd a, b;
    struct ibv_ah *to_b, *to_a;
};

static struct couple make_couple(enum ibv_qp_type type, int rnr_retry)
{
    struct couple c = {.a = srd_make(ctx, type, SIZE, 64), .b = srd_make(other, type, SIZE, 64)};

    srd_start(&c.a, rnr_retry);
    srd_start(&c.b, -1);
    c.to_b = srd_ah(&c.a, &c.b.self.gid);
    return c;
}

static void free_couple(struct couple *c)
{
    CHECK(ibv_destroy_ah(c->to_b) == 0);
    if (c->to_a)
        CHECK(ibv_destroy_ah(c->to_a) == 0);
    srd_free(&c->a);
    srd_free(&c->b);
}

static void expect_send(struct srd *e, uint64_t id, uint32_t vendor_err)
{
    struct seen s = srd_wait(e, 2000);

    CHECK(s.status >= 0 && s.wr_id == id && s.opcode == IBV_WC_SEND);
    CHECK(s.vendor_err == vendor_err);
    CHECK((s.status == IBV_WC_SUCCESS) == (vendor_err == EFA_OK));
}

static void a_message_arrives_with_its_sender(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, -1);
    struct seen s;

    memcpy(c.a.buf, "over there", 11);
    srd_recv(&c.b, 7, 100, 64);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 3, 0, 11);
    expect_send(&c.a, 3, EFA_OK);
    s = srd_wait(&c.b, 2000);
    CHECK(s.status == IBV_WC_SUCCESS && s.wr_id == 7 && s.opcode == IBV_WC_RECV && s.byte_len == 11);
    CHECK(s.src_qp == c.a.self.qpn && memcmp(c.b.buf + 100, "over there", 11) == 0);
    CHECK(s.slid == 0xffff && s.has_sgid && memcmp(&s.sgid, &c.a.self.gid, 16) == 0);
    free_couple(&c);
}

static void a_known_sender_comes_by_its_number(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, -1);
    struct efadv_ah_attr attr;
    struct seen s;

    c.to_a = srd_ah(&c.b, &c.a.self.gid);
    CHECK(efadv_query_ah(c.to_a, &attr, sizeof(attr)) == 0);
    srd_recv(&c.b, 7, 0, 64);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 3, 0, 11);
    s = srd_wait(&c.b, 2000);
    CHECK(s.status == IBV_WC_SUCCESS && s.slid == attr.ahn && !s.has_sgid);
    free_couple(&c);
}

static void handles_for_one_address_share_their_number(void)
{
    struct srd e = srd_make(ctx, IBV_QPT_DRIVER, SIZE, 8);
    union ibv_gid nobody = {.raw = {0xfe, 0x80, [15] = 99}};
    struct efadv_ah_attr n[4];
    struct ibv_ah *ah[4];

    for (int round = 0; round < 2; round++) {
        const union ibv_gid *to = round ? &nobody : &e.self.gid;

        ah[0] = srd_ah(&e, to);
        ah[1] = srd_ah(&e, to);
        CHECK(ibv_destroy_ah(ah[0]) == 0);
        ah[2] = srd_ah(&e, round ? &e.self.gid : &nobody);
        ah[3] = srd_ah(&e, to);
        for (int i = 1; i < 4; i++)
            CHECK(efadv_query_ah(ah[i], &n[i], sizeof(n[i])) == 0);
        CHECK(n[1].ahn == n[3].ahn && n[1].ahn != n[2].ahn);
        for (int i = 1; i < 4; i++)
            CHECK(ibv_destroy_ah(ah[i]) == 0);
    }
    srd_free(&e);
}

static void a_read_needs_a_handle_at_the_target(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, -1);

    memcpy(c.b.buf, "to be read", 11);
    srd_read(&c.a, c.to_b, &c.b.self, 1, 512, 11);
    expect_send(&c.a, 1, EFA_UNKNOWN_PEER);
    c.to_a = srd_ah(&c.b, &c.a.self.gid);
    srd_read(&c.a, c.to_b, &c.b.self, 2, 512, 11);
    expect_send(&c.a, 2, EFA_OK);
    CHECK(memcmp(c.a.buf + 512, "to be read", 11) == 0);
    free_couple(&c);
}

static void a_bad_request_fails_alone(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, 0);
    struct address wrong = c.b.self;

    c.to_a = srd_ah(&c.b, &c.a.self.gid);
    wrong.rkey ^= 1;
    srd_read(&c.a, c.to_b, &wrong, 1, 0, 8);
    expect_send(&c.a, 1, EFA_BAD_RKEY);
    wrong.rkey = c.b.self.rkey;
    wrong.addr += SIZE - 4;
    srd_read(&c.a, c.to_b, &wrong, 2, 0, 8);
    expect_send(&c.a, 2, EFA_BAD_RKEY);
    srd_send(&c.a, c.to_b, c.b.self.qpn ^ 0x40, 3, 0, 8);
    expect_send(&c.a, 3, EFA_BAD_QPN);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 4, 0, 8);
    expect_send(&c.a, 4, EFA_RNR);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 5, SIZE - 4, 8);
    expect_send(&c.a, 5, EFA_INVALID_LKEY);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 6, 0, 8929);
    expect_send(&c.a, 6, EFA_BAD_LENGTH);
    srd_recv(&c.b, 7, 0, 8928);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 8, 0, 8928);
    expect_send(&c.a, 8, EFA_OK);
    CHECK(srd_wait(&c.b, 2000).status == IBV_WC_SUCCESS);
    free_couple(&c);
}

static void a_receive_at_fault_says_so_at_both_ends(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, -1);
    struct seen s;

    srd_recv(&c.b, 1, 0, 8);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 2, 0, 9);
    expect_send(&c.a, 2, EFA_SHORT_RECEIVE);
    s = srd_wait(&c.b, 2000);
    CHECK(s.wr_id == 1 && s.vendor_err == EFA_BAD_LENGTH);
    srd_recv(&c.b, 3, SIZE - 4, 8);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 4, 0, 8);
    expect_send(&c.a, 4, EFA_BAD_STATUS);
    s = srd_wait(&c.b, 2000);
    CHECK(s.wr_id == 3 && s.vendor_err == EFA_INVALID_LKEY);
    free_couple(&c);
}

static void a_receive_that_comes_late_is_waited_for(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, 7);

    srd_send(&c.a, c.to_b, c.b.self.qpn, 1, 0, 8);
    CHECK(srd_wait(&c.a, 30).status == -1);
    srd_recv(&c.b, 2, 0, 8);
    expect_send(&c.a, 1, EFA_OK);
    CHECK(srd_wait(&c.b, 2000).wr_id == 2);
    free_couple(&c);
}

static void a_request_that_waits_holds_up_nobody(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, 7);
    struct srd third = srd_make(other, IBV_QPT_DRIVER, SIZE, 8);

    srd_start(&third, -1);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 1, 0, 8);
    srd_recv(&third, 9, 0, 8);
    srd_send(&c.a, c.to_b, third.self.qpn, 2, 0, 8);
    expect_send(&c.a, 2, EFA_OK);
    srd_recv(&c.b, 3, 0, 8);
    expect_send(&c.a, 1, EFA_OK);
    free_couple(&c);
    srd_free(&third);
}

static void an_address_of_nobody_is_unreachable(void)
{
    struct srd e = srd_make(ctx, IBV_QPT_DRIVER, SIZE, 8);
    union ibv_gid nobody = {.raw = {0xfe, 0x80, [15] = 99}};
    struct ibv_ah *ah = srd_ah(&e, &nobody);

    srd_start(&e, -1);
    srd_send(&e, ah, 1, 5, 0, 8);
    expect_send(&e, 5, EFA_UNREACHABLE);
    CHECK(ibv_destroy_ah(ah) == 0);
    srd_free(&e);
}

static void datagrams_are_lost_without_a_word(void)
{
    struct couple c = make_couple(IBV_QPT_UD, -1);
    struct seen s;

    srd_send(&c.a, c.to_b, c.b.self.qpn, 1, 0, 8);
    expect_send(&c.a, 1, EFA_OK);
    srd_send(&c.a, c.to_b, c.b.self.qpn ^ 0x40, 2, 0, 8);
    expect_send(&c.a, 2, EFA_OK);
    memcpy(c.a.buf, "datagram", 8);
    srd_recv(&c.b, 3, 0, 64);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 4, 0, 8);
    expect_send(&c.a, 4, EFA_OK);
    s = srd_wait(&c.b, 2000);
    CHECK(s.status == IBV_WC_SUCCESS && s.wr_id == 3 && s.byte_len == 48);
    CHECK(memcmp(c.b.buf + 40, "datagram", 8) == 0);
    free_couple(&c);
}

static bool has_event(struct srd *e, int limit_ms)
{
    struct timeval t = {limit_ms / 1000, limit_ms % 1000 * 1000};
    fd_set fds;

    FD_ZERO(&fds);
    FD_SET(e->channel->fd, &fds);
    return select(e->channel->fd + 1, &fds, NULL, NULL, &t) == 1;
}

static void take_event(struct srd *e)
{
    struct ibv_cq *cq;
    void *unused;

    CHECK(has_event(e, 2000));
    CHECK(ibv_get_cq_event(e->channel, &cq, &unused) == 0 && cq == e->cq);
    ibv_ack_cq_events(cq, 1);
}

static void an_armed_queue_tells_once(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, -1);

    for (int i = 0; i < 4; i++)
        srd_recv(&c.b, (uint64_t)i, 0, 8);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 1, 0, 8);
    CHECK(!has_event(&c.b, 20));
    CHECK(srd_wait(&c.b, 2000).status == 0);
    CHECK(ibv_req_notify_cq(c.b.cq, 0) == 0);
    CHECK(!has_event(&c.b, 20));
    srd_send(&c.a, c.to_b, c.b.self.qpn, 2, 0, 8);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 3, 0, 8);
    take_event(&c.b);
    CHECK(!has_event(&c.b, 20));
    CHECK(ibv_req_notify_cq(c.b.cq, 0) == 0); /* over what has not been read: at once */
    take_event(&c.b);
    CHECK(srd_wait(&c.b, 2000).status == 0 && srd_wait(&c.b, 2000).status == 0);
    CHECK(ibv_req_notify_cq(c.b.cq, 0) == 0);
    CHECK(srd_wait(&c.b, 0).status == -1);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 4, 0, 8);
    CHECK(has_event(&c.b, 2000)); /* nobody reads this one: destroying must not wait for it */
    free_couple(&c);
}

static void what_was_posted_comes_back_flushed(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, 7);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
    int sends = 0, receives = 0;

    srd_send(&c.a, c.to_b, c.b.self.qpn, 1, 0, 8); /* waits for a receive */
    srd_recv(&c.a, 2, 0, 8);
    srd_recv(&c.a, 3, 0, 8);
    CHECK(ibv_modify_qp(c.a.qp, &a, IBV_QP_STATE) == 0);
    for (int i = 0; i < 3; i++) {
        struct seen s = srd_wait(&c.a, 2000);

        CHECK(s.status == IBV_WC_WR_FLUSH_ERR && s.vendor_err == EFA_FLUSHED);
        sends += s.wr_id == 1;
        receives += s.wr_id == 2 || s.wr_id == 3;
    }
    CHECK(sends == 1 && receives == 2);
    free_couple(&c);
}

static void what_is_posted_while_drained_goes_afterwards(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, 7);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD};

    srd_send(&c.a, c.to_b, c.b.self.qpn, 1, 0, 8); /* waits for a receive, and goes on doing so */
    CHECK(ibv_modify_qp(c.a.qp, &a, IBV_QP_STATE) == 0);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 2, 0, 8);
    srd_recv(&c.b, 11, 0, 8);
    srd_recv(&c.b, 12, 0, 8);
    expect_send(&c.a, 1, EFA_OK);
    CHECK(srd_wait(&c.a, 20).status == -1);
    a.qp_state = IBV_QPS_RTS;
    CHECK(ibv_modify_qp(c.a.qp, &a, IBV_QP_STATE) == 0);
    expect_send(&c.a, 2, EFA_OK);
    free_couple(&c);
}

static void a_queue_pair_in_error_is_nobodys_target(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, -1);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

    CHECK(ibv_modify_qp(c.b.qp, &a, IBV_QP_STATE) == 0);
    srd_send(&c.a, c.to_b, c.b.self.qpn, 1, 0, 8);
    expect_send(&c.a, 1, EFA_BAD_QPN);
    free_couple(&c);
}

static void rings_go_round_many_times(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, -1);

    uint32_t rounds = getenv("SOFTRDMA_REORDER") ? 2000 : 100000; /* more than an index of 16 bits holds */

    for (uint32_t i = 0; i < rounds; i++) {
        srd_recv(&c.b, i, 0, 8);
        memcpy(c.a.buf, &i, sizeof(i));
        srd_send(&c.a, c.to_b, c.b.self.qpn, i, 0, sizeof(i));
        expect_send(&c.a, i, EFA_OK);
        CHECK(srd_wait(&c.b, 2000).wr_id == i && memcmp(c.b.buf, &i, sizeof(i)) == 0);
    }
    free_couple(&c);
}

static void memory_that_has_gone_is_an_error(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, -1);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr = ibv_reg_mr(c.b.pd, page, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    struct address gone = c.b.self;

    CHECK(mr && munmap(page, 4096) == 0);
    c.to_a = srd_ah(&c.b, &c.a.self.gid);
    gone.rkey = mr->rkey;
    gone.addr = (uintptr_t)page;
    srd_read(&c.a, c.to_b, &gone, 1, 0, 8);
    expect_send(&c.a, 1, EFA_BAD_RKEY);
    CHECK(ibv_dereg_mr(mr) == 0);
    free_couple(&c);
}

/* A thread whose signals have as little stack as some run-times give them, and who wants none of them. Code that was built
 * with sanitizers needs more. */
static void *post_in_a_corner(void *arg)
{
    struct couple *c = arg;
    size_t size = getenv("EFA_TEST_STACK") ? (size_t)atol(getenv("EFA_TEST_STACK")) : 8192;
    stack_t least = {.ss_size = size, .ss_sp = malloc(size)};
    sigset_t all;

    CHECK(least.ss_sp && sigaltstack(&least, NULL) == 0);
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    srd_send(&c->a, c->to_b, c->b.self.qpn, 1, 0, 8);
    least.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&least, NULL) == 0);
    free(least.ss_sp);
    return NULL;
}

static void a_doorbell_works_in_any_thread(void)
{
    struct couple c = make_couple(IBV_QPT_DRIVER, -1);
    pthread_t thread;

    srd_recv(&c.b, 2, 0, 8);
    CHECK(pthread_create(&thread, NULL, post_in_a_corner, &c) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    expect_send(&c.a, 1, EFA_OK);
    CHECK(srd_wait(&c.b, 2000).wr_id == 2);
    free_couple(&c);
}

static void only_what_the_driver_allows_changes_a_state(void)
{
    struct srd e = srd_make(ctx, IBV_QPT_DRIVER, SIZE, 8);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .port_num = 1};
    struct ibv_qp_init_attr init;

    CHECK(ibv_modify_qp(e.qp, &a, IBV_QP_STATE) == EINVAL);
    a.qp_state = IBV_QPS_INIT;
    CHECK(ibv_modify_qp(e.qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT) == EINVAL);
    CHECK(ibv_modify_qp(e.qp, &a, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS) == EOPNOTSUPP);
    a.pkey_index = 1;
    CHECK(ibv_modify_qp(e.qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == EOPNOTSUPP);
    a.pkey_index = 0;
    a.port_num = 2;
    CHECK(ibv_modify_qp(e.qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == EINVAL);
    srd_start(&e, 3);
    CHECK(ibv_query_qp(e.qp, &a, IBV_QP_STATE | IBV_QP_QKEY | IBV_QP_RNR_RETRY, &init) == 0);
    CHECK(a.qp_state == IBV_QPS_RTS && a.qkey == SRD_QKEY && a.rnr_retry == 3);
    CHECK(ibv_query_qp(e.qp, &a, IBV_QP_AV, &init) == EOPNOTSUPP);
    srd_free(&e);
}

static void what_the_device_lacks_is_refused(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    static uint8_t memory[64];

    CHECK(!ibv_reg_mr(pd, memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && errno == EOPNOTSUPP);
    CHECK(!ibv_reg_mr(pd, memory, 64, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
    CHECK(!ibv_create_cq(ctx, 1 << 20, NULL, NULL, 0) && errno == EINVAL);
    CHECK(ibv_dealloc_pd(pd) == 0);
}

int main(void)
{
    ctx = efa_open(0);
    other = efa_open(1);
    a_message_arrives_with_its_sender();
    a_known_sender_comes_by_its_number();
    handles_for_one_address_share_their_number();
    a_read_needs_a_handle_at_the_target();
    a_bad_request_fails_alone();
    a_receive_at_fault_says_so_at_both_ends();
    a_receive_that_comes_late_is_waited_for();
    a_request_that_waits_holds_up_nobody();
    an_address_of_nobody_is_unreachable();
    datagrams_are_lost_without_a_word();
    an_armed_queue_tells_once();
    what_was_posted_comes_back_flushed();
    what_is_posted_while_drained_goes_afterwards();
    a_queue_pair_in_error_is_nobodys_target();
    rings_go_round_many_times();
    memory_that_has_gone_is_an_error();
    a_doorbell_works_in_any_thread();
    only_what_the_driver_allows_changes_a_state();
    what_the_device_lacks_is_refused();
    CHECK(ibv_close_device(ctx) == 0 && ibv_close_device(other) == 0);
    return PASS;
}
