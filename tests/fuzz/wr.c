/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: any fields, on any queue, with any entries: a request is filled if no rule forbids it, and then it is what
 * ibv_post_send(3) describes, every byte of it; else a rule that it breaks is named, and the structure is left alone.
 */
#include "wr.h"

#include <stdbool.h>

#include "input.h"

enum { ENTRIES = 70 };

static struct ibv_sge entries[ENTRIES];
static struct ibv_ah handle;

static bool is_send(uint32_t opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

static bool is_write(uint32_t opcode)
{
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(uint32_t opcode)
{
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_known(uint32_t opcode)
{
    return is_send(opcode) || is_write(opcode) || is_atomic(opcode) || opcode == IBV_WR_RDMA_READ;
}

/* Each rule on its own, whatever the others say. */
static bool breaks(enum wr_fault rule, const struct wr_send *fields, const struct wr_limits *limits, uint32_t num_sge,
                   bool with_ah)
{
    bool ud = limits->qp_type == IBV_QPT_UD, is_inline = fields->send_flags & IBV_SEND_INLINE;
    unsigned __int128 bytes = 0;

    for (uint32_t i = 0; i < num_sge && i < ENTRIES; i++)
        bytes += entries[i].length;
    switch (rule) {
    case WR_BAD_OPCODE: return !is_known(fields->opcode);
    case WR_NOT_FOR_UD: return ud && !is_send(fields->opcode);
    case WR_NEEDS_AH: return ud && !with_ah;
    case WR_AH_NOT_FOR_QP: return !ud && with_ah;
    case WR_TOO_MANY_SGE: return num_sge > limits->max_send_sge;
    case WR_INLINE_TOO_LONG: return is_inline && bytes > limits->max_inline_data;
    case WR_INLINE_OPCODE: return is_inline && !is_send(fields->opcode) && !is_write(fields->opcode);
    default: return false;
    }
}

static void put_network(void *at, uint32_t number)
{
    uint8_t bytes[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};

    memcpy(at, bytes, sizeof bytes);
}

static struct ibv_send_wr described(const struct wr_send *f, bool ud, uint32_t num_sge)
{
    struct ibv_send_wr wr;

    memset(&wr, 0, sizeof wr);
    wr.wr_id = f->wr_id;
    wr.sg_list = entries;
    wr.num_sge = (int)num_sge;
    wr.opcode = (enum ibv_wr_opcode)f->opcode;
    wr.send_flags = f->send_flags;
    if (f->opcode == IBV_WR_SEND_WITH_IMM || f->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        put_network(&wr.imm_data, f->imm_data);
    if (ud) {
        wr.wr.ud.ah = &handle;
        wr.wr.ud.remote_qpn = f->remote_qpn;
        wr.wr.ud.remote_qkey = f->remote_qkey;
    } else if (is_atomic(f->opcode)) {
        wr.wr.atomic.remote_addr = f->remote_addr;
        wr.wr.atomic.compare_add = f->compare_add;
        wr.wr.atomic.swap = f->swap;
        wr.wr.atomic.rkey = f->rkey;
    } else if (!is_send(f->opcode)) {
        wr.wr.rdma.remote_addr = f->remote_addr;
        wr.wr.rdma.rkey = f->rkey;
    }
    return wr;
}

/* A small number mostly, now and then any. */
static uint32_t take_count(struct input *in)
{
    uint8_t byte = take8(in);

    return byte == 255 ? take32(in) : byte % (ENTRIES + 2);
}

static void take_entries(struct input *in)
{
    uint8_t style = take8(in);

    for (int i = 0; i < ENTRIES; i++) {
        entries[i].addr = (uint64_t)i << 12;
        entries[i].length = style & 1 ? (uint32_t)style * 3 : UINT32_MAX - style;
        entries[i].lkey = style;
    }
    for (int i = 0; i < (style >> 5); i++)
        entries[take8(in) % ENTRIES].length = take16(in);
}

static void check_send(struct input *in)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    uint8_t style = take8(in);
    bool with_ah = style & 1;
    uint32_t num_sge = take_count(in);
    struct wr_limits limits = {.qp_type = types[(style >> 1) % 3], .max_send_sge = take_count(in),
                               .max_inline_data = take16(in)};
    struct wr_send f = {.opcode = take8(in), .send_flags = take8(in), .rkey = take32(in), .imm_data = take32(in),
                        .remote_qpn = take32(in), .remote_qkey = take32(in), .wr_id = take64(in),
                        .remote_addr = take64(in), .compare_add = take64(in), .swap = take64(in)};
    struct ibv_send_wr wr, before;
    enum wr_fault fault;
    bool allowed = true;

    if (style & 64)
        f.opcode %= 8;
    if (style & 128)
        f.opcode |= take32(in);
    if (num_sge > ENTRIES && num_sge <= limits.max_send_sge) /* no caller names entries that it does not have */
        num_sge = ENTRIES;
    memset(&wr, style, sizeof wr);
    before = wr;

    fault = wr_fill_send(&wr, &f, &limits, entries, num_sge, with_ah ? &handle : NULL);
    for (enum wr_fault rule = WR_OK; rule <= WR_INLINE_OPCODE; rule++)
        allowed = allowed && !breaks(rule, &f, &limits, num_sge, with_ah);
    CHECK((fault == WR_OK) == allowed);
    if (fault == WR_OK) {
        struct ibv_send_wr expected = described(&f, limits.qp_type == IBV_QPT_UD, num_sge);
        CHECK(memcmp(&wr, &expected, sizeof wr) == 0);
    } else {
        CHECK(breaks(fault, &f, &limits, num_sge, with_ah));
        CHECK(memcmp(&wr, &before, sizeof wr) == 0);
    }
}

static void check_recv(struct input *in)
{
    uint64_t wr_id = take64(in);
    uint32_t num_sge = take_count(in), max_sge = take_count(in);
    struct ibv_recv_wr wr, before;

    memset(&wr, 0xa5, sizeof wr);
    before = wr;
    if (wr_fill_recv(&wr, wr_id, max_sge, entries, num_sge) == WR_OK) {
        CHECK(num_sge <= max_sge);
        CHECK(wr.wr_id == wr_id && !wr.next && wr.sg_list == entries && wr.num_sge == (int)num_sge);
    } else {
        CHECK(num_sge > max_sge);
        CHECK(memcmp(&wr, &before, sizeof wr) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    while (in.left) {
        take_entries(&in);
        check_send(&in);
        check_recv(&in);
    }
    return 0;
}
