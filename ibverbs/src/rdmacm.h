/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm as this package calls it: a table of what the library exports, filled when a connection is first asked for.
 * Knows no Python.
 */
#ifndef IBVERBS_RDMACM_H
#define IBVERBS_RDMACM_H

#include <rdma/rdma_cma.h>
#include <stddef.h>

#include "rdmacm_symbols.h"

struct rdmacm {
#define RDMACM_MEMBER(name, since) __typeof__(rdma_##name) *name;
    RDMACM_SYMBOLS(RDMACM_MEMBER, RDMACM_MEMBER)
#undef RDMACM_MEMBER
};

extern struct rdmacm rdmacm;

/* Opens librdmacm.so.1 and fills the table, once. Returns 0, or -1 with the reason. Callers hold the GIL. */
int rdmacm_load(char *reason, size_t reason_size);

/* The first rdma-core release that has a function ("23" for "rdma_establish"). */
const char *rdmacm_since(const char *name);

#endif
