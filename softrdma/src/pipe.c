/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipes of events. See pipe.h. */
#include "pipe.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fd.h"
#include "libc.h"
#include "process.h"

int pipe_open(struct pipe_ends *ends, uint32_t generation)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return -errno;
    if (fds[0] >= FD_LIMIT) {
        libc_get()->close(fds[0]);
        libc_get()->close(fds[1]);
        return -EMFILE;
    }
    libc_get()->fcntl(fds[1], F_SETFL, O_NONBLOCK);
    ends->read_fd = fds[0];
    ends->write_fd = fd_make_internal(fds[1]);
    ends->generation = generation;
    return fds[0];
}

void pipe_close(struct pipe_ends *ends, int fd)
{
    uint32_t generation = ends->generation;
    int write_fd = ends->write_fd;

    if (!generation || ends->read_fd != fd ||
        !atomic_compare_exchange_strong(&ends->generation, &generation, 0))
        return;
    while (atomic_load(&ends->users)) /* none of them waits for anything */
        sched_yield();
    fd_close_internal(write_fd);
}

bool pipe_get(struct region *r, struct pipe_ends *ends, uint32_t generation)
{
    if (r != process.region || !generation || ends->generation != generation)
        return false;
    atomic_fetch_add(&ends->users, 1);
    if (ends->generation == generation)
        return true;
    atomic_fetch_sub(&ends->users, 1);
    return false;
}

void pipe_put(struct pipe_ends *ends)
{
    atomic_fetch_sub(&ends->users, 1);
}

bool pipe_write(const struct pipe_ends *ends, const void *event, size_t size)
{
    return libc_get()->write(ends->write_fd, event, size) == (ssize_t)size;
}

void pipe_close_reader(struct pipe_ends *ends, int fd)
{
    if (ends->read_fd == fd)
        atomic_store(&ends->ended, 0);
    pipe_close(ends, fd);
}

int pipe_open_again(int read_fd)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", read_fd);
    return libc_get()->open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

void pipe_end(struct pipe_ends *ends)
{
    uint32_t generation = ends->generation;

    atomic_store(&ends->ended, generation);
    pipe_close(ends, ends->read_fd);
}

uint32_t pipe_count_unread(struct pipe_ends *ends, uint32_t generation, uint64_t element, size_t size)
{
    uint64_t event[2];
    uint32_t unread = 0;
    int copy[2];

    if (!generation || atomic_load(&ends->ended) != generation || pipe2(copy, O_CLOEXEC | O_NONBLOCK) != 0)
        return 0;
    if (tee(ends->read_fd, copy[1], 1 << 20, SPLICE_F_NONBLOCK) > 0) {
        while (libc_get()->read(copy[0], event, size) == (ssize_t)size)
            unread += event[0] == element;
    }
    libc_get()->close(copy[0]);
    libc_get()->close(copy[1]);
    return unread;
}

uint32_t pipe_take_back(const struct pipe_ends *ends, uint64_t element, size_t size)
{
    uint64_t event[2];
    uint32_t gone = 0;
    int n = 0, fd = pipe_open_again(ends->read_fd);

    if (fd < 0)
        return 0;
    if (libc_get()->ioctl(fd, FIONREAD, &n) != 0)
        n = 0;
    for (n /= (int)size; n > 0 && libc_get()->read(fd, event, size) == (ssize_t)size; n--) {
        if (event[0] == element)
            gone++;
        else
            pipe_write(ends, event, size);
    }
    libc_get()->close(fd);
    return gone;
}
