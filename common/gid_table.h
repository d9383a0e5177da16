/* SPDX-License-Identifier: BSD-3-Clause */
/* A port's GID table as a whole, each entry with what it is. Knows no Python. */
#ifndef CORE_GID_TABLE_H
#define CORE_GID_TABLE_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stddef.h>

struct gid_row {
    struct ibv_gid_entry entry;
    char netdev[IF_NAMESIZE]; /* empty where there is none */
};

/*
 * The entries of a port that are not empty, in order: from the library, or entry by entry with the types of sysfs where
 * it is too old. Without the GIL. Returns 0 with a block for free(), or an errno.
 */
int gid_table_read(struct ibv_context *context, uint8_t port_num, struct gid_row **ret_rows, size_t *ret_count);

#endif
