/* SPDX-License-Identifier: BSD-3-Clause */
/* dlopen and dlsym, with reasons a person can act on. See loader.h. */
#include "loader.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is loaded already ---------------------------------------------------------------------------------------- */

/* Text that grows at its end; what does not fit is left out. */
struct text {
    char *at;
    size_t size, used;
};

static bool belongs_to_rdma(const char *path)
{
    static const char *const beginnings[] = {"libibverbs.so", "libefa.so", "librdmacm.so", "libefa-", "libmlx"};
    const char *name = strrchr(path, '/');

    name = name ? name + 1 : path;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return strstr(name, "-rdmav") != NULL;
}

static int add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct text *text = arg;
    int length;

    (void)size;
    if (!info->dlpi_name || !belongs_to_rdma(info->dlpi_name) || text->used >= text->size)
        return 0;
    length = snprintf(text->at + text->used, text->size - text->used, "%s%s",
                      text->used ? ", " : "; loaded in this process: ", info->dlpi_name);
    if (length < 0 || (size_t)length >= text->size - text->used)
        text->at[text->used] = '\0'; /* not a part of a path */
    else
        text->used += (size_t)length;
    return 0;
}

/* Appends the libraries that are loaded: two builds of one family do not go together, and the paths tell which meet. */
static void add_loaded(char *reason, size_t size)
{
    size_t used = strlen(reason);
    struct text text = {reason + used, size - used, 0};

    dl_iterate_phdr(add_library, &text);
}

/* ---- opening --------------------------------------------------------------------------------------------------------- */

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
    add_loaded(reason, reason_size);
    return NULL;
}

int loader_bind(void *handle, void *table, const struct loader_symbol *symbols, size_t count, char *reason,
                size_t reason_size)
{
    for (size_t i = 0; i < count; i++)
        if (symbols[i].required && !dlsym(handle, symbols[i].name)) {
            snprintf(reason, reason_size, "%s has no function %s; rdma-core %s or newer is needed", loader_path(handle),
                     symbols[i].name, symbols[i].since);
            return -1;
        }
    for (size_t i = 0; i < count; i++) {
        /* Plain dlsym, never dlvsym: it gives the default version, which is the one to call. */
        void *function = dlsym(handle, symbols[i].name);

        memcpy((char *)table + symbols[i].offset, &function, sizeof function);
    }
    return 0;
}

int loader_load(struct loader_library *self, char *reason, size_t reason_size)
{
    void *handle;

    if (self->handle)
        return 0;
    handle = loader_open(self->soname, self->variable, reason, reason_size);
    if (!handle || loader_bind(handle, self->table, self->symbols, self->count, reason, reason_size) < 0)
        return -1;
    self->handle = handle;
    return 0;
}

const char *loader_since(const struct loader_library *self, const char *function)
{
    for (size_t i = 0; i < self->count; i++)
        if (strcmp(self->symbols[i].name, function) == 0)
            return self->symbols[i].since;
    return "?";
}

const char *loader_path(void *handle)
{
    struct link_map *map = NULL;

    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name || !*map->l_name)
        return "?";
    return map->l_name;
}
