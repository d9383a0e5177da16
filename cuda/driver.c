/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of libcuda. See driver.h. */
#include "driver.h"

struct cuda_driver cuda_driver;

/* All optional: which of them a call needs is known when it is made. */
static const struct loader_symbol symbols[] = {
#define SYMBOL(name, since, parameters) {#name, offsetof(struct cuda_driver, name), false, since},
    CUDA_SYMBOLS(SYMBOL)
#undef SYMBOL
};

struct loader_library cuda_library = LOADER_LIBRARY("libcuda.so.1", "RDMA_CUDA_LIBRARY_PATH", symbols, &cuda_driver);

int cuda_driver_init(struct cuda_fault *fault)
{
    return CUDA_CALL(fault, cuInit, 0);
}
