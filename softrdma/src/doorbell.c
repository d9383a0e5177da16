/* SPDX-License-Identifier: BSD-3-Clause */
/* The stretch of doorbell pages, and the decoding of stores to it. */
#include "doorbell.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "device.h"
#include "libc.h"
#include "process.h"

#define KEY_BASE (UINT64_C(1) << 48)
#define COUNT (MAX_QPS + MAX_CQS) /* queue pairs first */
#define STACK_NEEDED 10240u /* 3.3 KiB of ours, a fault in a guarded copy (its frame depends on the CPU), some room */

static _Atomic uintptr_t base; /* 0: nobody has mapped one yet */
static pthread_mutex_t base_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t page_size(void)
{
    static _Atomic uint64_t size;
    uint64_t known = atomic_load_explicit(&size, memory_order_relaxed);

    if (!known) {
        known = (uint64_t)sysconf(_SC_PAGESIZE);
        atomic_store(&size, known);
    }
    return known;
}

uint64_t doorbell_key_qp(uint32_t qp)
{
    return KEY_BASE + qp * page_size();
}

uint64_t doorbell_key_cq(uint32_t cq)
{
    return KEY_BASE + (MAX_QPS + cq) * page_size();
}

UNWATCHED bool doorbell_is_key(uint64_t offset)
{
    return offset >= KEY_BASE;
}

/* Pages of a file that is empty: a store to one is a SIGBUS. SIGSEGV, which a page without rights would give, is what
 * programs and debuggers have plans with, and tools that know what may be written would object. */
static uintptr_t stretch(void)
{
    pthread_mutex_lock(&base_lock);
    if (!atomic_load(&base)) {
        int fd = memfd_create("softrdma-doorbells", MFD_CLOEXEC);
        void *p = MAP_FAILED;

        if (fd >= 0) {
            p = mmap(NULL, COUNT * page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
            libc_get()->close(fd);
        }
        if (p != MAP_FAILED) {
            madvise(p, COUNT * page_size(), MADV_DONTDUMP);
            atomic_store(&base, (uintptr_t)p);
        }
    }
    pthread_mutex_unlock(&base_lock);
    return atomic_load(&base);
}

static bool exists(const struct region *r, uint32_t context, uint64_t i)
{
    if (i < MAX_QPS)
        return atomic_load(&r->qp[i].state) != QPS_DEAD && r->qp[i].born && r->qp[i].context == context;
    return i < COUNT && r->cq[i - MAX_QPS].used && r->cq[i - MAX_QPS].context == context;
}

void *doorbell_map(uint32_t context, uint64_t offset, size_t length)
{
    uint64_t i = (offset - KEY_BASE) / page_size();
    uintptr_t at;

    if (!process.region || offset % page_size() || length > page_size() || !exists(process.region, context, i)) {
        errno = EINVAL;
        return NULL;
    }
    at = stretch();
    if (!at)
        errno = ENOMEM;
    return at ? (void *)(at + i * page_size()) : NULL;
}

UNWATCHED bool doorbell_is_at(const void *addr)
{
    uintptr_t at = atomic_load_explicit(&base, memory_order_acquire);

    return at && (uintptr_t)addr - at < COUNT * page_size();
}

#if defined(__x86_64__)

/* The 32-bit stores that compilers make of a store to a doorbell: mov r32, mov imm32, xchg r32. */
static bool decode_store(ucontext_t *u, uint32_t *ret_value)
{
    static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    greg_t *g = u->uc_mcontext.gregs;
    const uint8_t *code = (const uint8_t *)g[REG_RIP];
    uint8_t rex = 0, opcode, modrm, mod, rm;
    int n = 0;

    if ((code[n] & 0xf0) == 0x40)
        rex = code[n++];
    opcode = code[n++];
    modrm = code[n++];
    mod = modrm >> 6;
    rm = modrm & 7;
    if ((opcode != 0x89 && opcode != 0xc7 && opcode != 0x87) || (rex & 8) || mod == 3)
        return false;
    if (rm == 4) { /* a SIB byte, and perhaps a displacement without base */
        uint8_t sib = code[n++];

        if (mod == 0 && (sib & 7) == 5)
            n += 4;
    } else if (mod == 0 && rm == 5) {
        n += 4;
    }
    n += mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (opcode == 0xc7) {
        memcpy(ret_value, code + n, 4);
        n += 4;
    } else {
        greg_t *reg = &g[registers[(modrm >> 3 & 7) | (rex & 4) << 1]];

        *ret_value = (uint32_t)*reg;
        if (opcode == 0x87) /* a doorbell reads as zero */
            *reg = 0;
    }
    g[REG_RIP] += n;
    return true;
}

#elif defined(__aarch64__)

/* STR and STUR of a W register with an offset, and STLR. */
static bool decode_store(ucontext_t *u, uint32_t *ret_value)
{
    mcontext_t *m = &u->uc_mcontext;
    uint32_t code = *(const uint32_t *)m->pc, rt = code & 31;

    if ((code & 0xffc00000) != 0xb9000000 && (code & 0xffe00c00) != 0xb8000000 &&
        (code & 0xffe00c00) != 0xb8200800 && (code & 0xfffffc00) != 0x889ffc00)
        return false;
    *ret_value = rt == 31 ? 0 : (uint32_t)m->regs[rt];
    m->pc += 4;
    return true;
}

#else

static bool decode_store(ucontext_t *u, uint32_t *ret_value)
{
    (void)u;
    (void)ret_value;
    return false;
}

#endif

/* A handler runs on the stack that the program gave to signals, which may be small: then another thread does the work. */
static bool is_cramped(const ucontext_t *u)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), start = (uintptr_t)u->uc_stack.ss_sp;

    return !(u->uc_stack.ss_flags & SS_DISABLE) && here - start < u->uc_stack.ss_size && here - start < STACK_NEEDED;
}

static void ring(struct region *r, uint64_t i, uint32_t value, bool later)
{
    const struct device_model *m;

    if (i < MAX_QPS) {
        struct qp *qp = &r->qp[i];

        m = device_at((int)qp->device)->model;
        if (m->ring_qp)
            m->ring_qp(r, qp, value, later);
    } else {
        struct cq *cq = &r->cq[i - MAX_QPS];

        m = device_at((int)cq->device)->model;
        if (m->ring_cq)
            m->ring_cq(r, cq, value);
    }
}

bool doorbell_fault(const void *addr, void *ucontext)
{
    int saved = errno;
    uint32_t value;

    if (!doorbell_is_at(addr) || !process.region || !decode_store(ucontext, &value))
        return false;
    if (process_join() == 0) /* a forked child starts to serve here */
        ring(process.region, ((uintptr_t)addr - atomic_load(&base)) / page_size(), value,
             is_cramped(ucontext));
    errno = saved;
    return true;
}
