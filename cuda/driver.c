/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of libcuda. See driver.h. */
#include "driver.h"

#include <string.h>

#include "loader.h"

#define CUDA_SONAME "libcuda.so.1"

struct cuda_driver cuda_driver;

/* All optional: which of them a call needs is known when it is made. */
static const struct loader_symbol symbols[] = {
#define SYMBOL(name, since, parameters) {#name, offsetof(struct cuda_driver, name), false, since},
    CUDA_SYMBOLS(SYMBOL)
#undef SYMBOL
};

int cuda_driver_open(char *reason, size_t reason_size)
{
    static bool opened;
    struct cuda_driver table;
    void *handle;

    if (opened)
        return 0;
    handle = loader_open(CUDA_SONAME, "RDMA_CUDA_LIBRARY_PATH", reason, reason_size);
    if (!handle || loader_bind(handle, &table, symbols, sizeof symbols / sizeof *symbols, reason, reason_size) < 0)
        return -1;
    cuda_driver = table;
    opened = true;
    return 0;
}

const char *cuda_driver_since(const char *function)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strcmp(symbols[i].name, function) == 0)
            return symbols[i].since;
    return "?";
}

int cuda_driver_init(struct cuda_fault *fault)
{
    return CUDA_CALL(fault, cuInit, 0);
}
