/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of other processes' descriptors (pidfd_getfd, Linux 5.6; the rights are those of process_vm_writev),
 * kept for as long as the pipe they belong to is the one last used at its place. */
#include "borrow.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../config.h"
#include "../fd.h"
#include "../libc.h"
#include "../process.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define PLACES 64

static struct place {
    uint64_t instance; /* of the region; 0: empty */
    uint32_t key, generation;
    int fd; /* -1: it was tried and is not possible */
} places[PLACES];
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;

/* The owner says that the channel is closed before it gives the number back: if it has not said so afterwards, the
 * number was still the channel's when the copy was made. */
static int fetch(const struct proc *p, const struct borrow_pipe *pipe, uint32_t generation)
{
    int fd, pidfd;

    if (config.copy == COPY_AGENT || p->pid_space != process.pid_space)
        return -1;
    pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (pidfd < 0)
        return -1;
    fd = (int)syscall(SYS_pidfd_getfd, pidfd, pipe->write_fd, 0);
    libc_get()->close(pidfd);
    if (fd >= 0 && (atomic_load(pipe->closed) || atomic_load(pipe->generation) != generation)) {
        libc_get()->close(fd);
        return -1;
    }
    return fd_make_internal(fd);
}

/* A write that gets EPIPE instead of a signal: the reader may die at any time. */
static bool write_quietly(int fd, const void *event, size_t size, _Atomic uint32_t *count)
{
    sigset_t pipe_only, old, pending;
    bool ok, was_pending;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
    if (count)
        atomic_fetch_add(count, 1);
    ok = libc_get()->write(fd, event, size) == (ssize_t)size;
    if (!ok && count)
        atomic_fetch_sub(count, 1);
    if (!ok && errno == EPIPE && !was_pending)
        sigtimedwait(&pipe_only, NULL, &(struct timespec){0, 0});
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

bool borrow_write(struct region *r, const struct borrow_pipe *pipe, const void *event, size_t size,
                  _Atomic uint32_t *count)
{
    struct place *place = &places[(pipe->key + r->slot) % PLACES];
    struct proc *owner = &r->proc[pipe->proc % MAX_PROCS];
    uint32_t generation = atomic_load(pipe->generation);
    bool ok = false;

    if (!process_alive(owner))
        return false;
    pthread_mutex_lock(&places_lock);
    if (place->instance != r->instance || place->key != pipe->key || place->generation != generation) {
        if (place->instance)
            fd_close_internal(place->fd);
        *place = (struct place){r->instance, pipe->key, generation, -1};
        place->fd = fetch(owner, pipe, generation);
    }
    if (place->fd >= 0)
        ok = write_quietly(place->fd, event, size, count);
    pthread_mutex_unlock(&places_lock);
    return ok;
}

void borrow_before_fork(void)
{
    pthread_mutex_lock(&places_lock);
}

void borrow_after_fork(void)
{
    pthread_mutex_unlock(&places_lock);
}
