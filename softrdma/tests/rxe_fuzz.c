/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: garbage in the queues, in the doorbell and in the ioctl gives errnos and error completions;
 * nothing crashes, nothing hangs, and nothing is written outside registered memory.
 *
 * fuzz [SECONDS [SEED]]. Valid objects are made with libibverbs; then its rings (found in /proc/self/maps)
 * are overwritten at random, partly with requests that are almost right, doorbells are rung, and ioctls made
 * of random attributes are issued. Memory beside the registered buffers holds a pattern that must not change.
 */
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/rdma_user_rxe.h>
#include <sys/ioctl.h>

#include "pair.h"

#define NPAIRS 3
#define BUF 16384
#define MAX_RINGS 64

static uint64_t seed;
static uint8_t *land; /* guard | registered | guard | registered ... */
static uint8_t scratch[1 << 17] __attribute__((aligned(64)));
static struct ring {
    uint8_t *at;
    size_t size;
} rings[MAX_RINGS];
static int nrings;
static struct end ends[NPAIRS * 2];
static struct ibv_context *ctx[2];
static struct ibv_ah *ah;
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
    for (int i = 0; i <= NPAIRS * 2; i++) {
        const uint8_t *guard = land + (size_t)i * 2 * BUF;

        for (size_t k = 0; k < BUF; k++)
            CHECK(guard[k] == pattern(k));
    }
}

static void find_rings(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long lo, hi, offset;

    nrings = 0;
    while (f && fgets(line, sizeof(line), f)) {
        /* the mapping that begins with the file is the host's own */
        if (strstr(line, "memfd:softrdma") && sscanf(line, "%lx-%lx rw-s %lx", &lo, &hi, &offset) == 3 &&
            offset && nrings < MAX_RINGS)
            rings[nrings++] = (struct ring){(uint8_t *)lo, hi - lo};
    }
    fclose(f);
}

/* One of the numbers that mean something somewhere, or any. */
static uint64_t word(void)
{
    struct end *e = &ends[rnd() % (NPAIRS * 2)];

    switch (rnd() % 16) {
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
        return rnd() % 32;
    case 6:
        return rnd() % 70000;
    case 7:
        return e->qp->qp_num;
    case 8:
        return UINT64_C(1) << rnd() % 64;
    case 9:
        return e->mr->lkey ^ 1u << rnd() % 32;
    case 10:
        return (uintptr_t)e->buf - rnd() % 64;
    case 11:
        return (uintptr_t)e->buf + BUF - rnd() % 64;
    case 12:
        return e->qp->handle;
    case 13:
        return e->cq->handle;
    default:
        return rnd() % 8;
    }
}

/* The same for an ioctl, which may write to any address that it is given. */
static uint64_t ioctl_word(void)
{
    uint64_t w = word(), lo = (uintptr_t)land, size = (uint64_t)(NPAIRS * 4 + 1) * BUF;

    return w + 64 >= lo && w < lo + size ? (uintptr_t)scratch + w % 65536 : w;
}

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
    counts[0]++;
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
    if (write(e->ctx->cmd_fd, one_in(64) ? (void *)(uintptr_t)ioctl_word() : &d, n) < 0)
        counts[3]++;
    counts[1]++;
}

/* Memory is registered only where that is allowed: the buffers, or nowhere. */
static void make_reg_mr(uint64_t *in)
{
    struct ib_uverbs_reg_mr *r = (void *)in;

    r->start =
        one_in(2) ? rnd() | UINT64_C(1) << 62 : (uintptr_t)buffer((int)(rnd() % (NPAIRS * 2))) + rnd() % BUF;
    r->length = one_in(2) ? rnd() : rnd() % 64;
    if (r->start < UINT64_C(1) << 62 && r->length > 64)
        r->length = UINT64_MAX - rnd() % 4096;
    r->hca_va = one_in(2) ? word() : r->start;
    r->pd_handle = (uint32_t)word();
    r->access_flags = (uint32_t)(one_in(2) ? rnd() % 1024 : word());
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
    c.h.object_id = (uint16_t)(one_in(40) ? rnd() : rnd() % 17);
    c.h.method_id = (uint16_t)(one_in(40) ? rnd() : rnd() % 5);
    c.h.driver_id = one_in(40) ? (uint32_t)rnd() : 14;
    c.h.num_attrs = (uint16_t)n;
    c.h.length = (uint16_t)(sizeof(c.h) + n * sizeof(c.a[0]) + (one_in(40) ? rnd() : 0));
    for (unsigned i = 0; i < n; i++) {
        c.a[i].attr_id = (uint16_t)(one_in(8) ? 0x1000 + rnd() % 2 : one_in(8) ? rnd() % 16 : i);
        c.a[i].len = (uint16_t)(one_in(4) ? rnd() % 300 : (uint64_t[]){0, 4, 8, 0, 8, 20, 32}[rnd() % 7]);
        c.a[i].flags = (uint16_t)(one_in(4) ? rnd() % 4 : 1);
        c.a[i].data =
            c.a[i].len > 8 ? (one_in(8) ? rnd() : (uintptr_t)scratch + rnd() % 65536) : ioctl_word();
    }
    if (c.h.object_id == UVERBS_OBJECT_DEVICE &&
        one_in(2)) { /* a well-formed INVOKE_WRITE of a random command */
        uint32_t command = one_in(16) ? 0x80000001 : (uint32_t)rnd() % 40;

        c.h.method_id = UVERBS_METHOD_INVOKE_WRITE;
        c.h.num_attrs = 5;
        c.h.length = sizeof(c.h) + 5 * sizeof(c.a[0]);
        for (size_t i = 0; i < 20; i++)
            in[i] = ioctl_word() | (one_in(2) ? word() << 32 : 0);
        if (command == IB_USER_VERBS_CMD_REG_MR)
            make_reg_mr(in);
        c.a[0] = (struct ib_uverbs_attr){UVERBS_ATTR_CORE_IN, 160, 1, {.reserved = 0}, {(uintptr_t)in}};
        c.a[1] = (struct ib_uverbs_attr){UVERBS_ATTR_CORE_OUT, 320, 1, {.reserved = 0}, {(uintptr_t)scratch}};
        c.a[2] = (struct ib_uverbs_attr){UVERBS_ATTR_WRITE_CMD, 8, 1, {.reserved = 0}, {command}};
        c.a[3] = (struct ib_uverbs_attr){
            UVERBS_ATTR_UHW_IN, (uint16_t)(one_in(2) ? 0 : 16), 1, {.reserved = 0}, {(uintptr_t)scratch}};
        c.a[4] = (struct ib_uverbs_attr){UVERBS_ATTR_UHW_OUT,
                                         (uint16_t)(one_in(4) ? rnd() % 64 : 32),
                                         1,
                                         {.reserved = 0},
                                         {(uintptr_t)scratch + 1024}};
        if (command == IB_USER_VERBS_CMD_MODIFY_SRQ)
            *(uint64_t *)scratch = one_in(2) ? rnd() : (uintptr_t)scratch + 4096;
    }
    if (ioctl(ctx[rnd() % 2]->cmd_fd, RDMA_VERBS_IOCTL, one_in(200) ? (void *)(uintptr_t)rnd() : &c) < 0)
        counts[3]++;
    counts[2]++;
}

static void setup(void)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1}};
    static const enum ibv_qp_type types[NPAIRS] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

    for (int i = 0; i < 2; i++)
        ctx[i] = open_device(i);
    for (int i = 0; i < NPAIRS * 2; i++) {
        struct end *e = &ends[i];

        *e = end_make(ctx[i % 2], types[i / 2], 4096);
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
    find_rings();
    CHECK(nrings > 0);
}

/* What garbage has left cannot be taken down object by object; closing the descriptors is what the kernel
 * would do it all with. Descriptors that random calls made go too. */
static void teardown(void)
{
    for (int i = 0; i < 2; i++) {
        close(ctx[i]->async_fd);
        close(ctx[i]->cmd_fd);
    }
    for (int fd = 3; fd < 900; fd++)
        close(fd);
    for (int i = 0; i < nrings; i++)
        munmap(rings[i].at, rings[i].size);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3, end;
    uint64_t first =
        argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u ^ (uint64_t)getpid();

    printf("seed %#lx\n", (unsigned long)first);
    fflush(stdout);
    seed = first | 1;
    land = mmap(NULL, (size_t)(NPAIRS * 4 + 1) * BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0);
    CHECK(land != MAP_FAILED);
    for (int i = 0; i <= NPAIRS * 2; i++) {
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
            else
                ring_doorbell();
        }
        check_land();
        teardown();
    }
    printf("%lu ring writes, %lu doorbells, %lu ioctls, %lu refused\n", counts[0], counts[1], counts[2],
           counts[3]);
    return PASS;
}
