/* SPDX-License-Identifier: BSD-3-Clause */
/* What every file of the host needs: the C library's headers in an order that suits the kernel's, and a few
 * helpers. */
#ifndef SOFTRDMA_BASE_H
#define SOFTRDMA_BASE_H

/* A build that asks for 64-bit files would have the headers rename the calls that we define; here both names
 * mean one. */
#undef _FILE_OFFSET_BITS

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <netinet/in.h> /* before the rdma headers, which pull in linux/in.h */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

_Static_assert(sizeof(void *) == 8, "64-bit hosts only: struct stat and off_t have one form there");

#define EXPORT __attribute__((visibility("default")))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
/* Thread-local storage that a signal handler may touch: no lazy allocation, so the library must be there from
 * the start. */
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

/* For what a sanitizer calls before it is ready itself. */
#define UNWATCHED __attribute__((no_sanitize("thread"), no_sanitize("address")))

#define CACHE_LINE 64
#define NELEM(a) (sizeof(a) / sizeof((a)[0]))

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t align_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* The smallest power of two that is not below value. */
static inline uint32_t pow2_at_least(uint32_t value)
{
    uint32_t p = 1;

    while (p < value)
        p <<= 1;
    return p;
}

uint64_t now_ns(void); /* monotonic */

#endif
