/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA context that a call needs: the one that owns the memory, or the primary context of the device where the
 * memory has none (VMM, pools). It is current on the calling thread between enter and leave, and nothing that the
 * thread had before is changed: not the current context, not the depth of its stack, not the count of the primary one.
 *
 * No code of the caller's may run in between, so all of it happens inside one C call, without the GIL.
 */
#ifndef CUDA_SCOPE_H
#define CUDA_SCOPE_H

#include "driver.h"

/* Where memory belongs. */
struct cuda_place {
    void *context; /* CUcontext, NULL where none owns it */
    int ordinal;   /* of the device, as the driver counts them */
};

struct cuda_scope {
    bool pushed;
    int retained; /* the CUdevice whose primary context was retained, or -1 */
};

/* Returns the code; on failure nothing is to be left. */
int cuda_enter(struct cuda_scope *scope, struct cuda_place place, struct cuda_fault *fault);

/* Undoes enter, on every path. A failure of its own is reported only where `fault` holds none yet. */
void cuda_leave(struct cuda_scope *scope, struct cuda_fault *fault);

#endif
