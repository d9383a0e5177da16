/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: garbage in the EFA device's rings, at its doorbells and in the ioctls gives errnos and error
 * completions; nothing crashes, nothing hangs, and nothing is written outside registered memory.
 *
 * efa_fuzz [SECONDS [SEED]]. Objects are made with libefa; then its rings are overwritten
 * with random words and with descriptors that are almost right, doorbells are rung, states changed, and ioctls made of
 * random attributes issued. libefa polls none of these queues: it believes the device. */
#include "garbage.h"
#include "srd.h"

#define NENDS 4
#define DEPTH 64
#define DRIVER_ID_EFA 17
#define CQ_DOORBELLS 32768u /* pages of queue pairs come before those of completion queues */

static uint16_t rung[NENDS];
/* Of the queue pairs of this round, unless a random call made some: they are handed out in turn. */
static uint32_t first_page;
static uint16_t ahn[NENDS];
static struct srd ends[NENDS];
static struct ibv_ah *ah[NENDS];

static uint64_t word(void)
{
    struct srd *e = &ends[rnd() % NENDS];

    return word_about(e->mr, e->qp, e->cq, e->buf);
}

/* A send descriptor that is right but for what chance changes; its phase is a guess. */
static void almost_right(uint8_t *at)
{
    struct srd *e = &ends[rnd() % NENDS], *o = &ends[rnd() % NENDS];
    uint32_t w[16] = {0};
    uint64_t local = (uintptr_t)e->buf + rnd() % BUF, remote = (uintptr_t)o->buf + rnd() % BUF;
    uint32_t opcode = (uint32_t)rnd() % 4, length = (uint32_t)rnd() % BUF, k = opcode ? 12 : 8;

    if (one_in(2))
        o = e;
    w[0] = (uint32_t)(rnd() % DEPTH) | (opcode | 0x80u | (one_in(4) ? 0x10u : 0) | (one_in(8) ? 0x20u : 0)) << 16 |
           (0x1cu | (uint32_t)rnd() % 2) << 24;
    w[1] = o->qp->qp_num | (one_in(8) ? (uint32_t)rnd() % 64 : 1) << 16;
    w[3] = one_in(16) ? (uint32_t)rnd() : ahn[e - ends];
    w[4] = SRD_QKEY;
    w[8] = length;
    w[9] = o->mr->rkey;
    w[10] = (uint32_t)remote;
    w[11] = (uint32_t)(remote >> 32);
    w[k] = length;
    w[k + 1] = e->mr->lkey;
    w[k + 2] = (uint32_t)local;
    w[k + 3] = (uint32_t)(local >> 32);
    for (int n = one_in(2) ? (int)(rnd() % 3) : 0; n > 0; n--)
        w[rnd() % 16] = (uint32_t)word();
    for (int i = 0; i < 16; i++)
        ((volatile uint32_t *)at)[i] = w[i];
}

/* The same for a receive. */
static void almost_receive(uint8_t *at)
{
    struct srd *e = &ends[rnd() % NENDS];
    volatile uint32_t *w = (volatile uint32_t *)at;
    uint64_t addr = (uintptr_t)e->buf + rnd() % BUF;

    w[0] = (uint32_t)addr;
    w[1] = (uint32_t)(addr >> 32);
    w[2] = (uint32_t)(rnd() % DEPTH) | (uint32_t)rnd() << 16;
    w[3] = (one_in(8) ? (uint32_t)word() : e->mr->lkey) | (one_in(4) ? 0 : 3u << 30);
}

static void spoil_ring(void)
{
    struct ring *r = &rings[rnd() % (unsigned)nrings];
    size_t at = rnd() % (r->size - 128);

    switch (rnd() % 4) {
    case 0:
        for (int k = 0; k < 8; k++)
            *(volatile uint64_t *)(r->at + rnd() % (r->size / 8) * 8) = word();
        break;
    case 1:
        almost_receive(r->at + at / 16 * 16);
        break;
    default:
        for (int k = 0; k < 16; k++)
            almost_right(r->at + (at + (size_t)k * 64) % (r->size - 128) / 64 * 64);
    }
    counts[RING_WRITES]++;
}

static void ring_doorbell(void)
{
    uint32_t i = (uint32_t)rnd() % NENDS, page = one_in(64) ? (uint32_t)rnd() % CQ_DOORBELLS : first_page + i;

    if (one_in(4)) {
        page = CQ_DOORBELLS + (uint32_t)rnd() % 64;
        *(volatile uint32_t *)(doorbells + (size_t)page * 4096 + 64) =
            one_in(2) ? (uint32_t)word() : 1u << 31 | (uint32_t)rnd() % 4 << 29;
    } else {
        rung[i] = (uint16_t)(rung[i] + rnd() % 4);
        *(volatile uint32_t *)(doorbells + (size_t)page * 4096 + 32) = one_in(64) ? (uint32_t)word() : rung[i];
    }
    counts[DOORBELLS]++;
}

static void change_state(void)
{
    struct srd *e = &ends[rnd() % NENDS];
    struct ibv_qp_attr a = {.qp_state = rnd() % 7, .port_num = 1, .qkey = SRD_QKEY, .rnr_retry = rnd() % 9};
    static const int masks[] = {IBV_QP_STATE, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
                                IBV_QP_STATE | IBV_QP_SQ_PSN, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY};

    ibv_modify_qp(e->qp, &a, one_in(8) ? (int)rnd() : masks[rnd() % 4]);
    if (one_in(2)) { /* into use again */
        a.qp_state = IBV_QPS_RESET;
        if (ibv_modify_qp(e->qp, &a, IBV_QP_STATE) == 0)
            srd_start(e, -1);
        rung[e - ends] = 0;
    }
}

static void doorbell_or_state(void)
{
    if (one_in(100))
        change_state();
    else
        ring_doorbell();
}

static void setup(void)
{
    static uint32_t made = 0x11; /* the first that is handed out */
    struct efadv_ah_attr number;

    contexts[0] = efa_open(0);
    first_page = made;
    made = (made + NENDS) % CQ_DOORBELLS;
    for (int i = 0; i < NENDS; i++) {
        struct srd *e = &ends[i];

        *e = srd_make(contexts[0], i == 3 ? IBV_QPT_UD : IBV_QPT_DRIVER, 4096, DEPTH);
        CHECK(ibv_dereg_mr(e->mr) == 0);
        free(e->buf);
        e->buf = buffer(i);
        CHECK(e->mr = ibv_reg_mr(e->pd, e->buf, BUF,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE));
        srd_start(e, i == 3 ? -1 : (int)(rnd() % 8));
        ah[i] = srd_ah(e, &e->self.gid);
        CHECK(efadv_query_ah(ah[i], &number, sizeof(number)) == 0);
        ahn[i] = number.ahn;
        for (int k = 0; k < 8; k++)
            srd_recv(e, 0, rnd() % 4096, 4096);
    }
    memset(rung, 0, sizeof(rung));
}

static const struct fuzzer efa = {
    .buffers = NENDS,
    .driver_id = DRIVER_ID_EFA,
    .object_types = 20,
    .own_attributes = 5,
    .rings = "-w-s", /* the provider may write to its rings, and only read its completion queues */
    .setup = setup,
    .spoil_ring = spoil_ring,
    .ring_doorbell = doorbell_or_state,
    .word = word,
};

int main(int argc, char **argv)
{
    return fuzz(&efa, argc, argv);
}
