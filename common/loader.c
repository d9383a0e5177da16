/* SPDX-License-Identifier: BSD-3-Clause */
/* dlopen and dlsym, with reasons a person can act on. See loader.h. */
#include "loader.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *loader_open(const char *soname, const char *variable, char *reason, size_t reason_size)
{
    const char *directory = secure_getenv(variable);
    char path[PATH_MAX];
    void *handle;

    if (directory && *directory) {
        if ((size_t)snprintf(path, sizeof path, "%s/%s", directory, soname) >= sizeof path) {
            snprintf(reason, reason_size, "%s is longer than a path can be", variable);
            return NULL;
        }
    } else {
        snprintf(path, sizeof path, "%s", soname);
    }

    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        return handle;

    const char *words = dlerror();
    if (directory && *directory)
        snprintf(reason, reason_size, "%s cannot be loaded from %s, which %s names: %s", soname, path, variable,
                 words ? words : "no reason given");
    else
        snprintf(reason, reason_size, "%s cannot be loaded by way of the dynamic linker's search path: %s", soname,
                 words ? words : "no reason given");
    return NULL;
}

int loader_bind(void *handle, void *table, const struct loader_symbol *symbols, size_t count, char *reason,
                size_t reason_size)
{
    for (size_t i = 0; i < count; i++) {
        /* Plain dlsym, never dlvsym: it gives the default version, which is the one to call. */
        void *function = dlsym(handle, symbols[i].name);
        if (!function && symbols[i].required) {
            snprintf(reason, reason_size, "%s has no function %s; rdma-core %s or newer is needed", loader_path(handle),
                     symbols[i].name, symbols[i].since);
            return -1;
        }
        memcpy((char *)table + symbols[i].offset, &function, sizeof function);
    }
    return 0;
}

const char *loader_path(void *handle)
{
    struct link_map *map = NULL;

    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name || !*map->l_name)
        return "?";
    return map->l_name;
}
