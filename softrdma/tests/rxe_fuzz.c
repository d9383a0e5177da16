/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: garbage in the queues of the rxe device, in the doorbell and in the ioctls gives errnos and error
 * completions; nothing crashes, nothing hangs, and nothing is written outside registered memory.
 *
 * rxe_fuzz [SECONDS [SEED]]. Objects are made with libibverbs; then its rings are overwritten at random, partly with
 * requests that are almost right, doorbells are rung, and ioctls made of random attributes are issued. */
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

#include "garbage.h"

#define NPAIRS 3
#define DRIVER_ID_RXE 14

static struct end ends[NPAIRS * 2];
static struct ibv_ah *ah;

static uint64_t word(void)
{
    struct end *e = &ends[rnd() % (NPAIRS * 2)];

    return word_about(e->mr, e->qp, e->cq, e->buf);
}

static const struct fuzzer rxe;

static struct rxe_queue_buf *ring_of(const struct ring *r)
{
    return (struct rxe_queue_buf *)r->at;
}

/* A request that is right but for what chance changes. */
static void almost_right(struct ring *r)
{
    struct rxe_queue_buf *q = ring_of(r);
    struct end *e = &ends[rnd() % (NPAIRS * 2)], *o = &ends[rnd() % (NPAIRS * 2)];
    size_t log2 = q->log2_elem_size & 15, slots = (r->size - sizeof(*q)) >> log2,
           i = slots ? rnd() % slots : 0;
    struct rxe_send_wqe *w = (void *)(q->data + (i << log2));

    if (!slots || (1u << log2) < sizeof(*w) + 16)
        return;
    memset(w, 0, sizeof(*w));
    w->wr.opcode = rnd() % 18;
    w->wr.send_flags = rnd() % 16;
    w->wr.wr.rdma.remote_addr = (uintptr_t)o->buf + rnd() % BUF;
    w->wr.wr.rdma.rkey = o->mr->rkey;
    if (w->wr.opcode == 5 || w->wr.opcode == 6)
        w->wr.wr.atomic.rkey = o->mr->rkey;
    if (one_in(4)) {
        w->wr.wr.ud.remote_qpn = o->qp->qp_num;
        w->wr.wr.ud.remote_qkey = 0x1234;
        w->wr.wr.ud.ah_num = (uint32_t)(rnd() % 3);
    }
    w->dma.length = (uint32_t)(rnd() % BUF);
    w->dma.num_sge = 1;
    w->dma.sge[0].addr = (uintptr_t)e->buf + rnd() % BUF;
    w->dma.sge[0].length = one_in(3) ? (uint32_t)rnd() % BUF : w->dma.length;
    w->dma.sge[0].lkey = e->mr->lkey;
    for (int k = (int)(rnd() % 3); k > 0; k--)
        ((uint32_t *)w)[rnd() % (sizeof(*w) / 4)] = (uint32_t)word();
}

static void spoil_ring(void)
{
    struct ring *r = &rings[rnd() % (unsigned)nrings];

    switch (rnd() % 4) {
    case 0:
        for (int k = 0; k < 8; k++)
            *(uint64_t *)(r->at + (rnd() % (r->size / 8)) * 8) = word();
        break;
    case 1:
        ring_of(r)->producer_index = (uint32_t)word();
        break;
    case 2:
        ring_of(r)->consumer_index = (uint32_t)word();
        break;
    default:
        almost_right(r);
        ring_of(r)->producer_index++;
    }
    counts[RING_WRITES]++;
}

static void ring_doorbell(void)
{
    struct {
        struct ib_uverbs_cmd_hdr h;
        struct ib_uverbs_post_send s;
    } d = {.h = {.command = IB_USER_VERBS_CMD_POST_SEND, .in_words = 8, .out_words = 1}};
    struct end *e = &ends[rnd() % (NPAIRS * 2)];
    size_t n = one_in(16) ? rnd() % sizeof(d) : sizeof(d);

    d.s.qp_handle = one_in(16) ? (uint32_t)word() : e->qp->handle;
    if (one_in(32))
        d.h.command = (uint32_t)rnd();
    if (write(e->ctx->cmd_fd, one_in(64) ? (void *)(uintptr_t)address_word(&rxe) : &d, n) < 0)
        counts[REFUSED]++;
    counts[DOORBELLS]++;
}

static void setup(void)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1}};
    static const enum ibv_qp_type types[NPAIRS] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

    for (int i = 0; i < 2; i++)
        contexts[i] = open_device(i);
    for (int i = 0; i < NPAIRS * 2; i++) {
        struct end *e = &ends[i];

        *e = end_make(contexts[i % 2], types[i / 2], 4096);
        CHECK(ibv_dereg_mr(e->mr) == 0);
        munmap(e->buf, 4096);
        e->buf = buffer(i);
        CHECK(e->mr = ibv_reg_mr(e->pd, e->buf, BUF, ALL_ACCESS));
        e->self.addr = (uintptr_t)e->buf;
        e->self.rkey = e->mr->rkey;
    }
    for (int i = 0; i < NPAIRS * 2; i++) {
        end_connect(&ends[i], &ends[i ^ 1].self);
        CHECK(post_recv(&ends[i], 1, 0, 4096) == 0);
    }
    attr.grh.dgid = ends[1].self.gid;
    CHECK(ah = ibv_create_ah(ends[4].pd, &attr));
}

static const struct fuzzer rxe = {
    .buffers = NPAIRS * 2,
    .driver_id = DRIVER_ID_RXE,
    .object_types = 17,
    .own_attributes = 2,
    .rings = "rw-s",
    .setup = setup,
    .spoil_ring = spoil_ring,
    .ring_doorbell = ring_doorbell,
    .word = word,
};

int main(int argc, char **argv)
{
    return fuzz(&rxe, argc, argv);
}
