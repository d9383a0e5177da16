/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: the EFA half of the stub, which other tests trust: sessions are all or nothing, polls hand out each
 * completion once, structures are judged by length and mask, and what hangs or crashes in a real library ends the
 * process.
 *
 * Arguments: a word for the run; the folder of the stub; the rdma-core release that its build plays.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "control.h"
#include "efadv.h"

#undef ibv_get_device_list

#define VERBS(X) \
    X(ibv_get_device_list) X(ibv_free_device_list) X(ibv_open_device) X(ibv_close_device) X(ibv_alloc_pd) \
    X(ibv_dealloc_pd) X(ibv_create_comp_channel) X(ibv_destroy_comp_channel) X(ibv_create_cq) X(ibv_destroy_cq) \
    X(ibv_destroy_qp) X(ibv_modify_qp) X(ibv_query_qp) X(ibv_create_ah) X(ibv_destroy_ah) X(ibv_qp_to_qp_ex) \
    X(ibv_get_cq_event) X(ibv_ack_cq_events) X(stub_live) X(stub_calls) X(stub_violations) X(stub_fail) \
    X(stub_hold) X(stub_release) X(stub_refuse) X(stub_reset) X(stub_open_sessions) X(stub_push_wc_ex) \
    X(stub_capture) X(stub_captured) X(stub_captured_request)

static struct {
#define X(name) __typeof__(name) *name;
    VERBS(X)
#undef X
} lib;

static struct {
    int (*query_device)(struct ibv_context *, struct stub_efadv_device_attr *, uint32_t);
    struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *,
                                   struct stub_efadv_qp_init_attr *, uint32_t);
    struct ibv_cq_ex *(*create_cq)(struct ibv_context *, struct ibv_cq_init_attr_ex *,
                                   struct stub_efadv_cq_init_attr *, uint32_t);
    struct stub_efadv_cq *(*cq_from_ibv_cq_ex)(struct ibv_cq_ex *);
} efa;

static struct ibv_context *context, *other;
static struct ibv_pd *pd;
static struct ibv_ah *ah;
static int release;

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
    snprintf(path, sizeof path, "%s/libefa.so.1", folder);
    handle = dlopen(path, RTLD_NOW);
    CHECK(handle);
    *(void **)&efa.query_device = dlsym(handle, "efadv_query_device");
    *(void **)&efa.create_qp_ex = dlsym(handle, "efadv_create_qp_ex");
    *(void **)&efa.create_cq = dlsym(handle, "efadv_create_cq");
    *(void **)&efa.cq_from_ibv_cq_ex = dlsym(handle, "efadv_cq_from_ibv_cq_ex");
    CHECK(efa.query_device && efa.create_qp_ex);
    CHECK(!dlsym(handle, "efadv_query_mr") == (release < 50));
    CHECK(!dlsym(handle, "efadv_get_max_sq_depth") == (release < 63));
    CHECK(!efa.create_cq == (release < 43));
}

static const uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ;

static struct ibv_qp_ex *make_qp(struct ibv_cq *cq, uint64_t operations)
{
    struct stub_efadv_qp_init_attr extra = {.driver_qp_type = 0};
    struct ibv_qp_init_attr_ex init = {
        .send_cq = cq, .recv_cq = cq, .cap = {7, 8, 2, 1, 32}, .qp_type = IBV_QPT_DRIVER, .pd = pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = operations,
    };
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp *qp = efa.create_qp_ex(context, &init, &extra, sizeof extra);

    CHECK(qp && init.cap.max_send_wr == 8);
    CHECK(lib.ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    attr.qp_state = IBV_QPS_RTR;
    CHECK(lib.ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS) == EOPNOTSUPP);
    CHECK(lib.ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(lib.ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY) == 0);
    CHECK(lib.ibv_qp_to_qp_ex(qp) == (struct ibv_qp_ex *)qp);
    return lib.ibv_qp_to_qp_ex(qp);
}

static void one_send(struct ibv_qp_ex *qp, uint64_t wr_id, unsigned int flags)
{
    qp->wr_id = wr_id;
    qp->wr_flags = flags;
    ibv_wr_send(qp);
    ibv_wr_set_ud_addr(qp, ah, 5, 6);
    ibv_wr_set_sge(qp, 1, 2, 3);
}

static void sessions_are_all_or_nothing(void)
{
    struct ibv_cq *cq = lib.ibv_create_cq(context, 8, NULL, NULL, 0);
    struct ibv_qp_ex *qp = make_qp(cq, sends);
    struct stub_request request;
    struct ibv_wc wc[16];

    CHECK(!qp->wr_rdma_write && !qp->wr_atomic_cmp_swp && qp->wr_rdma_read);
    lib.stub_capture(1);
    ibv_wr_start(qp);
    CHECK(lib.stub_open_sessions() == 1);
    for (uint64_t i = 0; i < 8; i++)
        one_send(qp, i, IBV_SEND_SIGNALED);
    CHECK(ibv_poll_cq(cq, 16, wc) == 0);
    CHECK(ibv_wr_complete(qp) == 0);
    CHECK(lib.stub_open_sessions() == 0);
    CHECK(lib.stub_captured() == 8 && lib.stub_captured_request(7, &request) == 0);
    CHECK(request.kind == 3 && request.send.wr_id == 7 && request.send.num_sge == 1 && request.remote_qpn == 5 &&
          request.remote_qkey == 6 && request.ah == (uintptr_t)ah);
    CHECK(ibv_poll_cq(cq, 16, wc) == 8 && wc[7].wr_id == 7 && wc[7].opcode == IBV_WC_SEND);

    ibv_wr_start(qp);
    for (uint64_t i = 0; i < 9; i++)
        one_send(qp, i, IBV_SEND_SIGNALED);
    CHECK(ibv_wr_complete(qp) == ENOMEM);
    ibv_wr_start(qp);
    one_send(qp, 1, IBV_SEND_SIGNALED);
    one_send(qp, 2, 0);
    one_send(qp, 3, IBV_SEND_SIGNALED);
    CHECK(ibv_wr_complete(qp) == EINVAL);
    ibv_wr_start(qp);
    one_send(qp, 1, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    CHECK(ibv_wr_complete(qp) == EINVAL);
    lib.stub_refuse("wr_complete", 1, EIO, STUB_BAD_WR_RIGHT);
    ibv_wr_start(qp);
    one_send(qp, 1, IBV_SEND_SIGNALED);
    one_send(qp, 2, IBV_SEND_SIGNALED);
    CHECK(ibv_wr_complete(qp) == EIO);
    ibv_wr_start(qp);
    one_send(qp, 1, IBV_SEND_SIGNALED);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    CHECK(ibv_wr_complete(qp) == 0);
    CHECK(ibv_poll_cq(cq, 16, wc) == 0);

    lib.stub_hold(1);
    ibv_wr_start(qp);
    for (uint64_t i = 0; i < 8; i++)
        one_send(qp, i, IBV_SEND_SIGNALED);
    CHECK(ibv_wr_complete(qp) == 0);
    ibv_wr_start(qp);
    one_send(qp, 9, IBV_SEND_SIGNALED);
    CHECK(ibv_wr_complete(qp) == ENOMEM);
    CHECK(lib.stub_release(&qp->qp_base, 0, 3, IBV_WC_REM_ABORT_ERR) == 3);
    CHECK(ibv_poll_cq(cq, 16, wc) == 3 && wc[0].status == IBV_WC_REM_ABORT_ERR);
    lib.stub_reset();
    CHECK(lib.ibv_destroy_qp(&qp->qp_base) == 0);
    CHECK(lib.ibv_destroy_cq(cq) == 0);
}

/* The process that does it ends by SIGABRT (or, at a function that is not there, by SIGSEGV). */
static void dies(void (*act)(struct ibv_qp_ex *, struct ibv_cq_ex *), struct ibv_qp_ex *qp, struct ibv_cq_ex *cq)
{
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (!child) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        signal(SIGSEGV, SIG_DFL);
        alarm(10);
        act(qp, cq);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGSEGV));
}

static void start_twice(struct ibv_qp_ex *qp, struct ibv_cq_ex *cq)
{
    (void)cq;
    ibv_wr_start(qp);
    ibv_wr_start(qp);
}

static void setter_first(struct ibv_qp_ex *qp, struct ibv_cq_ex *cq)
{
    (void)cq;
    ibv_wr_start(qp);
    ibv_wr_set_sge(qp, 1, 2, 3);
}

static void builder_outside(struct ibv_qp_ex *qp, struct ibv_cq_ex *cq)
{
    (void)cq;
    ibv_wr_send(qp);
}

static void no_address(struct ibv_qp_ex *qp, struct ibv_cq_ex *cq)
{
    (void)cq;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_complete(qp);
}

static void poll_twice(struct ibv_qp_ex *qp, struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr attr = {0};

    (void)qp;
    ibv_start_poll(cq, &attr);
    ibv_start_poll(cq, &attr);
}

static void destroy_inside(struct ibv_qp_ex *qp, struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr attr = {0};

    ibv_start_poll(cq, &attr);
    lib.ibv_destroy_qp(&qp->qp_base);
}

static void read_outside(struct ibv_qp_ex *qp, struct ibv_cq_ex *cq)
{
    (void)qp;
    ibv_wc_read_opcode(cq);
}

static void notify_without_channel(struct ibv_qp_ex *qp, struct ibv_cq_ex *cq)
{
    (void)qp;
    ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0);
}

static struct ibv_cq_ex *make_cq(struct ibv_comp_channel *channel, uint64_t wc_flags, uint64_t efa_flags)
{
    struct stub_efadv_cq_init_attr extra = {.wc_flags = efa_flags};
    struct ibv_cq_init_attr_ex init = {.cqe = 5, .channel = channel, .wc_flags = wc_flags};
    struct ibv_cq_ex *cq = efa.create_cq(context, &init, &extra, sizeof extra);

    CHECK(cq && init.cqe == 8);
    return cq;
}

static void polls_hand_out_each_completion_once(void)
{
    struct ibv_cq_ex *cq = make_cq(NULL, IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_IMM, STUB_EFA_WC_SGID);
    struct stub_efadv_cq *more = efa.cq_from_ibv_cq_ex(cq);
    struct ibv_qp_ex *qp = make_qp(ibv_cq_ex_to_cq(cq), sends);
    struct ibv_poll_cq_attr attr = {0};
    struct ibv_wc wc = {.wr_id = 1, .qp_num = 77, .status = IBV_WC_FATAL_ERR, .imm_data = 9, .opcode = IBV_WC_RECV};
    const uint8_t gid[16] = "the sender's gid";
    union ibv_gid got;

    CHECK(!cq->read_src_qp && !cq->read_completion_ts && cq->read_qp_num);
    CHECK(ibv_start_poll(cq, &attr) == ENOENT && lib.stub_open_sessions() == 0);
    CHECK(lib.stub_push_wc_ex(ibv_cq_ex_to_cq(cq), &wc, 0, gid, 0) == 0);
    wc.wr_id = 2;
    CHECK(lib.stub_push_wc_ex(ibv_cq_ex_to_cq(cq), &wc, 0, NULL, 1) == 0);
    CHECK(ibv_start_poll(cq, &attr) == 0 && cq->wr_id == 1 && cq->status == IBV_WC_FATAL_ERR);
    CHECK(lib.stub_open_sessions() == 1);
    CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV && ibv_wc_read_qp_num(cq) == 77 && ibv_wc_read_imm_data(cq) == 9);
    CHECK(more->wc_read_sgid(more, &got) == 0 && !memcmp(got.raw, gid, 16));
    CHECK(ibv_next_poll(cq) == 0 && cq->wr_id == 2);
    CHECK(more->wc_read_sgid(more, &got) == -ENOENT);
    CHECK((uintptr_t)more->wc_is_unsolicited == (release < 52 ? 2u : 0u));
    CHECK(ibv_next_poll(cq) == ENOENT);
    ibv_end_poll(cq);
    CHECK(lib.stub_open_sessions() == 0 && ibv_start_poll(cq, &attr) == ENOENT);
    lib.stub_fail("next_poll", 1, EINVAL, 1);
    CHECK(lib.stub_push_wc_ex(ibv_cq_ex_to_cq(cq), &wc, 0, NULL, 1) == 0);
    CHECK(ibv_start_poll(cq, &attr) == 0 && ibv_next_poll(cq) == EINVAL);
    ibv_end_poll(cq);
    CHECK(lib.stub_push_wc_ex(ibv_cq_ex_to_cq(cq), &wc, 0, NULL, 1) == 0);
    dies(poll_twice, qp, cq);
    dies(destroy_inside, qp, cq);
    dies(read_outside, qp, cq);
    dies(notify_without_channel, qp, cq);
    CHECK(lib.ibv_destroy_qp(&qp->qp_base) == 0);
    CHECK(lib.ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

static void the_channel_does_not_know_of_its_queue(void)
{
    struct ibv_comp_channel *channel = lib.ibv_create_comp_channel(context);
    struct ibv_cq_ex *cq = make_cq(channel, 0, 0);
    struct ibv_wc wc = {.wr_id = 1};
    struct ibv_cq *got;
    void *nothing = &got;

    CHECK(!cq->channel && !cq->cq_context && channel->refcnt == 0);
    CHECK(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 1) == EOPNOTSUPP);
    CHECK(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0) == 0);
    CHECK(lib.stub_push_wc_ex(ibv_cq_ex_to_cq(cq), &wc, 0, NULL, 0) == 0);
    CHECK(lib.ibv_get_cq_event(channel, &got, &nothing) == 0 && got == ibv_cq_ex_to_cq(cq) && !nothing);
    lib.ibv_ack_cq_events(got, 1);
    CHECK(lib.ibv_destroy_cq(got) == 0);
    CHECK(lib.ibv_destroy_comp_channel(channel) == 0);
}

static void structures_are_judged(void)
{
    struct stub_efadv_device_attr attr;
    struct stub_efadv_qp_init_attr extra[2] = {{.driver_qp_type = 0}};
    struct ibv_cq *cq = lib.ibv_create_cq(context, 8, NULL, NULL, 0);
    struct ibv_qp_init_attr_ex init = {.send_cq = cq, .recv_cq = cq, .cap = {8, 8, 2, 1, 0}, .pd = pd,
                                       .qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD};

    memset(&attr, 0xaa, sizeof attr);
    CHECK(efa.query_device(context, &attr, 22) == EINVAL);
    CHECK(efa.query_device(context, &attr, sizeof attr) == 0);
    CHECK(attr.max_sq_wr == 4096 && attr.comp_mask == 0 && attr.max_rdma_size == 1u << 31);
    CHECK(attr.device_caps == (release < 43 ? 3u : release < 59 ? 7u : release < 65 ? 0x3fu : 0x7fu));
    CHECK(efa.query_device(other, &attr, sizeof attr) == EOPNOTSUPP);
    CHECK(!efa.create_qp_ex(context, &init, extra, 8) && errno == EINVAL);
    extra[1].driver_qp_type = 1;
    CHECK(!efa.create_qp_ex(context, &init, extra, sizeof extra) && errno == EINVAL);
    extra[0].wr_flags = 2;
    CHECK(!efa.create_qp_ex(context, &init, extra, sizeof extra[0]) && errno == (release < 64 ? EINVAL : EOPNOTSUPP));
    extra[0].wr_flags = 0;
    extra[0].comp_mask = 1;
    CHECK(!efa.create_qp_ex(context, &init, extra, sizeof extra[0]) && errno == EINVAL);
    extra[0].comp_mask = 0;
    init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
    CHECK(!efa.create_qp_ex(context, &init, extra, sizeof extra[0]) && errno == EOPNOTSUPP);
    CHECK(lib.ibv_destroy_cq(cq) == 0);
}

int main(int argc, char **argv)
{
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};
    struct ibv_device **list;
    struct ibv_qp_ex *qp;
    struct ibv_cq *cq;
    int count;

    if (argc < 4)
        return 77;
    release = atoi(argv[3]);
    load(argv[2]);
    list = lib.ibv_get_device_list(&count);
    CHECK(list && count == 3);
    other = lib.ibv_open_device(list[0]);
    context = lib.ibv_open_device(list[2]);
    lib.ibv_free_device_list(list);
    CHECK(context && other);
    pd = lib.ibv_alloc_pd(context);
    ah = lib.ibv_create_ah(pd, &to);
    CHECK(pd && ah);
    sessions_are_all_or_nothing();
    structures_are_judged();
    cq = lib.ibv_create_cq(context, 8, NULL, NULL, 0);
    qp = make_qp(cq, sends);
    dies(start_twice, qp, NULL);
    dies(setter_first, qp, NULL);
    dies(builder_outside, qp, NULL);
    dies(no_address, qp, NULL);
    CHECK(lib.ibv_destroy_qp(&qp->qp_base) == 0 && lib.ibv_destroy_cq(cq) == 0);
    if (efa.create_cq) {
        polls_hand_out_each_completion_once();
        the_channel_does_not_know_of_its_queue();
    }
    CHECK(lib.ibv_destroy_ah(ah) == 0 && lib.ibv_dealloc_pd(pd) == 0);
    CHECK(lib.ibv_close_device(context) == 0 && lib.ibv_close_device(other) == 0);
    CHECK(lib.stub_live(NULL) == 0);
    CHECK(lib.stub_violations() == 0);
    return 0;
}
