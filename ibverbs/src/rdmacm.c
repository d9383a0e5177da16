/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of librdmacm. See rdmacm.h. */
#include "rdmacm.h"

#include <string.h>

#include "loader.h"

#define RDMACM_SONAME "librdmacm.so.1"

struct rdmacm rdmacm;

static const struct loader_symbol symbols[] = {
#define REQUIRED(name, since) {"rdma_" #name, offsetof(struct rdmacm, name), true, since},
#define OPTIONAL(name, since) {"rdma_" #name, offsetof(struct rdmacm, name), false, since},
    RDMACM_SYMBOLS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
};

int rdmacm_load(char *reason, size_t reason_size)
{
    static bool loaded;
    struct rdmacm table;
    void *handle;

    if (loaded)
        return 0;
    handle = loader_open(RDMACM_SONAME, LOADER_RDMA_PATH, reason, reason_size);
    if (!handle || loader_bind(handle, &table, symbols, sizeof symbols / sizeof *symbols, reason, reason_size) < 0)
        return -1;
    rdmacm = table;
    loaded = true;
    return 0;
}

const char *rdmacm_since(const char *name)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return symbols[i].since;
    return "?";
}
