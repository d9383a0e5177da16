/* SPDX-License-Identifier: BSD-3-Clause */
/* The C library's calls that we stand in front of. Each asks one question (is this path, or this descriptor, ours?) and
 * otherwise does nothing but pass on. To be included first: the headers' checked inlines would have the same names. */
#ifndef SOFTRDMA_PRELOAD_PRELOAD_H
#define SOFTRDMA_PRELOAD_PRELOAD_H

#undef _FORTIFY_SOURCE
#include "../base.h"

#include "../libc.h"

static inline int fail(int err)
{
    errno = err;
    return -1;
}

#endif
