/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: garbage in the EFA device's rings, at its doorbells and in the ioctls gives errnos and error
 * completions; nothing crashes, nothing hangs, and nothing is written outside registered memory.
 *
 * efa_fuzz [SECONDS [SEED]]. Objects are made with libefa; then its rings, found in /proc/self/maps, are overwritten
 * with random words and with descriptors that are almost right, doorbells are rung, states changed, and ioctls made of
 * random attributes issued. libefa polls none of these queues: it believes the device. */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include "srd.h"

#define NENDS 4
#define BUF 16384
#define DEPTH 64
#define MAX_RINGS 64
#define DRIVER_ID_EFA 17
#define CQ_DOORBELLS 32768u /* pages of queue pairs come before those of completion queues */

static uint64_t seed;
static uint8_t *land; /* guard | registered | guard | registered ... */
static uint8_t scratch[1 << 22] __attribute__((aligned(4096)));
static struct ring {
    uint8_t *at;
    size_t size;
} rings[MAX_RINGS];
static int nrings;
static uint8_t *doorbells;
static uint16_t rung[NENDS];
static uint32_t first_page; /* of the queue pairs of this round, unless a random call made some: they are handed out in turn */
static uint16_t ahn[NENDS];
static struct ibv_context *ctx;
static struct srd ends[NENDS];
static struct ibv_ah *ah[NENDS];
static unsigned long counts[4];

static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * UINT64_C(0x2545f4914f6cdd1d);
}

static bool one_in(unsigned n)
{
    return rnd() % n == 0;
}

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + 7);
}

static uint8_t *buffer(int i)
{
    return land + BUF + (size_t)i * 2 * BUF;
}

static void check_land(void)
{
    for (int i = 0; i <= NENDS; i++) {
        const uint8_t *guard = land + (size_t)i * 2 * BUF;

        for (size_t k = 0; k < BUF; k++)
            CHECK(guard[k] == pattern(k));
    }
}

/* The provider may write to its rings, and only read its completion queues. */
static void find_rings(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long lo, hi, offset;

    nrings = 0;
    while (f && fgets(line, sizeof(line), f)) {
        if (strstr(line, "memfd:softrdma-doorbells") && sscanf(line, "%lx-", &lo) == 1)
            doorbells = (uint8_t *)lo;
        else if (strstr(line, "memfd:softrdma") && sscanf(line, "%lx-%lx -w-s %lx", &lo, &hi, &offset) == 3 && offset &&
                 nrings < MAX_RINGS)
            rings[nrings++] = (struct ring){(uint8_t *)lo, hi - lo};
    }
    fclose(f);
    CHECK(nrings > 0 && doorbells);
}

/* One of the numbers that mean something somewhere, or any. */
static uint64_t word(void)
{
    struct srd *e = &ends[rnd() % NENDS];

    switch (rnd() % 12) {
    case 0:
        return rnd();
    case 1:
        return 0;
    case 2:
        return UINT64_MAX >> rnd() % 64;
    case 3:
        return e->mr->lkey;
    case 4:
        return (uintptr_t)e->buf + rnd() % BUF;
    case 5:
        return (uintptr_t)e->buf + BUF - rnd() % 64;
    case 6:
        return rnd() % 70000;
    case 7:
        return e->qp->qp_num;
    case 8:
        return UINT64_C(1) << rnd() % 64;
    case 9:
        return e->mr->lkey ^ 1u << rnd() % 32;
    case 10:
        return e->cq->handle;
    default:
        return rnd() % 8;
    }
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
    counts[0]++;
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
    counts[1]++;
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

/* An address that may be written to, or none. */
static uint64_t ioctl_word(void)
{
    uint64_t w = word();

    return w > 1 << 20 ? (uintptr_t)scratch + w % 65536 : w;
}

static void random_ioctl(void)
{
    static uint64_t in[64];
    struct {
        struct { /* struct ib_uverbs_ioctl_hdr without its attributes */
            uint16_t length, object_id, method_id, num_attrs;
            uint64_t reserved1;
            uint32_t driver_id, reserved2;
        } h;
        struct ib_uverbs_attr a[24];
    } c;
    unsigned n = (unsigned)(rnd() % 16);

    memset(&c, 0, sizeof(c));
    c.h.object_id = (uint16_t)(one_in(40) ? rnd() : rnd() % 20);
    c.h.method_id = (uint16_t)(one_in(40) ? rnd() : one_in(10) ? 0x1000 : rnd() % 5);
    c.h.driver_id = one_in(40) ? (uint32_t)rnd() : DRIVER_ID_EFA;
    c.h.num_attrs = (uint16_t)n;
    for (unsigned i = 0; i < n; i++) {
        c.a[i].attr_id = (uint16_t)(one_in(8) ? 0x1000 + rnd() % 5 : one_in(8) ? rnd() % 16 : i);
        c.a[i].len = (uint16_t)(one_in(4) ? rnd() % 300 : (uint64_t[]){0, 4, 8, 0, 8, 20, 32}[rnd() % 7]);
        c.a[i].flags = (uint16_t)(one_in(4) ? rnd() % 4 : 1);
        c.a[i].data = c.a[i].len > 8 ? (one_in(8) ? rnd() : (uintptr_t)scratch + rnd() % 65536) : ioctl_word();
    }
    if (c.h.object_id == UVERBS_OBJECT_DEVICE && one_in(2)) { /* a well-formed INVOKE_WRITE of a random command */
        uint32_t command = one_in(16) ? 0x80000001 : (uint32_t)rnd() % 40;

        if (command == IB_USER_VERBS_CMD_REG_MR) /* memory is registered only where that is allowed */
            command = IB_USER_VERBS_CMD_CREATE_AH;
        c.h.method_id = UVERBS_METHOD_INVOKE_WRITE;
        c.h.num_attrs = 5;
        for (size_t i = 0; i < 20; i++)
            in[i] = ioctl_word() | (one_in(2) ? word() << 32 : 0);
        c.a[0] = (struct ib_uverbs_attr){UVERBS_ATTR_CORE_IN, 160, 1, {.reserved = 0}, {(uintptr_t)in}};
        c.a[1] = (struct ib_uverbs_attr){UVERBS_ATTR_CORE_OUT, 320, 1, {.reserved = 0}, {(uintptr_t)scratch}};
        c.a[2] = (struct ib_uverbs_attr){UVERBS_ATTR_WRITE_CMD, 8, 1, {.reserved = 0}, {command}};
        c.a[3] = (struct ib_uverbs_attr){UVERBS_ATTR_UHW_IN, (uint16_t)(one_in(2) ? 0 : 16), 1, {.reserved = 0},
                                         {(uintptr_t)scratch}};
        c.a[4] = (struct ib_uverbs_attr){UVERBS_ATTR_UHW_OUT, (uint16_t)(one_in(4) ? rnd() % 64 : 32), 1,
                                         {.reserved = 0}, {(uintptr_t)scratch + 1024}};
    }
    c.h.length = (uint16_t)(sizeof(c.h) + c.h.num_attrs * sizeof(c.a[0]) + (one_in(40) ? rnd() : 0));
    if (ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, one_in(200) ? (void *)(uintptr_t)rnd() : &c) < 0)
        counts[3]++;
    counts[2]++;
}

static void setup(void)
{
    static uint32_t made = 0x11; /* the first that is handed out */
    struct efadv_ah_attr number;

    ctx = efa_open(0);
    first_page = made;
    made = (made + NENDS) % CQ_DOORBELLS;
    for (int i = 0; i < NENDS; i++) {
        struct srd *e = &ends[i];

        *e = srd_make(ctx, i == 3 ? IBV_QPT_UD : IBV_QPT_DRIVER, 4096, DEPTH);
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
    find_rings();
}

/* What garbage has left cannot be taken down object by object; closing the descriptors is what the kernel would do it
 * all with. Descriptors that random calls made go too. */
static void teardown(void)
{
    close(ctx->async_fd);
    close(ctx->cmd_fd);
    for (int fd = 3; fd < 900; fd++)
        close(fd);
    for (int i = 0; i < nrings; i++)
        munmap(rings[i].at, rings[i].size);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3, end;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u ^ (uint64_t)getpid();

    printf("seed %#lx\n", (unsigned long)first);
    fflush(stdout);
    seed = first | 1;
    land = mmap(NULL, (size_t)(NENDS * 2 + 1) * BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(land != MAP_FAILED);
    for (int i = 0; i <= NENDS; i++) {
        for (size_t k = 0; k < BUF; k++)
            land[(size_t)i * 2 * BUF + k] = pattern(k);
    }
    end = now_s() + seconds;
    while (now_s() < end) {
        alarm(20); /* a hang is a failure */
        setup();
        for (int i = 0, n = (int)(rnd() % 3000); i < n; i++) {
            if (one_in(3))
                random_ioctl();
            else if (one_in(2))
                spoil_ring();
            else if (one_in(100))
                change_state();
            else
                ring_doorbell();
        }
        check_land();
        teardown();
    }
    printf("%lu ring writes, %lu doorbells, %lu ioctls, %lu refused\n", counts[0], counts[1], counts[2], counts[3]);
    return PASS;
}
