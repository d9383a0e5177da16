/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that are closed and copied. */
#include "preload.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#include "../cm/cm.h"
#include "../context.h"
#include "../event.h"
#include "../fd.h"
#include "../process.h"

/* A descriptor of ours goes away. */
static void forget(int fd, enum fd_kind kind, uint32_t index)
{
    if (kind == FD_CM)
        cm_fd_closes();
    fd_set_kind(fd, FD_OTHER, 0);
    if (kind == FD_COMMAND)
        context_fd_closed(index);
    else if (kind == FD_ASYNC)
        event_async_fd_closed(index, fd);
    else if (kind == FD_CHANNEL)
        event_channel_fd_closed(index, fd);
    else if (kind == FD_CM)
        cm_fd_closed(index);
}

/* A descriptor was copied. */
static void copied(int from, int to)
{
    uint32_t index;

    enum fd_kind kind = fd_kind(from, &index);

    if (to < 0 || to >= FD_LIMIT || process_is_borrowed())
        return;
    if (kind == FD_COMMAND)
        context_add_fd(index, to);
    else if (kind == FD_CM)
        cm_add_fd(index, to);
}

EXPORT int close(int fd)
{
    uint32_t index;
    enum fd_kind kind = fd_kind(fd, &index);

    if (kind != FD_OTHER && !process_is_borrowed()) {
        if (kind == FD_INTERNAL)
            return fail(EBADF);
        forget(fd, kind, index);
    }
    return libc_get()->close(fd);
}

static int close_some(unsigned first, unsigned last, int flags)
{
    const struct libc *c = libc_get();

    if (!c->close_range)
        return fail(ENOSYS);
    return c->close_range(first, last, flags);
}

/* Our own descriptors stay; the stretches between them go. */
EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    unsigned from = first;

    if (flags || process_is_borrowed())
        return close_some(first, last, flags);
    if (first > last)
        return fail(EINVAL);
    for (unsigned fd = first; fd <= last && fd < FD_LIMIT; fd++) {
        uint32_t index;
        enum fd_kind kind = fd_kind((int)fd, &index);

        if (kind == FD_INTERNAL) {
            if (fd > from && close_some(from, fd - 1, 0) != 0)
                return -1;
            from = fd + 1;
        } else if (kind != FD_OTHER) {
            forget((int)fd, kind, index);
        }
    }
    return from <= last ? close_some(from, last, 0) : 0;
}

EXPORT void closefrom(int low)
{
    unsigned first = low < 0 ? 0 : (unsigned)low;

    if (close_range(first, UINT_MAX, 0) == 0)
        return;
    for (int fd = (int)first, limit = (int)sysconf(_SC_OPEN_MAX); fd < limit; fd++)
        close(fd);
}

EXPORT int dup(int fd)
{
    int to = libc_get()->dup(fd);

    copied(fd, to);
    return to;
}

/* The target of a dup2 is closed without a close. */
static int prepare_target(int fd, int to)
{
    uint32_t index;
    enum fd_kind kind = fd_kind(to, &index);

    if (fd == to || kind == FD_OTHER || process_is_borrowed())
        return 0;
    if (kind == FD_INTERNAL)
        return fail(EBUSY);
    forget(to, kind, index);
    return 0;
}

EXPORT int dup2(int fd, int to)
{
    int result;

    if (prepare_target(fd, to) != 0)
        return -1;
    result = libc_get()->dup2(fd, to);
    if (fd != to)
        copied(fd, result);
    return result;
}

EXPORT int dup3(int fd, int to, int flags)
{
    int result;

    if (prepare_target(fd, to) != 0)
        return -1;
    result = libc_get()->dup3(fd, to, flags);
    copied(fd, result);
    return result;
}

/* Every command takes at most one argument, of a word's size. */
static int do_fcntl(int (*next)(int, int, ...), int fd, int command, void *arg)
{
    int result = next(fd, command, arg);

    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        copied(fd, result);
    return result;
}

EXPORT int fcntl(int fd, int command, ...)
{
    va_list ap;
    void *arg;

    va_start(ap, command);
    arg = va_arg(ap, void *);
    va_end(ap);
    return do_fcntl(libc_get()->fcntl, fd, command, arg);
}

EXPORT int fcntl64(int fd, int command, ...)
{
    const struct libc *c = libc_get();
    va_list ap;
    void *arg;

    va_start(ap, command);
    arg = va_arg(ap, void *);
    va_end(ap);
    return do_fcntl(c->fcntl64 ? c->fcntl64 : c->fcntl, fd, command, arg);
}
