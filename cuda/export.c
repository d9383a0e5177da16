/* SPDX-License-Identifier: BSD-3-Clause */
/* cuMemGetHandleForAddressRange. See export.h. */
#include "export.h"

#include <unistd.h>

#define HANDLE_DMA_BUF_FD 1 /* CUmemRangeHandleType */

int cuda_export(struct cuda_place place, uint64_t pointer, uint64_t length, unsigned long long flags, int *ret_fd,
                struct cuda_fault *fault)
{
    struct cuda_scope scope;
    int fd = -1;

    *ret_fd = -1;
    if (cuda_enter(&scope, place, fault))
        return fault->code;
    (void)CUDA_CALL(fault, cuMemGetHandleForAddressRange, &fd, pointer, (size_t)length, HANDLE_DMA_BUF_FD, flags);
    if (fault->code)
        fd = -1;
    cuda_leave(&scope, fault);
    if (fault->code && fd >= 0) {
        close(fd);
        fd = -1;
    }
    *ret_fd = fd;
    return fault->code;
}
