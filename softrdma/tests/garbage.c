/* SPDX-License-Identifier: BSD-3-Clause */
/* Garbage. See garbage.h. */
#include "garbage.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

static uint64_t seed;
static uint8_t *land; /* guard | registered | guard | registered ... */
static uint8_t scratch[1 << 22] __attribute__((aligned(4096)));

struct ring rings[MAX_RINGS];
int nrings;
uint8_t *doorbells;
unsigned long counts[4];
struct ibv_context *contexts[MAX_CONTEXTS];

uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * UINT64_C(0x2545f4914f6cdd1d);
}

bool one_in(unsigned n)
{
    return rnd() % n == 0;
}

uint64_t word_about(const struct ibv_mr *mr, const struct ibv_qp *qp, const struct ibv_cq *cq, const uint8_t *buf)
{
    switch (rnd() % 16) {
    case 0:
        return rnd();
    case 1:
        return 0;
    case 2:
        return UINT64_MAX >> rnd() % 64;
    case 3:
        return mr->lkey;
    case 4:
        return (uintptr_t)buf + rnd() % BUF;
    case 5:
        return rnd() % 32;
    case 6:
        return rnd() % 70000;
    case 7:
        return qp->qp_num;
    case 8:
        return UINT64_C(1) << rnd() % 64;
    case 9:
        return mr->lkey ^ 1u << rnd() % 32;
    case 10:
        return (uintptr_t)buf - rnd() % 64;
    case 11:
        return (uintptr_t)buf + BUF - rnd() % 64;
    case 12:
        return qp->handle;
    case 13:
        return cq->handle;
    default:
        return rnd() % 8;
    }
}

/* ---- memory --------------------------------------------------------------------------------------------------------- */

uint8_t *buffer(int i)
{
    return land + BUF + (size_t)i * 2 * BUF;
}

static uint8_t *guard(int i)
{
    return land + (size_t)i * 2 * BUF;
}

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + 7);
}

static void make_land(int buffers)
{
    land = mmap(NULL, (size_t)(buffers * 2 + 1) * BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(land != MAP_FAILED);
    for (int i = 0; i <= buffers; i++) {
        for (size_t k = 0; k < BUF; k++)
            guard(i)[k] = pattern(k);
    }
}

static void check_land(int buffers)
{
    for (int i = 0; i <= buffers; i++) {
        for (size_t k = 0; k < BUF; k++)
            CHECK(guard(i)[k] == pattern(k));
    }
}

static void find_rings(const char *rights)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512], found[5];
    unsigned long lo, hi, offset;

    CHECK(f);
    nrings = 0;
    doorbells = NULL;
    while (fgets(line, sizeof(line), f)) {
        if (!strstr(line, "memfd:softrdma") || sscanf(line, "%lx-%lx %4s %lx", &lo, &hi, found, &offset) != 4)
            continue;
        if (strstr(line, "memfd:softrdma-doorbells"))
            doorbells = (uint8_t *)lo;
        else if (strcmp(found, rights) == 0 && offset && nrings < MAX_RINGS) /* the host's own mapping begins with the file */
            rings[nrings++] = (struct ring){(uint8_t *)lo, hi - lo};
    }
    fclose(f);
    CHECK(nrings > 0);
}

/* ---- ioctls --------------------------------------------------------------------------------------------------------- */

uint64_t address_word(const struct fuzzer *self)
{
    uint64_t w = self->word();

    return w > 1 << 20 ? (uintptr_t)scratch + w % 65536 : w;
}

/* Memory is registered only where that is allowed: the buffers, or nowhere. */
static void make_reg_mr(const struct fuzzer *self, uint64_t *in)
{
    struct ib_uverbs_reg_mr *r = (void *)in;

    if (one_in(2)) {
        r->start = rnd() | UINT64_C(1) << 62;
        r->length = rnd();
    } else {
        r->start = (uintptr_t)buffer((int)(rnd() % (unsigned)self->buffers)) + rnd() % (BUF - 64);
        r->length = one_in(2) ? UINT64_MAX - rnd() % 4096 : rnd() % 64;
    }
    r->hca_va = one_in(2) ? self->word() : r->start;
    r->pd_handle = (uint32_t)self->word();
    r->access_flags = (uint32_t)(one_in(2) ? rnd() % 1024 : self->word());
}

struct call {
    struct { /* struct ib_uverbs_ioctl_hdr without its attributes */
        uint16_t length, object_id, method_id, num_attrs;
        uint64_t reserved1;
        uint32_t driver_id, reserved2;
    } h;
    struct ib_uverbs_attr a[24];
};

static void random_attribute(const struct fuzzer *self, struct ib_uverbs_attr *a, unsigned i)
{
    static const uint16_t lengths[] = {0, 4, 8, 0, 8, 20, 32};

    a->attr_id = (uint16_t)(one_in(8) ? 0x1000 + rnd() % self->own_attributes : one_in(8) ? rnd() % 16 : i);
    a->len = (uint16_t)(one_in(4) ? rnd() % 300 : lengths[rnd() % 7]);
    a->flags = (uint16_t)(one_in(4) ? rnd() % 4 : 1);
    if (a->len <= 8)
        a->data = address_word(self);
    else
        a->data = one_in(8) ? rnd() : (uintptr_t)scratch + rnd() % 65536;
}

/* A well-formed INVOKE_WRITE of a random command. */
static void random_write(const struct fuzzer *self, struct call *c)
{
    static uint64_t in[64];
    uint32_t command = one_in(16) ? 0x80000001 : (uint32_t)rnd() % 40;
    uint16_t driver_in = one_in(2) ? 0 : 16, driver_out = (uint16_t)(one_in(4) ? rnd() % 64 : 32);

    for (size_t i = 0; i < 20; i++)
        in[i] = address_word(self) | (one_in(2) ? self->word() << 32 : 0);
    if (command == IB_USER_VERBS_CMD_REG_MR)
        make_reg_mr(self, in);
    if (command == IB_USER_VERBS_CMD_MODIFY_SRQ) /* where the answer goes */
        *(uint64_t *)scratch = one_in(2) ? rnd() : (uintptr_t)scratch + 4096;
    c->h.method_id = UVERBS_METHOD_INVOKE_WRITE;
    c->h.num_attrs = 5;
    c->a[0] = (struct ib_uverbs_attr){UVERBS_ATTR_CORE_IN, 160, 1, {.reserved = 0}, {(uintptr_t)in}};
    c->a[1] = (struct ib_uverbs_attr){UVERBS_ATTR_CORE_OUT, 320, 1, {.reserved = 0}, {(uintptr_t)scratch}};
    c->a[2] = (struct ib_uverbs_attr){UVERBS_ATTR_WRITE_CMD, 8, 1, {.reserved = 0}, {command}};
    c->a[3] = (struct ib_uverbs_attr){UVERBS_ATTR_UHW_IN, driver_in, 1, {.reserved = 0}, {(uintptr_t)scratch}};
    c->a[4] = (struct ib_uverbs_attr){UVERBS_ATTR_UHW_OUT, driver_out, 1, {.reserved = 0}, {(uintptr_t)scratch + 1024}};
}

static struct ibv_context *some_context(void)
{
    struct ibv_context *chosen = contexts[rnd() % MAX_CONTEXTS];

    return chosen ? chosen : contexts[0];
}

static void random_ioctl(const struct fuzzer *self)
{
    struct call c = {.h = {.driver_id = self->driver_id, .num_attrs = (uint16_t)(rnd() % 16)}};

    c.h.object_id = (uint16_t)(one_in(40) ? rnd() : rnd() % self->object_types);
    c.h.method_id = (uint16_t)(one_in(40) ? rnd() : one_in(10) ? 0x1000 : rnd() % 5);
    if (one_in(40))
        c.h.driver_id = (uint32_t)rnd();
    for (unsigned i = 0; i < c.h.num_attrs; i++)
        random_attribute(self, &c.a[i], i);
    if (c.h.object_id == UVERBS_OBJECT_DEVICE && one_in(2))
        random_write(self, &c);
    c.h.length = (uint16_t)(sizeof(c.h) + c.h.num_attrs * sizeof(c.a[0]) + (one_in(40) ? rnd() : 0));
    if (ioctl(some_context()->cmd_fd, RDMA_VERBS_IOCTL, one_in(200) ? (void *)(uintptr_t)rnd() : &c) < 0)
        counts[REFUSED]++;
    counts[IOCTLS]++;
}

/* ---- rounds --------------------------------------------------------------------------------------------------------- */

/* What garbage has left cannot be taken down object by object; closing the descriptors is what the kernel would do it
 * all with. Descriptors that random calls made go too. */
static void teardown(void)
{
    for (int fd = 3; fd < 900; fd++)
        close(fd);
    for (int i = 0; i < nrings; i++)
        munmap(rings[i].at, rings[i].size);
}

int fuzz(const struct fuzzer *self, int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3, end;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u ^ (uint64_t)getpid();

    printf("seed %#lx\n", (unsigned long)first);
    fflush(stdout);
    seed = first | 1;
    make_land(self->buffers);
    end = now_s() + seconds;
    while (now_s() < end) {
        alarm(20); /* a hang is a failure */
        self->setup();
        find_rings(self->rings);
        for (int i = 0, n = (int)(rnd() % 3000); i < n; i++) {
            if (one_in(3))
                random_ioctl(self);
            else if (one_in(2))
                self->spoil_ring();
            else
                self->ring_doorbell();
        }
        check_land(self->buffers);
        teardown();
    }
    printf("%lu ring writes, %lu doorbells, %lu ioctls, %lu refused\n", counts[RING_WRITES], counts[DOORBELLS],
           counts[IOCTLS], counts[REFUSED]);
    return PASS;
}
