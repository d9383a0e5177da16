/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a context current for the time of a call. See scope.h. */
#include "scope.h"

static int release(int device, struct cuda_fault *fault)
{
    if (cuda_driver.cuDevicePrimaryCtxRelease_v2)
        return CUDA_CALL(fault, cuDevicePrimaryCtxRelease_v2, device);
    return CUDA_CALL(fault, cuDevicePrimaryCtxRelease, device);
}

int cuda_enter(struct cuda_scope *scope, struct cuda_place place, struct cuda_fault *fault)
{
    void *wanted = place.context, *current = NULL;
    int device;

    scope->pushed = false;
    scope->retained = -1;
    if (!wanted) {
        if (CUDA_CALL(fault, cuDeviceGet, &device, place.ordinal) ||
            CUDA_CALL(fault, cuDevicePrimaryCtxRetain, &wanted, device))
            return fault->code;
        scope->retained = device;
    }

    if (CUDA_CALL(fault, cuCtxGetCurrent, &current) == CUDA_OK && current != wanted &&
        CUDA_CALL(fault, cuCtxPushCurrent_v2, wanted) == CUDA_OK)
        scope->pushed = true;
    if (fault->code)
        cuda_leave(scope, fault);
    return fault->code;
}

void cuda_leave(struct cuda_scope *scope, struct cuda_fault *fault)
{
    struct cuda_fault own = {0};
    void *popped;

    if (scope->pushed && CUDA_CALL(&own, cuCtxPopCurrent_v2, &popped) && !fault->code)
        *fault = own;
    if (scope->retained >= 0 && release(scope->retained, &own) && !fault->code)
        *fault = own;
}
