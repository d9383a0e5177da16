/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of descriptors. */
#include "fd.h"

#include <fcntl.h>

#include "libc.h"

#define INTERNAL_FLOOR 960 /* programs number theirs from 0; a usual limit is 1024 */

_Atomic uint32_t fd_table[FD_LIMIT];

int fd_make_internal(int fd)
{
    int high;

    if (fd < 0)
        return fd;
    high = libc_get()->fcntl(fd, F_DUPFD_CLOEXEC, INTERNAL_FLOOR);
    if (high >= 0) {
        libc_get()->close(fd);
        fd = high;
    }
    fd_set_kind(fd, FD_INTERNAL, 0);
    return fd;
}

void fd_close_internal(int fd)
{
    if (fd < 0)
        return;
    fd_set_kind(fd, FD_OTHER, 0);
    libc_get()->close(fd);
}
