/* SPDX-License-Identifier: BSD-3-Clause */
/* Flushing and synchronizing. See order.h. */
#include "order.h"

#define TARGET_CURRENT_CONTEXT 0
#define FLUSH_FROM_HOST 1 /* in CUDA_DEVICE_FLUSH_OPTIONS */

/* A device attribute; a driver too old to know it says INVALID_VALUE, which is "none". Other failures are the fault's. */
static int attribute(int device, enum cuda_device_attribute which, struct cuda_fault *fault)
{
    int value = 0;

    if (CUDA_CALL(fault, cuDeviceGetAttribute, &value, which, device) != CUDA_INVALID_VALUE)
        return value;
    fault->code = CUDA_OK;
    return 0;
}

int cuda_flush_current(enum cuda_order scope, struct cuda_fault *fault)
{
    int device, ordering, options;

    if (CUDA_CALL(fault, cuCtxGetDevice, &device))
        return fault->code;
    ordering = attribute(device, CUDA_DEVICE_WRITES_ORDERING, fault);
    if (fault->code || (int)scope <= ordering)
        return fault->code;
    options = attribute(device, CUDA_DEVICE_FLUSH_OPTIONS, fault);
    if (fault->code)
        return fault->code;
    if (!(options & FLUSH_FROM_HOST)) {
        fault->operation = "cuFlushGPUDirectRDMAWrites";
        return fault->code = CUDA_NO_FLUSH;
    }
    return CUDA_CALL(fault, cuFlushGPUDirectRDMAWrites, TARGET_CURRENT_CONTEXT, (int)scope);
}

int cuda_flush(struct cuda_place place, enum cuda_order scope, struct cuda_fault *fault)
{
    struct cuda_scope entered;

    if (cuda_enter(&entered, place, fault))
        return fault->code;
    cuda_flush_current(scope, fault);
    cuda_leave(&entered, fault);
    return fault->code;
}

static int synchronize_primary(int ordinal, struct cuda_fault *fault)
{
    struct cuda_scope scope;
    unsigned flags;
    int device, active;

    if (CUDA_CALL(fault, cuDeviceGet, &device, ordinal) ||
        CUDA_CALL(fault, cuDevicePrimaryCtxGetState, device, &flags, &active) || !active)
        return fault->code;
    if (cuda_enter(&scope, (struct cuda_place){NULL, ordinal}, fault))
        return fault->code;
    (void)CUDA_CALL(fault, cuCtxSynchronize);
    cuda_leave(&scope, fault);
    return fault->code;
}

int cuda_synchronize(struct cuda_fault *fault)
{
    void *current = NULL;
    int count = 0;

    if (CUDA_CALL(fault, cuCtxGetCurrent, &current)) {
        if (fault->code == CUDA_NOT_INITIALIZED) /* nobody used CUDA yet */
            fault->code = CUDA_OK;
        return fault->code;
    }
    if (current)
        return CUDA_CALL(fault, cuCtxSynchronize);
    if (CUDA_CALL(fault, cuDeviceGetCount, &count))
        return fault->code == CUDA_NOT_INITIALIZED ? (fault->code = CUDA_OK) : fault->code;
    for (int i = 0; i < count; i++)
        if (synchronize_primary(i, fault))
            return fault->code;
    return CUDA_OK;
}
