/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the stand-in libcuda offers beside the driver's functions: devices, memory, faults and a log, for
 * tests/cuda_control.py. The numbers are those of the driver.
 */
#ifndef TESTS_CUDA_H
#define TESTS_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    NOT_SUPPORTED = 801,
    STREAM_CAPTURE_UNSUPPORTED = 900,
    STREAM_CAPTURE_INVALIDATED = 901,
};

enum kind { FREE, DEVICE, POOL, MANAGED, PINNED, MAPPED };

/* Everything as at the start: two devices, no memory, no faults, an empty log. */
EXPORT void fake_reset(void);

/* A device attribute; what cuPointerGetAttribute(15) says of a device's memory is attribute 116. */
EXPORT void fake_attribute(int device, int attribute, int value);

/* Memory of a kind; `shift` bytes into its first page, of the exact size. 0 where there is no room. */
EXPORT uint64_t fake_alloc(int kind, int device, uint64_t size, uint64_t shift);

/* An allocation of its own inside of the pages of another: small ones share them. */
EXPORT void fake_place(int kind, int device, uint64_t address, uint64_t size);

/* Addresses without memory, and memory mapped there; location: CUmemLocationType, 1 a device, 2 to 4 the host. */
EXPORT uint64_t fake_reserve(uint64_t size);
EXPORT int fake_map(uint64_t address, uint64_t size, int device, int location, int properties);

/* Frees what begins at an address. */
EXPORT int fake_free(uint64_t address);

/* Where a test reads and writes what lies at a device address: the device's own addresses cannot be touched. */
EXPORT void *fake_view(uint64_t address);

/*
 * The n-th call from now on of a function (1: the next), or of any where the name is "", gives a code; 0 for n: every.
 * A code below 0 ends the process.
 */
EXPORT void fake_fail(const char *function, unsigned n, int code);

/* The next call of a function stops, until this is asked again, for no function ("") if none is to stop; does one stand? */
EXPORT void fake_stop_at(const char *function);
EXPORT int fake_stopped(void);

/* No failures from now on, and an empty log. */
EXPORT void fake_forget(void);

/* What an export with the PCIe flag gives. */
EXPORT void fake_pcie(int code);

/* Driver calls since the start or the last reset, one a line: name, thread's current context, arguments. */
EXPORT const char *fake_log(void);

/* Primary contexts: how often a device's is retained. */
EXPORT int fake_retained(int device);

/* A further context of a device. */
EXPORT void *fake_context(int device);

#endif
