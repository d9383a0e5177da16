/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libcuda, the user half of NVIDIA's driver: opened when first asked for, never closed, and declared by ourselves, so
 * that nothing of CUDA is needed to build. Knows no Python and holds no lock; every function here may block in the
 * driver, so callers that have the GIL give it up.
 */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver_symbols.h"
#include "loader.h"

struct cuda_driver {
#define CUDA_MEMBER(name, since, parameters) int(*name) parameters;
    CUDA_SYMBOLS(CUDA_MEMBER)
#undef CUDA_MEMBER
};

extern struct cuda_driver cuda_driver;

/* CUresult, as far as something depends on it; beside it two answers of our own. */
enum cuda_code {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_MISSING = -1,   /* the installed driver has no such function */
    CUDA_NO_FLUSH = -2,  /* a flush is needed, and the device offers none to the host */
    CUDA_ODD_RANGE = -3, /* the driver says that an address lies in a range which does not hold it */
    CUDA_NO_MEMORY = -4, /* malloc failed */
};

/* CUdevice_attribute */
enum cuda_device_attribute {
    CUDA_DEVICE_RDMA_WITH_VMM = 110,
    CUDA_DEVICE_RDMA = 116,
    CUDA_DEVICE_FLUSH_OPTIONS = 117,
    CUDA_DEVICE_WRITES_ORDERING = 118,
    CUDA_DEVICE_DMA_BUF = 124,
};

/* The call that failed and what it said. */
struct cuda_fault {
    const char *operation;
    int code;
};

/* Calls a function of the driver; the value is its code, which stands in the fault beside the name. */
#define CUDA_CALL(fault, function, ...)                                                                                \
    ((fault)->operation = #function,                                                                                   \
     (fault)->code = cuda_driver.function ? cuda_driver.function(__VA_ARGS__) : CUDA_MISSING)

/*
 * libcuda.so.1, from the directory that RDMA_CUDA_LIBRARY_PATH names if it is set, to be loaded before anything else
 * here is called; its functions' releases are CUDA's.
 */
extern struct loader_library cuda_library;

/* cuInit, which fixes what CUDA_VISIBLE_DEVICES says for the life of the process. Returns the code. */
int cuda_driver_init(struct cuda_fault *fault);

#endif
