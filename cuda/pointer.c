/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking the driver about addresses. See pointer.h. */
#include "pointer.h"

#include <stdlib.h>

/* CUpointer_attribute */
enum {
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_BUFFER_ID = 7,
    POINTER_IS_MANAGED = 8,
    POINTER_DEVICE_ORDINAL = 9,
    POINTER_RANGE_SIZE = 12,
    POINTER_MAPPED = 13,
    POINTER_RDMA_CAPABLE = 15,
    POINTER_MEMPOOL = 17,
};

/* CUmemorytype */
enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_UNIFIED = 4 };

#define LOCATION_DEVICE 1 /* CUmemLocationType; 2 to 4 are the host and its NUMA nodes */

/* CUmemAllocationProp: 32 bytes in every release. */
struct allocation_properties {
    int type;
    int handle_types;
    int location_type;
    int location_id;
    void *windows;
    unsigned char flags[8];
};
_Static_assert(sizeof(struct allocation_properties) == 32, "the size that the driver writes");

/*
 * One attribute, 0 where the driver does not know the address or the attribute, or such memory has none. Any other
 * failure goes to `fault`, which keeps the first, for what is decided by the answer: "not managed" must not be taken
 * from a driver that could not say. NULL where 0 is safe. Attributes have one to eight bytes, so the slot is cleared
 * before and read as the narrowest little-endian integer that holds it.
 */
static uint64_t ask(uint64_t pointer, int attribute, struct cuda_fault *fault)
{
    struct cuda_fault own;
    uint64_t slot = 0;

    if (!CUDA_CALL(&own, cuPointerGetAttribute, &slot, attribute, pointer))
        return slot;
    if (fault && !fault->code && own.code != CUDA_INVALID_VALUE && own.code != CUDA_NOT_SUPPORTED)
        *fault = own;
    return 0;
}

static int ask_ordinal(uint64_t pointer, struct cuda_fault *fault)
{
    return (int)(uint32_t)ask(pointer, POINTER_DEVICE_ORDINAL, fault);
}

/* Whether an address was mapped with cuMemMap, and where its pages lie. */
static enum cuda_kind mapped_kind(uint64_t pointer)
{
    struct allocation_properties properties = {0};
    struct cuda_fault fault;
    uint64_t handle = 0;
    int failed;

    if (CUDA_CALL(&fault, cuMemRetainAllocationHandle, &handle, (void *)(uintptr_t)pointer))
        return CUDA_KIND_OTHER;
    failed = CUDA_CALL(&fault, cuMemGetAllocationPropertiesFromHandle, &properties, handle);
    (void)CUDA_CALL(&fault, cuMemRelease, handle);
    return !failed && properties.location_type > LOCATION_DEVICE ? CUDA_KIND_VMM_HOST : CUDA_KIND_VMM;
}

static enum cuda_kind device_kind(uint64_t pointer, const void *context, struct cuda_fault *fault)
{
    enum cuda_kind kind;

    if (ask(pointer, POINTER_MEMPOOL, NULL))
        return CUDA_KIND_POOL;
    if (context)
        return CUDA_KIND_DEVICE;
    kind = mapped_kind(pointer);
    if (kind == CUDA_KIND_OTHER && !ask(pointer, POINTER_MAPPED, fault))
        return CUDA_KIND_UNMAPPED;
    return kind;
}

int cuda_pointer_query(uint64_t pointer, struct cuda_pointer *ret, struct cuda_fault *fault)
{
    uint64_t type = 0;
    int code = CUDA_CALL(fault, cuPointerGetAttribute, &type, POINTER_MEMORY_TYPE, pointer);

    *ret = (struct cuda_pointer){.kind = CUDA_KIND_HOST, .place.ordinal = -1};
    if (code && code != CUDA_INVALID_VALUE)
        return code;
    fault->code = CUDA_OK;
    if (ask(pointer, POINTER_IS_MANAGED, fault)) { /* before all else: such memory says that it is a device's */
        ret->kind = CUDA_KIND_MANAGED;
        return fault->code;
    }
    if (code || (uint32_t)type == 0) {
        if (ask(pointer, POINTER_RANGE_SIZE, NULL)) /* reserved, then: it lies in a range, and has no type */
            ret->kind = CUDA_KIND_UNMAPPED;
        return fault->code;
    }

    ret->place.ordinal = ask_ordinal(pointer, fault);
    ret->place.context = (void *)(uintptr_t)ask(pointer, POINTER_CONTEXT, fault);
    ret->buffer_id = ask(pointer, POINTER_BUFFER_ID, NULL);
    ret->peer_memory = ask(pointer, POINTER_RDMA_CAPABLE, NULL) & 1;
    if ((uint32_t)type == MEMORY_HOST)
        ret->kind = CUDA_KIND_PINNED;
    else if ((uint32_t)type == MEMORY_DEVICE || (uint32_t)type == MEMORY_UNIFIED)
        ret->kind = device_kind(pointer, ret->place.context, fault);
    else
        ret->kind = CUDA_KIND_OTHER;
    return fault->code;
}

/* ---- ranges ---------------------------------------------------------------------------------------------------- */

/* Adds a range to a block that grows by doubling. Returns 0, or -1 where there is no memory; the block stays valid. */
static int append(struct cuda_range **ranges, size_t *count, struct cuda_range range)
{
    if ((*count & (*count - 1)) == 0) { /* 0 or a power of two: full */
        size_t room = *count ? *count * 2 : 1;
        struct cuda_range *grown = room > SIZE_MAX / sizeof **ranges ? NULL : realloc(*ranges, room * sizeof **ranges);

        if (!grown)
            return -1;
        *ranges = grown;
    }
    (*ranges)[(*count)++] = range;
    return 0;
}

/* `last` is the address of the last byte: the end of a range may be where addresses end. */
static int walk(uint64_t at, uint64_t last, struct cuda_range **ranges, size_t *count, uint64_t *ret_stopped,
                struct cuda_fault *fault)
{
    while (at <= last) {
        struct cuda_range range = {0};
        size_t size = 0;

        *ret_stopped = at;
        if (CUDA_CALL(fault, cuMemGetAddressRange_v2, &range.base, &size, at))
            return fault->code;
        if (!range.base || at < range.base || at - range.base >= size)
            return fault->code = CUDA_ODD_RANGE;
        range.size = size;
        range.buffer_id = ask(at, POINTER_BUFFER_ID, NULL);
        range.ordinal = ask_ordinal(at, fault);
        if (fault->code)
            return fault->code;
        if (append(ranges, count, range) < 0)
            return fault->code = CUDA_NO_MEMORY;
        if (range.size > UINT64_MAX - range.base)
            break; /* nothing can come behind it */
        at = range.base + range.size;
    }
    return CUDA_OK;
}

int cuda_ranges(struct cuda_place place, uint64_t pointer, uint64_t length, struct cuda_range **ret_ranges,
                size_t *ret_count, uint64_t *ret_stopped, struct cuda_fault *fault)
{
    struct cuda_scope scope;

    *ret_ranges = NULL;
    *ret_count = 0;
    *ret_stopped = pointer;
    if (cuda_enter(&scope, place, fault))
        return fault->code;
    walk(pointer, pointer + (length - 1), ret_ranges, ret_count, ret_stopped, fault);
    cuda_leave(&scope, fault);
    if (fault->code) {
        free(*ret_ranges);
        *ret_ranges = NULL;
    }
    return fault->code;
}
