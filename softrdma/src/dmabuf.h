/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that comes by a descriptor: what the kernel does with a dma-buf. A memfd stands in for memory that a driver
 * exports. */
#ifndef SOFTRDMA_DMABUF_H
#define SOFTRDMA_DMABUF_H

#include "base.h"

struct dmabuf {
    uint64_t mapping, mapped; /* what was mapped, in whole pages; 0: nothing */
    uint64_t start;           /* where the part that was asked for begins */
};

/* Maps a part of the file, for reading and writing, into this process; 0 or errno. */
int dmabuf_map(int fd, uint64_t offset, uint64_t length, struct dmabuf *ret_buffer);
void dmabuf_unmap(uint64_t mapping, uint64_t mapped);

#endif
