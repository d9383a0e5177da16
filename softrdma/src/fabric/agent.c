/* SPDX-License-Identifier: BSD-3-Clause */
/* The box is a small state machine on a futex. Its thread takes no lock of the region, because its client may
 * hold some. */
#include "agent.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../guard.h"
#include "../lock.h"
#include "../process.h"
#include "discovery.h"

enum { BOX_IDLE, BOX_REQUEST, BOX_DONE };
enum { BOX_READ, BOX_WRITE };

#define CHECK_INTERVAL_NS 50000000 /* how often a waiting client looks whether the owner lives */

static void futex_wait(_Atomic uint32_t *word, uint32_t value, long timeout_ns)
{
    struct timespec t = {0, timeout_ns};

    syscall(SYS_futex, word, FUTEX_WAIT, value, timeout_ns ? &t : NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 64, NULL, NULL, 0);
}

static struct region *region_of(struct proc *p)
{
    return (struct region *)((uint8_t *)p - offsetof(struct region, proc) -
                             sizeof(struct proc) * (size_t)p->index);
}

static void serve(struct agent_box *box)
{
    uint64_t n = min_u64(box->length, AGENT_CHUNK);

    if (box->op == BOX_WRITE)
        box->result = guard_copy((void *)box->addr, box->data, n);
    else
        box->result = guard_copy(box->data, (const void *)box->addr, n);
}

static void *agent_main(void *arg)
{
    struct agent_box *box = arg;

    prctl(PR_SET_NAME, "softrdma-agent");
    for (;;) {
        uint32_t state = atomic_load(&box->state);

        if (state != BOX_REQUEST) {
            futex_wait(&box->state, state, 0);
            continue;
        }
        serve(box);
        atomic_store(&box->state, BOX_DONE);
        futex_wake(&box->state);
    }
    return NULL;
}

void agent_start(void)
{
    static _Atomic int32_t owner; /* a forked child starts its own */
    pthread_t thread;
    sigset_t all, old;

    if (atomic_exchange(&owner, process.pid) == process.pid)
        return;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, NULL, agent_main, &process.region->box[process.proc]) == 0)
        pthread_detach(thread);
    else
        atomic_store(&owner, 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int ask(struct proc *p, struct agent_box *box, uint32_t op, uint64_t addr, uint64_t length)
{
    uint32_t state;

    box->op = op;
    box->addr = addr;
    box->length = length;
    atomic_store(&box->state, BOX_REQUEST);
    futex_wake(&box->state);
    while ((state = atomic_load(&box->state)) != BOX_DONE) {
        futex_wait(&box->state, state, CHECK_INTERVAL_NS);
        if (!process_alive(p)) {
            atomic_store(&box->state, BOX_IDLE);
            return ESRCH;
        }
    }
    return box->result;
}

int agent_move(struct proc *p, bool write, uint64_t theirs, void *mine, uint64_t length)
{
    struct agent_box *box = &region_of(p)->box[p->index];
    int err = 0;

    if (!atomic_exchange(&p->agent_wanted, 1))
        fabric_wake(p);
    lock_take(&box->lock);
    for (uint64_t done = 0; done < length && !err;) {
        uint64_t n = min_u64(AGENT_CHUNK, length - done);

        if (write && guard_copy(box->data, (const uint8_t *)mine + done, n))
            err = EFAULT;
        else
            err = ask(p, box, write ? BOX_WRITE : BOX_READ, theirs + done, n);
        if (!err && !write && guard_copy((uint8_t *)mine + done, box->data, n))
            err = EFAULT;
        done += n;
    }
    lock_give(&box->lock);
    return err;
}
