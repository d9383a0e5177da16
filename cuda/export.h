/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory as a dma-buf: the descriptor by which another device's driver reaches it. */
#ifndef CUDA_EXPORT_H
#define CUDA_EXPORT_H

#include "scope.h"

#define CUDA_EXPORT_PCIE 1ull /* map through the PCIe bus on machines where CPU and GPU are otherwise one */

/*
 * Exports a range, which starts and ends on host pages, all of it mapped, on one device. The caller closes the
 * descriptor. Returns the code; on failure, that of giving the context back included, there is no descriptor.
 */
int cuda_export(struct cuda_place place, uint64_t pointer, uint64_t length, unsigned long long flags, int *ret_fd,
                struct cuda_fault *fault);

#endif
