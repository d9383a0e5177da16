/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: every send and receive request goes into the C structure byte by byte as it should, for every opcode
 * and type of queue pair, over memory that held something else; what breaks a rule of its queue is named and leaves
 * the structure alone.
 */
#include "wr.h"

#include "check.h"

enum { OPCODES = IBV_WR_ATOMIC_FETCH_AND_ADD + 1, ROUNDS = 2000 };

static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
static struct ibv_sge entries[64];
static struct ibv_ah handle;

static struct wr_send random_fields(uint64_t *seed, uint32_t opcode)
{
    return (struct wr_send){
        .wr_id = next_random(seed), .remote_addr = next_random(seed), .compare_add = next_random(seed),
        .swap = next_random(seed), .opcode = opcode, .send_flags = (uint32_t)next_random(seed) & ~IBV_SEND_INLINE,
        .rkey = (uint32_t)next_random(seed), .imm_data = (uint32_t)next_random(seed),
        .remote_qpn = (uint32_t)next_random(seed), .remote_qkey = (uint32_t)next_random(seed),
    };
}

static uint32_t network(uint32_t number)
{
    uint8_t bytes[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};
    uint32_t word;

    memcpy(&word, bytes, 4);
    return word;
}

/* The structure as ibv_post_send(3) describes it. */
static void expected_send(struct ibv_send_wr *wr, const struct wr_send *f, bool ud, uint32_t num_sge)
{
    memset(wr, 0, sizeof *wr);
    wr->wr_id = f->wr_id;
    wr->sg_list = entries;
    wr->num_sge = (int)num_sge;
    wr->opcode = (enum ibv_wr_opcode)f->opcode;
    wr->send_flags = f->send_flags;
    if (f->opcode == IBV_WR_SEND_WITH_IMM || f->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        wr->imm_data = network(f->imm_data);
    if (ud) {
        wr->wr.ud.ah = &handle;
        wr->wr.ud.remote_qpn = f->remote_qpn;
        wr->wr.ud.remote_qkey = f->remote_qkey;
    } else if (f->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || f->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->wr.atomic.remote_addr = f->remote_addr;
        wr->wr.atomic.compare_add = f->compare_add;
        wr->wr.atomic.swap = f->swap;
        wr->wr.atomic.rkey = f->rkey;
    } else if (f->opcode != IBV_WR_SEND && f->opcode != IBV_WR_SEND_WITH_IMM) {
        wr->wr.rdma.remote_addr = f->remote_addr;
        wr->wr.rdma.rkey = f->rkey;
    }
}

static void sends_are_filled_whole(enum ibv_qp_type type, uint32_t opcode)
{
    const struct wr_limits limits = {.qp_type = type, .max_send_sge = 64, .max_inline_data = 0};
    bool ud = type == IBV_QPT_UD;
    uint64_t seed = opcode * 8 + type;

    for (int i = 0; i < ROUNDS; i++) {
        struct wr_send fields = random_fields(&seed, opcode);
        uint32_t num_sge = (uint32_t)(next_random(&seed) % 65);
        struct ibv_send_wr wr, expected;

        memset(&wr, 0xa5, sizeof wr);
        expected_send(&expected, &fields, ud, num_sge);
        CHECK(wr_fill_send(&wr, &fields, &limits, entries, num_sge, ud ? &handle : NULL) == WR_OK);
        CHECK(memcmp(&wr, &expected, sizeof wr) == 0);
    }
}

static void refused(enum wr_fault fault, const struct wr_send *fields, const struct wr_limits *limits,
                    uint32_t num_sge, struct ibv_ah *ah)
{
    struct ibv_send_wr wr, before;

    memset(&wr, 0x5a, sizeof wr);
    before = wr;
    CHECK(wr_fill_send(&wr, fields, limits, entries, num_sge, ah) == fault);
    CHECK(memcmp(&wr, &before, sizeof wr) == 0);
}

static void unknown_opcodes_are_refused(void)
{
    static const uint32_t opcodes[] = {IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV, IBV_WR_TSO,
                                       IBV_WR_DRIVER1, IBV_WR_ATOMIC_WRITE, 255, 0x80000000u, UINT32_MAX};

    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++)
        for (int t = 0; t < 3; t++) {
            struct wr_limits limits = {.qp_type = types[t], .max_send_sge = 64, .max_inline_data = 1000};
            struct wr_send fields = {.opcode = opcodes[i]};

            refused(WR_BAD_OPCODE, &fields, &limits, 0, NULL);
            refused(WR_BAD_OPCODE, &fields, &limits, 0, &handle);
        }
}

static void ud_needs_an_address_and_only_sends(void)
{
    struct wr_limits limits = {.qp_type = IBV_QPT_UD, .max_send_sge = 4};

    for (uint32_t opcode = 0; opcode < OPCODES; opcode++) {
        struct wr_send fields = {.opcode = opcode};

        if (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM)
            refused(WR_NEEDS_AH, &fields, &limits, 1, NULL);
        else
            refused(WR_NOT_FOR_UD, &fields, &limits, 1, &handle);
    }
}

static void connected_queues_take_no_address(void)
{
    for (int t = 0; t < 2; t++)
        for (uint32_t opcode = 0; opcode < OPCODES; opcode++) {
            struct wr_limits limits = {.qp_type = types[t], .max_send_sge = 4};
            struct wr_send fields = {.opcode = opcode};

            refused(WR_AH_NOT_FOR_QP, &fields, &limits, 1, &handle);
        }
}

static void entries_are_counted(void)
{
    struct wr_limits limits = {.qp_type = IBV_QPT_RC, .max_send_sge = 3};
    struct wr_send fields = {.opcode = IBV_WR_SEND};
    struct ibv_send_wr wr;

    CHECK(wr_fill_send(&wr, &fields, &limits, entries, 3, NULL) == WR_OK);
    refused(WR_TOO_MANY_SGE, &fields, &limits, 4, NULL);
    refused(WR_TOO_MANY_SGE, &fields, &limits, UINT32_MAX, NULL);
    limits.max_send_sge = 0;
    CHECK(wr_fill_send(&wr, &fields, &limits, NULL, 0, NULL) == WR_OK);
    CHECK(wr.sg_list == NULL || wr.num_sge == 0);
    refused(WR_TOO_MANY_SGE, &fields, &limits, 1, NULL);
}

static void inline_bytes_are_summed_without_wrapping(void)
{
    struct wr_limits limits = {.qp_type = IBV_QPT_RC, .max_send_sge = 64, .max_inline_data = 100};
    struct wr_send fields = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
    struct ibv_send_wr wr;

    entries[0].length = 60;
    entries[1].length = 40;
    CHECK(wr_fill_send(&wr, &fields, &limits, entries, 2, NULL) == WR_OK);
    entries[1].length = 41;
    refused(WR_INLINE_TOO_LONG, &fields, &limits, 2, NULL);
    /* 2**32 + 50 in all: 50 in 32 bits. */
    entries[0].length = UINT32_MAX;
    entries[1].length = 51;
    refused(WR_INLINE_TOO_LONG, &fields, &limits, 2, NULL);
    entries[0].length = entries[1].length = 0;
}

static void inline_data_needs_data(void)
{
    struct wr_limits limits = {.qp_type = IBV_QPT_RC, .max_send_sge = 4, .max_inline_data = 100};

    for (uint32_t opcode = IBV_WR_RDMA_READ; opcode < OPCODES; opcode++) {
        struct wr_send fields = {.opcode = opcode, .send_flags = IBV_SEND_INLINE};

        refused(WR_INLINE_OPCODE, &fields, &limits, 1, NULL);
    }
}

static void receives_are_filled_whole(void)
{
    uint64_t seed = 99;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t wr_id = next_random(&seed);
        uint32_t num_sge = (uint32_t)(next_random(&seed) % 5);
        struct ibv_recv_wr wr, before;

        memset(&wr, 0xa5, sizeof wr);
        before = wr;
        CHECK(wr_fill_recv(&wr, wr_id, 4, entries, num_sge) == WR_OK);
        CHECK(wr.wr_id == wr_id && wr.next == NULL && wr.sg_list == entries && wr.num_sge == (int)num_sge);
        wr = before;
        CHECK(wr_fill_recv(&wr, wr_id, num_sge, entries, num_sge + 1) == WR_TOO_MANY_SGE);
        CHECK(memcmp(&wr, &before, sizeof wr) == 0);
    }
}

static void only_two_opcodes_carry_immediate_data(void)
{
    for (uint32_t opcode = 0; opcode < 300; opcode++)
        CHECK(wr_has_imm(opcode) == (opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_IMM));
}

int main(void)
{
    for (int t = 0; t < 3; t++)
        for (uint32_t opcode = 0; opcode < OPCODES; opcode++)
            if (types[t] != IBV_QPT_UD || opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM)
                sends_are_filled_whole(types[t], opcode);
    unknown_opcodes_are_refused();
    ud_needs_an_address_and_only_sends();
    connected_queues_take_no_address();
    entries_are_counted();
    inline_bytes_are_summed_without_wrapping();
    inline_data_needs_data();
    receives_are_filled_whole();
    only_two_opcodes_carry_immediate_data();
    return 0;
}
