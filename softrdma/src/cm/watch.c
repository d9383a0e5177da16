/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of watched processes, private to this one, and one pass over the identifiers that brings it up to date. Only
 * the service thread touches the list. */
#include "watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../config.h"
#include "../fabric/discovery.h"
#include "../fabric/peer.h"
#include "../fd.h"
#include "../lock.h"
#include "../process.h"
#include "cm.h"
#include "connection.h"
#include "file.h"
#include "id.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define LOOK_NS 100000000u /* where a process cannot be watched */

static struct watch {
    struct region *r; /* held, so that what the dead leave behind can be read */
    uint64_t instance;
    uint32_t proc;
    int32_t pid;
    int fd; /* -1: it cannot be watched */
    bool wanted;
} watches[CM_WATCHES];
static uint32_t nwatches;
static bool overflow;

/* The watcher's note of a process, for those who would wake it. */
static uint64_t note_of(uint64_t instance, uint32_t proc)
{
    return instance ^ (uint64_t)(proc + 1) << 48;
}

static _Atomic uint64_t *place_of(struct region *r, uint32_t watcher, uint64_t note)
{
    return &r->cm.known[watcher][note % CM_KNOWN];
}

void cm_watch_peer(struct region *r, const struct cm_id *id)
{
    uint32_t mine = r->cm.file[id->file].proc;
    uint64_t note = note_of(id->peer.instance, id->peer.proc);

    if (mine == NONE || (id->peer.instance == r->instance && id->peer.proc == mine))
        return;
    if (atomic_load(place_of(r, mine, note)) == note)
        return;
    atomic_store(&r->cm.strangers[mine], 1);
    fabric_wake(&r->proc[mine]);
}

static void stop(uint32_t i)
{
    struct watch *w = &watches[i];
    uint64_t note = note_of(w->instance, w->proc);

    if (atomic_load(place_of(process.region, process.proc, note)) == note)
        atomic_store(place_of(process.region, process.proc, note), 0);
    fd_close_internal(w->fd);
    peer_put(w->r);
    watches[i] = watches[--nwatches];
}

/* Another process's number means something only in the same pid namespace. */
static int open_process(const struct proc *p)
{
    if (p->pid_space != process.pid_space)
        return -1;
    return fd_make_internal((int)syscall(SYS_pidfd_open, p->pid, 0));
}

static void want(struct region *r, uint32_t proc)
{
    uint64_t note = note_of(r->instance, proc);
    struct region *held;

    if (r == process.region && proc == process.proc)
        return;
    for (uint32_t i = 0; i < nwatches; i++) {
        struct watch *w = &watches[i];

        if (w->instance == r->instance && w->proc == proc && w->pid == r->proc[proc].pid) {
            w->wanted = true;
            return;
        }
    }
    held = nwatches < CM_WATCHES ? peer_get_known(r->slot) : NULL;
    if (!held) { /* no place; or it has died this moment */
        overflow = true;
        return;
    }
    watches[nwatches++] = (struct watch){.r = held,
                                         .instance = r->instance,
                                         .proc = proc,
                                         .pid = r->proc[proc].pid,
                                         .fd = open_process(&r->proc[proc]),
                                         .wanted = true};
    atomic_store(place_of(process.region, process.proc, note), note);
}

/* Everybody who holds the file of that identifier; false: nobody that lives does. An identifier that has ended in a
 * living process has said so itself. */
static bool watch_holders(struct region *r, const struct cm_ref *ref)
{
    bool alive = false;
    const struct cm_id *id;
    const struct cm_file *f;

    if (!r || r->instance != ref->instance)
        return false;
    id = &r->cm.id[ref->id % CM_IDS];
    if (!id->used || id->generation != ref->generation)
        return true;
    f = &r->cm.file[id->file % CM_FILES];
    for (uint32_t k = 0; k < CM_PROCS / 64; k++) {
        for (uint64_t bits = atomic_load(&f->holders[k]); bits; bits &= bits - 1) {
            uint32_t proc = k * 64 + (uint32_t)__builtin_ctzll(bits);

            if (!process_alive(&r->proc[proc]))
                continue;
            alive = true;
            want(r, proc);
        }
    }
    return alive;
}

static bool is_held_here(struct region *r, const struct cm_id *id)
{
    return atomic_load(&r->cm.file[id->file].holders[process.proc / 64]) >> process.proc % 64 & 1;
}

/* One identifier's peer. Its region is looked at without its lock: what is read there may be old, but the next death
 * wakes us again. */
static void look_after(struct region *r, uint32_t n, const struct cm_ref *peer, struct cm_outbox *out)
{
    struct region *theirs = peer_get(peer->slot);
    bool alive = watch_holders(theirs, peer);

    peer_put(theirs);
    if (alive)
        return;
    lock_take(&r->cm.lock);
    if (r->cm.id[n].used && memcmp(&r->cm.id[n].peer, peer, sizeof(*peer)) == 0)
        cm_peer_died(r, &r->cm.id[n], out);
    lock_give(&r->cm.lock);
}

static void look_after_all(struct region *r, struct cm_outbox *out)
{
    for (uint32_t n = 0;; n++) {
        struct cm_ref peer = {0};

        lock_take(&r->cm.lock);
        n = cm_id_next(r, n);
        if (n != NONE && is_held_here(r, &r->cm.id[n]))
            peer = r->cm.id[n].peer;
        lock_give(&r->cm.lock);
        if (n == NONE)
            return;
        if (peer.instance)
            look_after(r, n, &peer, out);
    }
}

static bool somebody_died(void)
{
    for (uint32_t i = 0; i < nwatches; i++) {
        struct proc *p = &watches[i].r->proc[watches[i].proc];

        if (p->pid != watches[i].pid || !process_alive(p))
            return true;
    }
    return false;
}

static bool looks_by_itself(void)
{
    for (uint32_t i = 0; i < nwatches; i++) {
        if (watches[i].fd < 0)
            return true;
    }
    return overflow;
}

uint64_t cm_watch_run(struct region *r, struct cm_outbox *out)
{
    bool died = somebody_died();

    if (died) { /* a relative, perhaps */
        lock_take(&r->lock);
        process_reap(r);
        lock_give(&r->lock);
    }
    if (atomic_exchange(&r->cm.strangers[process.proc], 0) || overflow || died) {
        overflow = false;
        for (uint32_t i = 0; i < nwatches; i++)
            watches[i].wanted = false;
        look_after_all(r, out);
        for (uint32_t i = nwatches; i-- > 0;) {
            if (!watches[i].wanted)
                stop(i);
        }
    }
    return looks_by_itself() ? now_ns() + LOOK_NS : UINT64_MAX;
}

uint32_t cm_watch_fds(struct pollfd *fds, uint32_t room)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < nwatches && n < room; i++) {
        if (watches[i].fd >= 0)
            fds[n++] = (struct pollfd){watches[i].fd, POLLIN, 0};
    }
    return n;
}

/* The list is the parent's, and so are the regions: those were unmapped (peer.c). */
void cm_in_child(void)
{
    for (uint32_t i = 0; i < nwatches; i++)
        fd_close_internal(watches[i].fd);
    nwatches = 0;
}
