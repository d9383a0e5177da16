/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the driver knows about an address: what kind of memory it is, who owns it, and which allocations (or mappings,
 * where virtual memory was mapped piece by piece) a range lies in.
 */
#ifndef CUDA_POINTER_H
#define CUDA_POINTER_H

#include "scope.h"

enum cuda_kind {
    CUDA_KIND_HOST,     /* plain memory: the driver does not know it */
    CUDA_KIND_PINNED,   /* host memory that CUDA allocated or registered */
    CUDA_KIND_MANAGED,  /* cuMemAllocManaged: moves between host and device. Asking to export it may crash the driver */
    CUDA_KIND_DEVICE,   /* cuMemAlloc: owned by a context */
    CUDA_KIND_POOL,     /* cuMemAllocAsync */
    CUDA_KIND_VMM,      /* mapped with cuMemMap */
    CUDA_KIND_VMM_HOST, /* the same, and its pages lie in host memory */
    CUDA_KIND_UNMAPPED, /* reserved, with nothing mapped there */
    CUDA_KIND_OTHER,    /* device memory that is none of the above: an array, another process's */
};

struct cuda_pointer {
    enum cuda_kind kind;
    struct cuda_place place;
    uint64_t buffer_id; /* of the allocation; never used again in this process */
    bool peer_memory;   /* the driver lets other drivers pin it */
};

/* Classifies an address. Needs no current context. Returns the code: what is filled in then is not to be used. */
int cuda_pointer_query(uint64_t pointer, struct cuda_pointer *ret, struct cuda_fault *fault);

/* One allocation or mapping. */
struct cuda_range {
    uint64_t base;
    uint64_t size;
    uint64_t buffer_id;
    int ordinal; /* of the device */
};

/*
 * The ranges that pointer … pointer + length (at least 1) lies in, in order, in a block that the caller frees. Returns the code;
 * on failure there is no block, and `ret_stopped` is the address that the walk stopped at: CUDA_INVALID_VALUE or
 * CUDA_NOT_FOUND mean that no memory is mapped there.
 */
int cuda_ranges(struct cuda_place place, uint64_t pointer, uint64_t length, struct cuda_range **ret_ranges,
                size_t *ret_count, uint64_t *ret_stopped, struct cuda_fault *fault);

#endif
