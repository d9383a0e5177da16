/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining a fabric, and keeping one's place over fork. A forked child stays in its parent's region under an
 * entry of its own; it starts a service thread with the first call that needs one. */
#include "process.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cm/cm.h"
#include "config.h"
#include "context.h"
#include "event.h"
#include "fabric/borrow.h"
#include "fabric/discovery.h"
#include "fabric/peer.h"
#include "fault/fault.h"
#include "fd.h"
#include "guard.h"
#include "libc.h"
#include "lock.h"
#include "nic.h"
#include "service.h"
#include "sysfs.h"

struct process process = {.region_fd = -1, .listen_fd = -1, .control_fd = -1, .wake_fd = -1};
static pthread_mutex_t join_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t child_entry = NONE; /* under join_lock, from before a fork until after it */

#define UNBORN_NS UINT64_C(10000000000)

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
    if (atomic_load(&p->unborn_until) && atomic_load(&p->unborn_until) > now_ns())
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
        cm_drop_holder(r, i);
        p->used = 0;
    }
}

/* An entry for a process that is there, or will be by then; NONE when all are taken. The caller holds
 * region.lock. */
static uint32_t reserve(struct region *r, uint64_t unborn_until)
{
    for (uint32_t i = 0; i < MAX_PROCS; i++) {
        struct proc *p = &r->proc[i];

        if (p->used)
            continue;
        if (!p->born) {
            lock_init(&p->life[0]);
            lock_init(&p->life[1]);
            lock_init(&r->box[i].lock);
        }
        p->born = 1;
        p->slot = r->slot;
        p->index = i;
        p->pid = process.pid;
        p->pid_space = process.pid_space;
        atomic_store(&p->unborn_until, unborn_until);
        atomic_store(&p->woken, 0);
        atomic_store(&p->agent_wanted, 0);
        atomic_store(&p->pinned, 0);
        p->used = 1;
        return i;
    }
    return NONE;
}

/* This process is the one that the entry stands for. */
static void move_in(struct region *r, uint32_t i)
{
    struct proc *p = &r->proc[i];

    p->pid = process.pid;
    lock_take(&p->life[0]);
    atomic_store(&p->unborn_until, 0);
    process.proc = i;
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
    process.control_fd = fault_bind(slot);
    process.slot = slot;
    process.pid_space = pid_space();
    nic_init(r);
    cm_init(r);
    move_in(r, reserve(r, 0)); /* nobody else knows the region yet */
    process.region = r;
    fault_begin(r);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* Yama: let peers reach the memory that we register */
    guard_install();
    TRACE("fabric %s slot %u", config.fabric, slot);
    return 0;
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

/* The child is entered, and counted as a holder of every context, before it is there: its parent may close them,
 * or die, before the child has run a single instruction. If fork fails the entry is taken back after a while. */
static void before_fork(void)
{
    struct region *r;

    pthread_mutex_lock(&join_lock);
    peer_before_fork();
    borrow_before_fork();
    fabric_before_fork();
    if (!process.region)
        return;
    r = process.region;
    lock_take(&r->lock);
    process_reap(r);
    child_entry = reserve(r, now_ns() + UNBORN_NS);
    if (child_entry != NONE) {
        context_inherit(r, child_entry);
        cm_inherit(r, child_entry);
    }
    lock_give(&r->lock);
}

static void in_parent(void)
{
    fabric_after_fork();
    borrow_after_fork();
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
    fd_close_internal(process.control_fd);
    process.region = NULL; /* stays mapped: somebody may be on the way out of it */
}

static void in_child(void)
{
    fabric_after_fork();
    borrow_after_fork();
    peer_after_fork(true);
    event_in_child();
    cm_in_child();
    guard_in_child();
    sysfs_in_child();
    process.pid = getpid();
    if (process.region) {
        fd_close_internal(process.wake_fd);
        process.wake_fd = -1;
        atomic_store(&process.serving, false);
        if (child_entry != NONE)
            move_in(process.region, child_entry);
        else
            abandon();
    }
    pthread_mutex_unlock(&join_lock);
}

void process_init(void)
{
    process.pid = getpid();
    pthread_atfork(before_fork, in_parent, in_child);
}
