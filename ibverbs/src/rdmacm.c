/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of librdmacm. See rdmacm.h. */
#include "rdmacm.h"

struct rdmacm rdmacm;

static const struct loader_symbol symbols[] = {
#define REQUIRED(name, since) {"rdma_" #name, offsetof(struct rdmacm, name), true, since},
#define OPTIONAL(name, since) {"rdma_" #name, offsetof(struct rdmacm, name), false, since},
    RDMACM_SYMBOLS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
};

struct loader_library rdmacm_library = LOADER_LIBRARY("librdmacm.so.1", LOADER_RDMA_PATH, symbols, &rdmacm);
