/* SPDX-License-Identifier: BSD-3-Clause */
/* GidEntry: one entry of a port's GID table with what it is, and the reading of a whole table. */
#ifndef CORE_GID_ENTRY_H
#define CORE_GID_ENTRY_H

#include <infiniband/verbs.h>
#include <net/if.h>

#include "state.h"

struct core_gid_row {
    struct ibv_gid_entry entry;
    char netdev[IF_NAMESIZE]; /* empty where there is none */
};

extern const PyType_Spec core_gid_entry_spec;

PyObject *core_gid_entry_new(struct core_state *state, const struct core_gid_row *row);

/*
 * The entries of a port that are not empty, in order: from the library, or entry by entry with the types of sysfs where
 * it is too old. Without the GIL. Returns 0 with a block for free(), or an errno.
 */
int core_gid_table_read(struct ibv_context *context, uint8_t port_num, struct core_gid_row **ret_rows,
                        size_t *ret_count);

#endif
