/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapping files that stand for dma-bufs. */
#include "dmabuf.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libc.h"

int dmabuf_map(int fd, uint64_t offset, uint64_t length, struct dmabuf *ret_buffer)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = offset / page * page, size;
    struct stat file;
    void *p;

    if (libc_fstat(fd, &file) != 0)
        return EBADF;
    if (!S_ISREG(file.st_mode) || !length || offset + length < offset || offset + length > (uint64_t)file.st_size)
        return EINVAL;
    size = align_up(offset + length, page) - first;
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)first);
    if (p == MAP_FAILED)
        return errno == ENODEV ? EINVAL : errno;
    *ret_buffer = (struct dmabuf){(uintptr_t)p, size, (uintptr_t)p + (offset - first)};
    return 0;
}

void dmabuf_unmap(uint64_t mapping, uint64_t mapped)
{
    if (mapping)
        munmap((void *)(uintptr_t)mapping, mapped);
}
