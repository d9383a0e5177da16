/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded behind the host: a write of an event's size takes a while to begin, as it may on any machine. */
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t write(int fd, const void *buf, size_t length);
ssize_t write(int fd, const void *buf, size_t length)
{
    if (length == 8) /* struct ib_uverbs_comp_event_desc */
        usleep(20);
    return syscall(SYS_write, fd, buf, length);
}
