/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens shared libraries and fills tables of function pointers from them. Knows no verb and no Python.
 *
 * A library that was opened is never closed: objects that outlive a module still call into it.
 */
#ifndef CORE_LOADER_H
#define CORE_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/* One function of a library: where its pointer goes in the table, and which release brought it. */
struct loader_symbol {
    const char *name;  /* as dlsym takes it */
    size_t offset;     /* of the pointer in the table */
    bool required;     /* the library is useless without it */
    const char *since; /* the first rdma-core release that has it, for messages */
};

/* The environment variable that names a directory for libibverbs and what belongs to it. */
#define LOADER_RDMA_PATH "RDMA_LIBRARY_PATH"

/*
 * Opens `soname`, from the directory that the environment variable `variable` names if it is set (and the program is
 * not privileged), else as the dynamic linker finds it. Returns the handle; or NULL with the reason, which names the
 * library, what was tried, the loader's own words, and the paths of the RDMA libraries that did load, in `reason`.
 */
void *loader_open(const char *soname, const char *variable, char *reason, size_t reason_size);

/*
 * Fills `table` from the library. A missing optional symbol leaves NULL. Returns 0; or -1 with the reason in
 * `reason`, naming the first required symbol that is missing and the file that was loaded, and the table as it was.
 */
int loader_bind(void *handle, void *table, const struct loader_symbol *symbols, size_t count, char *reason,
                size_t reason_size);

/* A library that is loaded once: where it is looked for, and what of it goes where. */
struct loader_library {
    const char *soname, *variable; /* as loader_open takes them */
    const struct loader_symbol *symbols;
    size_t count;
    void *table;
    void *handle; /* NULL until it is loaded */
};
#define LOADER_LIBRARY(soname, variable, symbols, table)                                                               \
    {soname, variable, symbols, sizeof symbols / sizeof *symbols, table, NULL}

/*
 * Opens it and fills its table, once; a failure is tried again the next time. Returns 0, or -1 with the reason in words
 * for a person. Callers hold the GIL or are alone.
 */
int loader_load(struct loader_library *self, char *reason, size_t reason_size);

/* The release that brought a function ("34" for "ibv_reg_dmabuf_mr"); "?" if it is not listed. */
const char *loader_since(const struct loader_library *self, const char *function);

/* The path of the file that a handle was loaded from, as the dynamic linker knows it; "?" if it does not. */
const char *loader_path(void *handle);

#endif
