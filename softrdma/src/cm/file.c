/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing, holders, pipes, and the wait for an event. */
#include "file.h"

#include <fcntl.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "../config.h"
#include "../fabric/borrow.h"
#include "../fabric/discovery.h"
#include "../fabric/peer.h"
#include "../fd.h"
#include "../libc.h"
#include "../lock.h"
#include "../process.h"
#include "cm.h"
#include "event.h"
#include "id.h"
#include "iwarp.h"

/* A kernel takes a while to close the file, and rping relies on it: its thread has just read the last event, and has to be
 * back in GET_EVENT before the number is gone. */
#define CLOSING_NS 100000

/* This process's part in each file: a second description of the pipe, open both ways and never blocking, which adds
 * bytes and takes them out again; and how many descriptors of the program mean the file. */
static struct {
    int both_fd;
    _Atomic uint32_t descriptors;
} mine[CM_FILES];

/* ---- the pipe ---- */

static bool push_byte(struct region *r, struct cm_file *f)
{
    uint32_t n = (uint32_t)(f - r->cm.file);
    struct borrow_pipe pipe = {.key = MAX_CHANNELS + n,
                               .generation = &f->generation,
                               .proc = f->proc,
                               .write_fd = f->write_fd,
                               .closed = &f->closed};

    if (r == process.region && f->proc == process.proc)
        return libc_get()->write(mine[n].both_fd, "", 1) == 1;
    return f->proc != NONE && borrow_write(r, &pipe, "", 1, NULL);
}

void cm_file_push(struct region *r, struct cm_file *f)
{
    int saved = errno;

    if (!atomic_load(&f->closed) && (f->owed || !push_byte(r, f))) {
        f->owed++;
        atomic_fetch_add(&r->cm.nowed, 1);
        if (f->proc != NONE)
            fabric_wake(&r->proc[f->proc]);
    }
    errno = saved;
}

/* A thread may hold the byte already, on its way to the lock: it will find that there is no event. */
void cm_file_pull(struct region *r, struct cm_file *f)
{
    int saved = errno;
    char byte;

    if (f->owed) {
        f->owed--;
        atomic_fetch_sub(&r->cm.nowed, 1);
    } else if (r == process.region && f->proc == process.proc && !atomic_load(&f->closed) &&
               libc_get()->read(mine[f - r->cm.file].both_fd, &byte, 1) < 0) {
        TRACE("an event's byte was taken before the event");
    }
    errno = saved;
}

static void settle(struct region *r, struct cm_file *f)
{
    while (f->owed && push_byte(r, f)) {
        f->owed--;
        atomic_fetch_sub(&r->cm.nowed, 1);
    }
}

void cm_file_settle(struct region *r)
{
    if (!atomic_load(&r->cm.nowed))
        return;
    lock_take(&r->cm.lock);
    for (uint32_t i = 0; i < r->cm.nfiles; i++) {
        if (r->cm.file[i].used && r->cm.file[i].proc == process.proc)
            settle(r, &r->cm.file[i]);
    }
    lock_give(&r->cm.lock);
}

/* The kernel does not wake a thread when another closes the file under it. */
static int wait_for_a_signal(void)
{
    static sem_t never;

    return sem_wait(&never) == 0 ? EBADF : errno;
}

int cm_file_get_event(struct region *r, uint32_t file, int fd, uint64_t response, uint32_t room)
{
    struct cm_file *f = &r->cm.file[file];
    uint32_t generation = atomic_load(&f->generation);

    if (room < offsetof(struct rdma_ucm_event_resp, reserved) + sizeof(uint32_t))
        return ENOSPC;
    for (;;) {
        uint32_t event = 0;
        struct cm_id about;
        char byte;
        ssize_t got = libc_get()->read(fd, &byte, 1);
        int err;

        if (got < 0 && errno != EBADF) /* closed since we came: the kernel would hold the file for us */
            return errno;
        if (got <= 0)
            return wait_for_a_signal();
        lock_take(&r->cm.lock);
        if (!f->used || f->generation != generation) {
            lock_give(&r->cm.lock);
            return wait_for_a_signal();
        }
        err = cm_event_read(r, f, response, room, &event, &about);
        if (err == EFAULT)
            cm_file_push(r, f);
        settle(r, f);
        lock_give(&r->cm.lock);
        if (!err && about.device >= 0)
            cm_iwarp_follow(r, &about, event);
        if (err != ENOENT) /* the byte's event may be gone with its identifier */
            return err;
    }
}

/* ---- holders ---- */

static void set_holder(struct cm_file *f, uint32_t proc, bool holds)
{
    uint64_t bit = UINT64_C(1) << proc % 64;

    if (holds)
        atomic_fetch_or(&f->holders[proc / 64], bit);
    else
        atomic_fetch_and(&f->holders[proc / 64], ~bit);
}

static bool has_holders(struct cm_file *f)
{
    uint64_t left = 0;

    for (size_t k = 0; k < NELEM(f->holders); k++)
        left |= atomic_load(&f->holders[k]);
    return left;
}

bool cm_file_is_held(struct region *r, uint32_t file)
{
    for (uint32_t k = 0; k < CM_PROCS / 64; k++) {
        uint64_t bits = atomic_load(&r->cm.file[file].holders[k]);

        for (; bits; bits &= bits - 1) {
            if (process_alive(&r->proc[k * 64 + (uint32_t)__builtin_ctzll(bits)]))
                return true;
        }
    }
    return false;
}

/* Everything in it ends with it. */
static void end(struct region *r, uint32_t file, struct cm_outbox *out)
{
    struct cm_file *f = &r->cm.file[file];

    for (uint32_t n = cm_id_next(r, 0); n != NONE; n = cm_id_next(r, n + 1)) {
        if (r->cm.id[n].file == file)
            cm_id_end(r, &r->cm.id[n], out);
    }
    atomic_fetch_sub(&r->cm.nowed, f->owed);
    f->owed = 0;
    f->used = 0;
}

void cm_inherit(struct region *r, uint32_t child)
{
    for (uint32_t i = 0; i < r->cm.nfiles; i++) {
        if (atomic_load(&mine[i].descriptors))
            set_holder(&r->cm.file[i], child, true);
    }
}

void cm_drop_holder(struct region *r, uint32_t proc)
{
    lock_take(&r->cm.lock);
    for (uint32_t i = 0; i < r->cm.nfiles; i++) {
        struct cm_file *f = &r->cm.file[i];

        if (!f->used)
            continue;
        set_holder(f, proc, false);
        if (f->proc == proc) {
            atomic_store(&f->closed, 1);
            f->proc = NONE;
        }
        if (!has_holders(f))
            atomic_fetch_add(&r->cm.nabandoned, 1);
    }
    lock_give(&r->cm.lock);
    if (atomic_load(&r->cm.nabandoned))
        fabric_wake(process_self());
}

void cm_file_end_abandoned(struct region *r, struct cm_outbox *out)
{
    if (!atomic_load(&r->cm.nabandoned))
        return;
    lock_take(&r->cm.lock);
    atomic_store(&r->cm.nabandoned, 0);
    for (uint32_t i = 0; i < r->cm.nfiles; i++) {
        if (r->cm.file[i].used && !has_holders(&r->cm.file[i]))
            end(r, i, out);
    }
    lock_give(&r->cm.lock);
}

/* ---- opening and closing ---- */

static struct cm_file *take_file(struct region *r)
{
    for (uint32_t i = 0; i < CM_FILES; i++) {
        struct cm_file *f = &r->cm.file[i];

        if (f->used)
            continue;
        atomic_store(&f->generation, ++r->cm.generation);
        atomic_store(&f->closed, 0);
        f->proc = process.proc;
        f->head = f->tail = f->owed = 0;
        for (size_t k = 0; k < NELEM(f->holders); k++)
            atomic_store(&f->holders[k], 0);
        set_holder(f, process.proc, true);
        getresuid(&f->uid[0], &f->uid[1], &f->uid[2]);
        getresgid(&f->gid[0], &f->gid[1], &f->gid[2]);
        if (i >= r->cm.nfiles)
            r->cm.nfiles = i + 1;
        f->used = 1;
        return f;
    }
    return NULL;
}

bool cm_file_allows(const struct cm_file *f)
{
    uint32_t uid[3], gid[3];

    getresuid(&uid[0], &uid[1], &uid[2]);
    getresgid(&gid[0], &gid[1], &gid[2]);
    return f->proc == process.proc && memcmp(uid, f->uid, sizeof(uid)) == 0 &&
           memcmp(gid, f->gid, sizeof(gid)) == 0;
}

/* Both descriptions of a new pipe; -errno. */
static int open_pipe(int flags, int *ret_both)
{
    char path[40];
    int fds[2], both;

    if (pipe2(fds, flags & O_CLOEXEC) != 0)
        return -errno;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
    both = libc_get()->open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    libc_get()->close(fds[1]);
    if (both < 0 || fds[0] >= FD_LIMIT) {
        int err = both < 0 ? errno : EMFILE;

        if (both >= 0)
            libc_get()->close(both);
        libc_get()->close(fds[0]);
        return -err;
    }
    if (flags & O_NONBLOCK)
        libc_get()->fcntl(fds[0], F_SETFL, O_NONBLOCK);
    *ret_both = fd_make_internal(both);
    return fds[0];
}

int cm_open(int flags)
{
    int fd, both = -1, err = process_join();
    struct region *r = process.region;
    struct cm_file *f;

    if (err)
        return -err;
    fd = open_pipe(flags, &both);
    if (fd < 0)
        return fd;
    lock_take(&r->lock);
    process_reap(r);
    lock_give(&r->lock);
    lock_take(&r->cm.lock);
    f = take_file(r);
    if (f) {
        f->write_fd = both;
        mine[f - r->cm.file].both_fd = both;
        atomic_store(&mine[f - r->cm.file].descriptors, 1);
    }
    lock_give(&r->cm.lock);
    if (!f) {
        fd_close_internal(both);
        libc_get()->close(fd);
        return -ENFILE;
    }
    fd_set_kind(fd, FD_CM, (uint32_t)(f - r->cm.file));
    return fd;
}

void cm_add_fd(uint32_t file, int fd)
{
    atomic_fetch_add(&mine[file].descriptors, 1);
    fd_set_kind(fd, FD_CM, file);
}

void cm_fd_closes(void)
{
    nanosleep(&(struct timespec){0, CLOSING_NS}, NULL);
}

void cm_fd_closed(uint32_t file)
{
    struct region *r = process.region;
    struct cm_file *f = &r->cm.file[file];
    struct cm_outbox out = {0};

    if (atomic_fetch_sub(&mine[file].descriptors, 1) != 1)
        return;
    lock_take(&r->cm.lock);
    if (f->proc == process.proc)
        atomic_store(&f->closed, 1); /* before the number is given back: see borrow.c */
    set_holder(f, process.proc, false);
    if (!has_holders(f))
        end(r, file, &out);
    fd_close_internal(mine[file].both_fd);
    lock_give(&r->cm.lock);
    cm_outbox_deliver(&out);
}
