/* SPDX-License-Identifier: BSD-3-Clause */
/* What is done with a descriptor: commands, events, doorbells. */
#include "preload.h"

#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../cm/cm.h"
#include "../doorbell.h"
#include "../fd.h"
#include "../uverbs.h"

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    uint32_t context;
    va_list ap;
    void *arg;
    int err;

    va_start(ap, request);
    arg = va_arg(ap, void *);
    va_end(ap);
    if (fd_kind(fd, &context) != FD_COMMAND)
        return libc_get()->ioctl(fd, request, arg);
    if (request != RDMA_VERBS_IOCTL)
        return fail(ENOTTY);
    err = uverbs_ioctl(context, arg);
    return err ? fail(err) : 0;
}

/* Doorbells are not memory (doorbell.h). Everything else goes on, to a sanitizer too, which wants to know; but straight
 * to the kernel while the C library's call is not known, for finding it allocates, and allocators map memory by these. */
EXPORT UNWATCHED void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
    const struct libc *next = libc_if_ready();
    uint32_t context;

    if (doorbell_is_key((uint64_t)offset) && fd_kind(fd, &context) == FD_COMMAND) {
        void *p = doorbell_map(context, (uint64_t)offset, length);

        return p ? p : MAP_FAILED;
    }
    if (next)
        return next->mmap(addr, length, prot, flags, fd, offset);
    return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

EXPORT UNWATCHED void *mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
    return mmap(addr, length, prot, flags, fd, offset);
}

EXPORT UNWATCHED int munmap(void *addr, size_t length)
{
    const struct libc *next = libc_if_ready();

    if (doorbell_is_at(addr)) /* its place stays reserved */
        return 0;
    if (next)
        return next->munmap(addr, length);
    return (int)syscall(SYS_munmap, addr, length);
}

/* The kernel gives one event with each read, and none to a buffer that is too small. */
EXPORT ssize_t read(int fd, void *buf, size_t length)
{
    uint32_t index;
    enum fd_kind kind = fd_kind(fd, &index);
    size_t event = kind == FD_CHANNEL ? sizeof(struct ib_uverbs_comp_event_desc)
                                      : sizeof(struct ib_uverbs_async_event_desc);
    ssize_t got;

    if (kind == FD_CM) /* events are asked for by commands */
        return fail(EINVAL);
    if (kind != FD_CHANNEL && kind != FD_ASYNC)
        return libc_get()->read(fd, buf, length);
    if (length < event)
        return fail(EINVAL);
    got = libc_get()->read(fd, buf, event);
    return got == 0 ? fail(EIO) : got; /* the device has gone, and with it whoever would write events */
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t length, size_t size);
EXPORT ssize_t __read_chk(int fd, void *buf, size_t length, size_t size)
{
    if (length > size)
        abort(); /* what the checked call does */
    return read(fd, buf, length);
}

EXPORT ssize_t write(int fd, const void *buf, size_t length)
{
    uint32_t index;
    enum fd_kind kind = fd_kind(fd, &index);

    if (kind == FD_COMMAND)
        return uverbs_write(index, buf, length);
    return kind == FD_CM ? cm_write(index, fd, buf, length) : libc_get()->write(fd, buf, length);
}
