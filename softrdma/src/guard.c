/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault handler, and the copies that rely on it. */
#undef _FORTIFY_SOURCE /* its longjmp mistrusts jumps between stacks, and a handler may run on the program's \
                          own alternate one */
#include "guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "doorbell.h"
#include "libc.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static THREAD_LOCAL sigjmp_buf
    *volatile landing; /* where a fault of this thread goes; NULL: it is not ours */
static pthread_mutex_t chain_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction chained[2]; /* what the program wants done: SIGSEGV, SIGBUS */
static atomic_bool installed;

static struct sigaction *chain_of(int sig)
{
    return sig == SIGSEGV ? &chained[0] : &chained[1];
}

static void on_fault(int sig, siginfo_t *info, void *ucontext)
{
    sigjmp_buf *to = landing;
    struct sigaction next;

    if (to) {
        landing = NULL;
        siglongjmp(*to, 1);
    }
    if (sig == SIGBUS && info->si_code > 0 && doorbell_fault(info->si_addr, ucontext))
        return;
    next = *chain_of(sig);
    if (next.sa_flags & SA_SIGINFO) {
        next.sa_sigaction(sig, info, ucontext);
    } else if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
        next.sa_handler(sig);
    } else { /* the instruction faults again, and this time the process ends as it would have */
        struct sigaction plain = {.sa_handler = SIG_DFL};

        libc_get()->sigaction(sig, &plain, NULL);
        if (info->si_code <= 0) /* sent by somebody: nothing faults again */
            raise(sig);
    }
}

void guard_install(void)
{
    static const int sigs[] = {SIGSEGV, SIGBUS};
    struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

    pthread_mutex_lock(&chain_lock);
    if (!atomic_load(&installed)) {
        sigemptyset(&sa.sa_mask);
        for (size_t i = 0; i < NELEM(sigs); i++)
            libc_get()->sigaction(sigs[i], &sa, chain_of(sigs[i]));
        atomic_store(&installed, true);
    }
    pthread_mutex_unlock(&chain_lock);
}

void guard_in_child(void)
{
    pthread_mutex_init(&chain_lock, NULL);
}

int guard_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    if ((sig != SIGSEGV && sig != SIGBUS) || !atomic_load(&installed))
        return libc_get()->sigaction(sig, act, old);
    pthread_mutex_lock(&chain_lock);
    if (old)
        *old = *chain_of(sig);
    if (act)
        *chain_of(sig) = *act;
    pthread_mutex_unlock(&chain_lock);
    return 0;
}

sighandler_t guard_signal(int sig, sighandler_t handler)
{
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

    if ((sig != SIGSEGV && sig != SIGBUS) || !atomic_load(&installed))
        return libc_get()->signal(sig, handler);
    guard_sigaction(sig, &act, &old);
    return old.sa_handler;
}

const sigset_t *guard_mask(int how, const sigset_t *set, sigset_t *copy)
{
    if (!set || how == SIG_UNBLOCK || (!sigismember(set, SIGSEGV) && !sigismember(set, SIGBUS)))
        return set;
    *copy = *set;
    sigdelset(copy, SIGSEGV);
    sigdelset(copy, SIGBUS);
    return copy;
}

int guard_copy(void *dst, const void *src, size_t length)
{
    sigjmp_buf env;

    if (sigsetjmp(env, 0))
        return EFAULT;
    landing = &env;
    atomic_signal_fence(memory_order_seq_cst);
    if (length == 8 && !(((uintptr_t)dst | (uintptr_t)src) & 7))
        /* one store: a program may be polling on this word */
        __atomic_store_n((uint64_t *)dst, __atomic_load_n((const uint64_t *)src, __ATOMIC_RELAXED),
                         __ATOMIC_RELEASE);
    else
        libc_get()->memcpy(dst, src, length);
    atomic_signal_fence(memory_order_seq_cst);
    landing = NULL;
    return 0;
}

__attribute__((noinline)) static void touch(uint64_t addr, uint64_t end, bool writable, uint64_t page)
{
    for (uint64_t p = addr; p < end; p += page) {
        if (writable)
            __atomic_fetch_or((uint8_t *)p, 0, __ATOMIC_RELAXED);
        else
            (void)*(volatile uint8_t *)p;
    }
}

static int touch_pages(uint64_t addr, uint64_t end, bool writable, uint64_t page)
{
    sigjmp_buf env;

    if (sigsetjmp(env, 0))
        return EFAULT;
    landing = &env;
    atomic_signal_fence(memory_order_seq_cst);
    touch(addr, end, writable, page);
    atomic_signal_fence(memory_order_seq_cst);
    landing = NULL;
    return 0;
}

int guard_populate(uint64_t addr, uint64_t length, bool writable)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = addr / page * page,
             end = align_up(addr + length, page);

    if (end <= start)
        return EFAULT;
    if (madvise((void *)start, end - start, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return 0;
    if (errno != EINVAL) /* EINVAL: Linux before 5.14, or memory of an odd kind */
        return EFAULT;
    return touch_pages(start, end, writable, page);
}

int guard_compare_swap(uint64_t addr, uint64_t compare, uint64_t swap, uint64_t *ret_old)
{
    sigjmp_buf env;

    if (sigsetjmp(env, 0))
        return EFAULT;
    landing = &env;
    atomic_signal_fence(memory_order_seq_cst);
    __atomic_compare_exchange_n((uint64_t *)addr, &compare, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    atomic_signal_fence(memory_order_seq_cst);
    landing = NULL;
    *ret_old = compare; /* what was there, also when it matched */
    return 0;
}

int guard_fetch_add(uint64_t addr, uint64_t add, uint64_t *ret_old)
{
    sigjmp_buf env;
    uint64_t old;

    if (sigsetjmp(env, 0))
        return EFAULT;
    landing = &env;
    atomic_signal_fence(memory_order_seq_cst);
    old = __atomic_fetch_add((uint64_t *)addr, add, __ATOMIC_SEQ_CST);
    atomic_signal_fence(memory_order_seq_cst);
    landing = NULL;
    *ret_old = old;
    return 0;
}
