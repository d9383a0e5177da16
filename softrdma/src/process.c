/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining a fabric, and keeping one's place over fork. A forked child stays in its parent's region under an
 * entry of its own; it starts a service thread with the first call that needs one. */
#include "process.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "config.h"
#include "context.h"
#include "fabric/discovery.h"
#include "fabric/peer.h"
#include "fd.h"
#include "guard.h"
#include "libc.h"
#include "lock.h"
#include "service.h"

struct process process = {.region_fd = -1, .listen_fd = -1, .wake_fd = -1};
static pthread_mutex_t join_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t pid_space(void)
{
    struct stat st;

    return libc_stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

bool process_is_borrowed(void)
{
    return getpid() != process.pid;
}

bool process_alive(struct proc *p)
{
    if (process.region && p == process_self())
        return true;
    return p->used && (lock_is_held(&p->life[0]) || lock_is_held(&p->life[1]));
}

void process_reap(struct region *r)
{
    for (uint32_t i = 0; i < MAX_PROCS; i++) {
        struct proc *p = &r->proc[i];

        if (!p->used || process_alive(p))
            continue;
        context_drop_holder(r, i);
        p->used = 0;
    }
}

/* Takes a free entry for this process; the caller holds region.lock. */
static int add_proc(struct region *r)
{
    for (uint32_t i = 0; i < MAX_PROCS; i++) {
        struct proc *p = &r->proc[i];

        if (p->used)
            continue;
        if (p->pid == 0) { /* never used */
            lock_init(&p->life[0]);
            lock_init(&p->life[1]);
            lock_init(&r->box[i].lock);
        }
        p->pid = process.pid;
        p->pid_space = process.pid_space;
        p->slot = r->slot;
        p->index = i;
        atomic_store(&p->woken, 0);
        atomic_store(&p->agent_wanted, 0);
        lock_take(&p->life[0]);
        p->used = 1;
        process.proc = i;
        return 0;
    }
    return EAGAIN;
}

static int make_region(void)
{
    uint32_t slot;
    int listen_fd, fd, err = fabric_claim(&slot, &listen_fd);
    struct region *r;

    if (err)
        return err;
    r = region_create(slot, &fd);
    if (!r) {
        err = errno;
        fd_close_internal(listen_fd);
        return err;
    }
    process.region_fd = fd_make_internal(fd);
    process.listen_fd = listen_fd;
    process.slot = slot;
    process.pid_space = pid_space();
    lock_take(&r->lock);
    err = add_proc(r);
    process.region = r;
    lock_give(&r->lock);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* Yama: let peers reach the memory that we register */
    guard_install();
    TRACE("fabric %s slot %u", config.fabric, slot);
    return err;
}

int process_join(void)
{
    int err = 0;

    if (atomic_load_explicit(&process.serving, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&join_lock);
    if (!process.region)
        err = make_region();
    if (!err && !atomic_load(&process.serving)) {
        process.wake_fd = fabric_bind_wake(process.slot, process.proc);
        err = service_start();
        if (!err)
            atomic_store_explicit(&process.serving, true, memory_order_release);
    }
    pthread_mutex_unlock(&join_lock);
    return err;
}

static void before_fork(void)
{
    pthread_mutex_lock(&join_lock);
    peer_before_fork();
}

static void in_parent(void)
{
    peer_after_fork(false);
    pthread_mutex_unlock(&join_lock);
}

/* A child for which there is no entry left starts with nothing: what it inherited is dead to it. */
static void abandon(void)
{
    for (int fd = 0; fd < FD_LIMIT; fd++) {
        uint32_t index;

        if (fd_kind(fd, &index) != FD_INTERNAL)
            fd_set_kind(fd, FD_OTHER, 0);
    }
    fd_close_internal(process.listen_fd);
    process.region = NULL; /* stays mapped: somebody may be on the way out of it */
}

/* The child takes its own entry and is counted as a holder of every context at once: its parent may close
 * them, or die, before the child makes its first call. */
static void in_child(void)
{
    bool full = false;

    peer_after_fork(true);
    process.pid = getpid();
    if (process.region) {
        fd_close_internal(process.wake_fd);
        process.wake_fd = -1;
        atomic_store(&process.serving, false);
        lock_take(&process.region->lock);
        process_reap(process.region);
        if (add_proc(process.region) == 0)
            context_inherit(process.region);
        else
            full = true;
        lock_give(&process.region->lock);
        if (full)
            abandon();
    }
    pthread_mutex_unlock(&join_lock);
}

void process_init(void)
{
    process.pid = getpid();
    pthread_atfork(before_fork, in_parent, in_child);
}
