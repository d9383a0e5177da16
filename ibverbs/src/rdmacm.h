/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm as this package calls it: a table of what the library exports, filled when a connection is first asked for.
 * Knows no Python.
 */
#ifndef IBVERBS_RDMACM_H
#define IBVERBS_RDMACM_H

#include <rdma/rdma_cma.h>
#include <stddef.h>

#include "loader.h"
#include "rdmacm_symbols.h"

struct rdmacm {
#define RDMACM_MEMBER(name, since) __typeof__(rdma_##name) *name;
    RDMACM_SYMBOLS(RDMACM_MEMBER, RDMACM_MEMBER)
#undef RDMACM_MEMBER
};

extern struct rdmacm rdmacm;

/* librdmacm.so.1, to be loaded before the table is looked at. */
extern struct loader_library rdmacm_library;

#endif
