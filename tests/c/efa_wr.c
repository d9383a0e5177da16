/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: a send request of EFA is checked before any builder is called, and handed to exactly the builders and
 * setters that it needs, in their order, between one wr_start and one wr_complete.
 */
#include "efa_wr.h"

#include <arpa/inet.h>
#include <errno.h>

#include "check.h"

enum step { START, COMPLETE, ABORT, SEND, SEND_IMM, READ, WRITE, WRITE_IMM, SGE, SGE_LIST, INLINE, INLINE_LIST, ADDR,
            HINTS };

static struct {
    enum step steps[4096];
    int count, err;
    uint64_t wr_id, remote_addr;
    uint32_t rkey, imm, qpn, qkey, hints, flags;
    struct ibv_ah *ah;
    size_t inlined;
} seen;

static void saw(enum step step)
{
    CHECK(seen.count < 4096);
    seen.steps[seen.count++] = step;
}

static void start(struct ibv_qp_ex *qp) { (void)qp, saw(START); }
static int complete(struct ibv_qp_ex *qp) { (void)qp, saw(COMPLETE); return seen.err; }
static void abort_(struct ibv_qp_ex *qp) { (void)qp, saw(ABORT); }

static void begin(struct ibv_qp_ex *qp, enum step step, uint32_t rkey, uint64_t addr, uint32_t imm)
{
    saw(step);
    seen.wr_id = qp->wr_id;
    seen.flags = qp->wr_flags;
    seen.rkey = rkey;
    seen.remote_addr = addr;
    seen.imm = ntohl(imm);
}

static void send_(struct ibv_qp_ex *qp) { begin(qp, SEND, 0, 0, 0); }
static void send_imm(struct ibv_qp_ex *qp, __be32 imm) { begin(qp, SEND_IMM, 0, 0, imm); }
static void read_(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr) { begin(qp, READ, rkey, addr, 0); }
static void write_(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr) { begin(qp, WRITE, rkey, addr, 0); }

static void write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, __be32 imm)
{
    begin(qp, WRITE_IMM, rkey, addr, imm);
}

static void set_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    (void)qp, saw(ADDR);
    seen.ah = ah;
    seen.qpn = qpn;
    seen.qkey = qkey;
}

static void set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
    (void)qp, (void)lkey, (void)addr, (void)length, saw(SGE);
}

static void set_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
    (void)qp, (void)count, (void)list, saw(SGE_LIST);
}

static void set_inline(struct ibv_qp_ex *qp, void *addr, size_t length)
{
    (void)qp, (void)addr, saw(INLINE);
    seen.inlined = length;
}

static void set_inline_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *list)
{
    (void)qp, saw(INLINE_LIST);
    seen.inlined = 0;
    for (size_t i = 0; i < count; i++)
        seen.inlined += list[i].length;
}

static void set_hints(struct dv_qp *qp, uint32_t hints)
{
    (void)qp, saw(HINTS);
    seen.hints = hints;
}

static struct ibv_qp_ex qp = {
    .wr_start = start, .wr_complete = complete, .wr_abort = abort_, .wr_send = send_, .wr_send_imm = send_imm,
    .wr_rdma_read = read_, .wr_rdma_write = write_, .wr_rdma_write_imm = write_imm, .wr_set_ud_addr = set_addr,
    .wr_set_sge = set_sge, .wr_set_sge_list = set_list, .wr_set_inline_data = set_inline,
    .wr_set_inline_data_list = set_inline_list,
};
static struct dv_qp dv = {.wr_set_processing_hints = set_hints};
static struct ibv_ah ah;
static struct ibv_sge sges[8] = {{100, 8, 1}, {200, 8, 2}, {300, 8, 3}};

#define ALL_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | \
                 IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)

static const struct efa_wr_limits limits = {
    .ops = ALL_OPS, .max_send_sge = 2, .max_inline_data = 16, .max_rdma_size = 1000,
};

static struct efa_wr request(uint32_t opcode, uint32_t flags, uint32_t num_sge)
{
    return (struct efa_wr){
        .fields = {.wr_id = 7, .opcode = opcode, .send_flags = flags, .remote_addr = 0x1234, .rkey = 5,
                   .imm_data = 0x01020304, .remote_qpn = 8, .remote_qkey = 9},
        .sge = sges, .ah = &ah, .num_sge = num_sge,
    };
}

#define LOUD IBV_SEND_SIGNALED

static enum efa_wr_fault fault(struct efa_wr wr)
{
    return efa_wr_check(&wr, &limits);
}

static void requests_are_checked(void)
{
    struct efa_wr_limits other = limits;
    struct efa_wr wr = request(IBV_WR_SEND, LOUD, 1);
    static const uint32_t unknown[] = {5, 6, 7, 8, 9, 10, 11, 255, 0x80000000u, 0xffffffffu};

    for (uint32_t opcode = 0; opcode < 5; opcode++) {
        uint64_t bit = (uint64_t[]){IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
                                    IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM,
                                    IBV_QP_EX_WITH_RDMA_READ}[opcode];

        CHECK(fault(request(opcode, LOUD, 1)) == EFA_WR_OK);
        CHECK(fault(request(opcode, LOUD, 0)) == EFA_WR_OK);
        other.ops = ALL_OPS & ~bit;
        wr = request(opcode, LOUD, 1);
        CHECK(efa_wr_check(&wr, &other) == EFA_WR_NOT_ENABLED);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        CHECK(fault(request(unknown[i], LOUD, 1)) == EFA_WR_BAD_OPCODE);
    wr = request(IBV_WR_SEND, LOUD, 1);
    wr.ah = NULL;
    CHECK(fault(wr) == EFA_WR_NO_DESTINATION);
    CHECK(fault(request(IBV_WR_SEND, 0, 1)) == EFA_WR_UNSIGNALED);
    other = limits;
    other.sq_sig_all = true;
    wr = request(IBV_WR_SEND, 0, 1);
    CHECK(efa_wr_check(&wr, &other) == EFA_WR_OK);
    CHECK(fault(request(IBV_WR_SEND, LOUD | IBV_SEND_FENCE, 1)) == EFA_WR_BAD_FLAGS);
    CHECK(fault(request(IBV_WR_SEND, LOUD | IBV_SEND_SOLICITED, 1)) == EFA_WR_BAD_FLAGS);
    CHECK(fault(request(IBV_WR_SEND, LOUD | 1u << 31, 1)) == EFA_WR_BAD_FLAGS);
    CHECK(fault(request(IBV_WR_SEND, LOUD, 2)) == EFA_WR_OK);
    CHECK(fault(request(IBV_WR_SEND, LOUD, 3)) == EFA_WR_TOO_MANY_SGE);
    CHECK(fault(request(IBV_WR_RDMA_READ, LOUD, 2)) == EFA_WR_TOO_MANY_RDMA_SGE);
    CHECK(fault(request(IBV_WR_RDMA_WRITE, LOUD, 2)) == EFA_WR_TOO_MANY_RDMA_SGE);
}

static void lengths_are_checked(void)
{
    struct efa_wr_limits other = limits;
    struct ibv_sge huge[2] = {{0, 0xffffffffu, 1}, {0, 2, 1}};
    struct efa_wr wr = request(IBV_WR_RDMA_READ, LOUD, 1);

    sges[0].length = 1000;
    CHECK(fault(request(IBV_WR_RDMA_READ, LOUD, 1)) == EFA_WR_OK);
    sges[0].length = 1001;
    CHECK(fault(request(IBV_WR_RDMA_READ, LOUD, 1)) == EFA_WR_RDMA_TOO_LONG);
    CHECK(fault(request(IBV_WR_SEND, LOUD, 1)) == EFA_WR_OK);
    other.max_rdma_size = 0; /* a library that does not say */
    wr = request(IBV_WR_RDMA_READ, LOUD, 1);
    CHECK(efa_wr_check(&wr, &other) == EFA_WR_OK);
    sges[0].length = 8;
    CHECK(fault(request(IBV_WR_SEND, LOUD | IBV_SEND_INLINE, 2)) == EFA_WR_OK);
    sges[0].length = 9;
    CHECK(fault(request(IBV_WR_SEND, LOUD | IBV_SEND_INLINE, 2)) == EFA_WR_INLINE_TOO_LONG);
    wr = request(IBV_WR_SEND, LOUD | IBV_SEND_INLINE, 2);
    wr.sge = huge; /* their sum does not wrap */
    CHECK(fault(wr) == EFA_WR_INLINE_TOO_LONG);
    sges[0].length = 8;
    CHECK(fault(request(IBV_WR_RDMA_READ, LOUD | IBV_SEND_INLINE, 1)) == EFA_WR_INLINE_READ);
    CHECK(fault(request(IBV_WR_RDMA_WRITE, LOUD | IBV_SEND_INLINE, 1)) == EFA_WR_INLINE_WRITE);
    other = limits;
    other.inline_write = true;
    wr = request(IBV_WR_RDMA_WRITE, LOUD | IBV_SEND_INLINE, 1);
    CHECK(efa_wr_check(&wr, &other) == EFA_WR_OK);
    wr = request(IBV_WR_SEND, LOUD, 1);
    wr.hints = 1;
    CHECK(fault(wr) == EFA_WR_NO_HINTS);
    other.hints = true;
    CHECK(efa_wr_check(&wr, &other) == EFA_WR_OK);
}

static int position(enum step step)
{
    for (int i = 0; i < seen.count; i++)
        if (seen.steps[i] == step)
            return i;
    return -1;
}

/* One request alone: start, its builder, its data and its destination in any order, complete. */
static void goes(struct efa_wr wr, enum step builder, enum step data)
{
    memset(&seen, 0, sizeof seen);
    CHECK(efa_wr_submit(&qp, &dv, &wr, 1) == 0);
    CHECK(seen.count == (wr.hints ? 6 : 5));
    CHECK(seen.steps[0] == START && seen.steps[1] == builder && seen.steps[seen.count - 1] == COMPLETE);
    CHECK(position(data) > 1 && position(ADDR) > 1);
    CHECK(seen.wr_id == 7 && seen.ah == &ah && seen.qpn == 8 && seen.qkey == 9);
}

static void each_goes_through_its_own_builder(void)
{
    struct efa_wr hinted = request(IBV_WR_SEND, LOUD, 1);

    goes(request(IBV_WR_SEND, LOUD, 1), SEND, SGE);
    goes(request(IBV_WR_SEND, LOUD, 2), SEND, SGE_LIST);
    goes(request(IBV_WR_SEND, LOUD, 0), SEND, SGE_LIST);
    goes(request(IBV_WR_SEND_WITH_IMM, LOUD, 1), SEND_IMM, SGE);
    CHECK(seen.imm == 0x01020304);
    goes(request(IBV_WR_RDMA_READ, LOUD, 1), READ, SGE);
    CHECK(seen.remote_addr == 0x1234 && seen.rkey == 5);
    goes(request(IBV_WR_RDMA_WRITE, LOUD, 1), WRITE, SGE);
    goes(request(IBV_WR_RDMA_WRITE_WITH_IMM, LOUD, 1), WRITE_IMM, SGE);
    CHECK(seen.imm == 0x01020304 && seen.remote_addr == 0x1234 && seen.rkey == 5);
    goes(request(IBV_WR_SEND, LOUD | IBV_SEND_INLINE, 1), SEND, INLINE);
    CHECK(seen.inlined == 8 && seen.flags & IBV_SEND_INLINE);
    goes(request(IBV_WR_SEND, LOUD | IBV_SEND_INLINE, 2), SEND, INLINE_LIST);
    CHECK(seen.inlined == 16);
    hinted.hints = 1;
    goes(hinted, SEND, SGE);
    CHECK(seen.hints == 1 && position(HINTS) > 1);
}

static void a_batch_is_one_session(void)
{
    struct efa_wr wrs[500];
    int starts = 0, completes = 0, builders = 0;

    for (int i = 0; i < 500; i++)
        wrs[i] = request((uint32_t)i % 5, LOUD, 1);
    memset(&seen, 0, sizeof seen);
    seen.err = ENOMEM;
    CHECK(efa_wr_submit(&qp, NULL, wrs, 500) == ENOMEM);
    for (int i = 0; i < seen.count; i++) {
        starts += seen.steps[i] == START;
        completes += seen.steps[i] == COMPLETE;
        builders += seen.steps[i] >= SEND && seen.steps[i] <= WRITE_IMM;
    }
    CHECK(starts == 1 && completes == 1 && builders == 500 && position(ABORT) < 0);
    CHECK(seen.steps[0] == START && seen.steps[seen.count - 1] == COMPLETE);
}

int main(void)
{
    requests_are_checked();
    lengths_are_checked();
    each_goes_through_its_own_builder();
    a_batch_is_one_session();
    return 0;
}
