/* SPDX-License-Identifier: BSD-3-Clause */
/* When CUDA sees what a NIC wrote, and a NIC what CUDA wrote. */
#ifndef CUDA_ORDER_H
#define CUDA_ORDER_H

#include "scope.h"

/* CUflushGPUDirectRDMAWritesScope, and what the attribute CUDA_DEVICE_WRITES_ORDERING answers. */
enum cuda_order { CUDA_ORDER_OWNER = 100, CUDA_ORDER_ALL_DEVICES = 200 };

/*
 * Makes what a NIC wrote to memory of the current context's device visible to work on that device, or on all of
 * them. Calls the driver only where it says that this is needed. Returns the code: CUDA_INVALID_CONTEXT where no
 * context is current, CUDA_NO_FLUSH where the device has no flush for the host to call.
 */
int cuda_flush_current(enum cuda_order scope, struct cuda_fault *fault);

/* The same for memory that belongs elsewhere. */
int cuda_flush(struct cuda_place place, enum cuda_order scope, struct cuda_fault *fault);

/*
 * Waits for the work of the current context; without one, of every primary context that is active. Returns the
 * code; nothing to wait for is no failure.
 */
int cuda_synchronize(struct cuda_fault *fault);

#endif
