/* SPDX-License-Identifier: BSD-3-Clause */
/* What opening a device gives: a descriptor and a table of handles. It lives until the last process that
 * holds a copy of the descriptor has closed it, or died. */
#ifndef SOFTRDMA_CONTEXT_H
#define SOFTRDMA_CONTEXT_H

#include "region.h"

/* A new descriptor for the device, or -errno. */
int context_open(int device, int flags);

/* Another descriptor of this process now means this context, or no longer does. */
void context_add_fd(uint32_t context, int fd);
void context_fd_closed(uint32_t context);

/* Destroys contexts that only this process held; the caller holds region.lock. */
void context_drop_holder(struct region *r, uint32_t proc);

/* A child that is about to be forked holds what this process holds; the caller holds region.lock. */
void context_inherit(struct region *r, uint32_t child);

/* Does any living process hold it? */
bool context_is_held(struct region *r, uint32_t context);

/* Handles. The caller of the first two holds region.lock. NONE: no such handle, or none left. */
uint32_t handle_new(struct region *r, uint32_t context, enum object_type type, uint32_t index);
void handle_free(struct region *r, uint32_t context, uint32_t handle);
uint32_t handle_find(struct region *r, uint32_t context, uint64_t handle, enum object_type type);

#endif
