/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration: what is accepted, which keys come back, what is pinned. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <sys/mman.h>

#define PAGE 4096

static const char *keys(const struct ibv_mr *mr)
{
    return mr->rkey == mr->lkey ? "rkey is lkey" : mr->rkey ? "rkey of its own" : "rkey 0";
}

static void ask_reg(const char *question, void *address, size_t length, int access)
{
    errno = 0;
    struct ibv_mr *mr = ibv_reg_mr(pds[0], address, length, access);
    fact("memory", question, "%s", mr ? keys(mr) : errno_name(errno));
    if (mr)
        ibv_dereg_mr(mr);
}

static void ask_iova(const char *question, uint8_t *address, uint64_t iova)
{
    errno = 0;
    struct ibv_mr *mr = ibv_reg_mr_iova(pds[0], address, 100, iova, IBV_ACCESS_LOCAL_WRITE);
    fact_errno("memory", question, mr ? 0 : errno);
    if (mr)
        ibv_dereg_mr(mr);
}

static void ask_registrations(void)
{
    uint8_t *mem = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *read_only = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *nothing = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *half = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(half + PAGE, PAGE);
    static const char text[] = "bytes in the read-only data of the program";

    ask_reg("reg_mr no access", mem, 100, 0);
    ask_reg("reg_mr LOCAL_WRITE", mem, 100, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr REMOTE_READ", mem, 100, IBV_ACCESS_REMOTE_READ);
    ask_reg("reg_mr REMOTE_WRITE without LOCAL_WRITE", mem, 100, IBV_ACCESS_REMOTE_WRITE);
    ask_reg("reg_mr REMOTE_ATOMIC without LOCAL_WRITE", mem, 100, IBV_ACCESS_REMOTE_ATOMIC);
    ask_reg("reg_mr MW_BIND", mem, 100, IBV_ACCESS_MW_BIND);
    ask_reg("reg_mr all rights", mem, 100, ALL_ACCESS);
    ask_reg("reg_mr ZERO_BASED", mem, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
    ask_reg("reg_mr ON_DEMAND", mem, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
    ask_reg("reg_mr HUGETLB", mem, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB);
    ask_reg("reg_mr RELAXED_ORDERING", mem, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    ask_reg("reg_mr every optional bit", mem, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_OPTIONAL_RANGE);
    ask_reg("reg_mr unknown bit 12", mem, 100, IBV_ACCESS_LOCAL_WRITE | 1 << 12);
    ask_reg("reg_mr length 0", mem, 0, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr length 1", mem, 1, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr across pages", mem + PAGE - 1, 2, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr 2^50 bytes", mem, 1ull << 50, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr past the end of the address space", mem, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr address 4096", (void *)PAGE, 100, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr NULL", NULL, 100, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr half unmapped", half, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr the mapped half", half, PAGE, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr read-only page with LOCAL_WRITE", read_only, 100, IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr read-only page with REMOTE_READ", read_only, 100, IBV_ACCESS_REMOTE_READ);
    ask_reg("reg_mr PROT_NONE page", nothing, 100, 0);
    ask_reg("reg_mr program text with LOCAL_WRITE", (void *)text, sizeof(text), IBV_ACCESS_LOCAL_WRITE);
    ask_reg("reg_mr program text with REMOTE_READ", (void *)text, sizeof(text), IBV_ACCESS_REMOTE_READ);

    ask_iova("reg_mr_iova same page offset", mem + 100, 0x7000 + 100);
    ask_iova("reg_mr_iova other page offset", mem + 100, 0x7000 + 101);
    ask_iova("reg_mr_iova 0", mem, 0);
    ask_iova("reg_mr_iova that wraps", mem, -PAGE);

    struct ibv_mr *one = ibv_reg_mr(pds[0], mem, 100, ALL_ACCESS),
                  *two = ibv_reg_mr(pds[0], mem, 100, ALL_ACCESS);
    fact("memory", "the same bytes twice", "%s",
         one && two && one->lkey != two->lkey ? "two keys" : "refused or one key");
    ibv_dereg_mr(one);
    ibv_dereg_mr(two);
    munmap(mem, 16 * PAGE);
    munmap(read_only, PAGE);
    munmap(nothing, PAGE);
    munmap(half, PAGE);
}

/* An iova other than the address: the peer names the iova, the bytes land in the buffer. */
static void ask_iova_traffic(void)
{
    struct pair p;
    pair_open(&p, &usual);
    struct ibv_mr *mr = ibv_reg_mr_iova(p.b.pd, p.b.buf, PAGE, 0x10000, ALL_ACCESS);
    struct work w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    p.a.buf[0] = 77;
    w.wr.wr.rdma.remote_addr = 0x10000 + 16;
    w.wr.wr.rdma.rkey = mr->rkey;
    fact_begin("memory", "write through an iova");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 500);
    fact_add(" byte %d", p.b.buf[16]);
    fact_end();
    w.wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf + 16;
    fact_begin("memory", "write to the address behind an iova");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 500);
    fact_end();
    pair_close(&p);
    ibv_dereg_mr(mr);
}

/* The kernel pins pages: what happens to a mapping afterwards does not take them from the device. What lands
 * in a page that nobody can see any more is no fact; that the request completes, and how, is. */
static void ask_unmapped(void)
{
    struct pair p;
    pair_open(&p, &usual);
    munmap(p.b.buf + 4 * PAGE, PAGE);
    struct work w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.wr.rdma.remote_addr += 4 * PAGE;
    fact_begin("memory", "write to registered memory that was unmapped");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 500);
    fact_end();
    pair_close(&p);

    pair_open(&p, &usual);
    munmap(p.a.buf + 4 * PAGE, PAGE);
    w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    w.sge.addr += 4 * PAGE;
    fact_begin("memory", "write from registered memory that was unmapped");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 500);
    fact_end();
    pair_close(&p);

    pair_open(&p, &usual);
    mprotect(p.b.buf, PAGE, PROT_READ);
    fact_begin("memory", "write to registered memory that became read-only");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    pair_watch(&p, 1, 0, 500);
    fact_end();
    pair_close(&p);
}

static void ask_life(void)
{
    struct pair p;
    pair_open(&p, &usual);
    struct ibv_mr *mr = p.b.mr;
    p.b.mr = NULL;
    struct work w = work_make(&p.a, &(struct side){.mr = mr, .buf = p.b.buf}, IBV_WR_RDMA_WRITE, 8, 1);
    fact_errno("memory", "dereg_mr", ERRNO_OF_INT(ibv_dereg_mr(mr)));
    fact_begin("memory", "write with the key of a deregistered MR");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 500);
    fact_end();
    pair_close(&p);

    /* A key of another PD of the same device. */
    pair_open(&p, &usual);
    struct ibv_pd *other = ibv_alloc_pd(contexts[1]);
    mr = ibv_reg_mr(other, p.b.buf, BUFFER_SIZE, ALL_ACCESS);
    w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.wr.rdma.rkey = mr->rkey;
    fact_begin("memory", "write with a key of another PD");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 500);
    fact_end();
    pair_close(&p);
    ibv_dereg_mr(mr);

    ibv_dealloc_pd(other);
    struct ibv_pd *foreign = ibv_alloc_pd(contexts[0]);
    pair_open(&p, &usual);
    mr = ibv_reg_mr(foreign, p.a.buf, BUFFER_SIZE, ALL_ACCESS);
    w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    w.sge.lkey = mr->lkey;
    fact_begin("memory", "write from a local key of another PD");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 500);
    fact_end();
    pair_close(&p);
    ibv_dereg_mr(mr);
    ibv_dealloc_pd(foreign);
}

void ask_memory(void)
{
    ask_registrations();
    ask_iova_traffic();
    ask_unmapped();
    ask_life();
}
