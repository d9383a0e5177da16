/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs as this core calls it: a table of what the library exports, and our own versions of those inlines of
 * verbs.h that call an exported function and would leave an undefined symbol behind. Knows no Python.
 *
 * The table is written once, when the module that it is linked into is first imported, and never freed. Functions here
 * return 0 or a positive errno, or NULL with errno set, whichever their verb returns.
 */
#ifndef CORE_VERBS_H
#define CORE_VERBS_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "loader.h"
#include "verbs_symbols.h"

struct verbs {
#define VERBS_MEMBER(name, since) __typeof__(ibv_##name) *name;
    VERBS_SYMBOLS(VERBS_MEMBER, VERBS_MEMBER)
#undef VERBS_MEMBER
    /* Optional, and exported under a name of its own: verbs.h has an inline called ibv_query_gid_table. */
    __typeof__(_ibv_query_gid_table) *query_gid_table;
};

extern struct verbs verbs;

/* libibverbs.so.1, and loader_load of it. */
extern struct loader_library verbs_library;
int verbs_load(char *reason, size_t reason_size);

/* ibv_query_port, which the exported symbol answers only in part: fields that the library lacks are zero. */
int verbs_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *ret_attr);

/*
 * ibv_reg_mr with an access word that is not known at compile time: the optional bits (relaxed ordering) are dropped
 * where the library or the kernel does not know them.
 */
struct ibv_mr *verbs_reg_mr(struct ibv_pd *pd, uint64_t addr, size_t length, unsigned access);

/* ibv_create_qp_ex; NULL with EOPNOTSUPP where the provider has none. */
struct ibv_qp *verbs_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* One dialect for what ibv_post_*, ibv_modify_* and their like return: 0, or a positive errno also for -1 and -errno. */
int verbs_errno(int returned);

/* The errno that a verb which returned NULL (or -1) left behind; EIO where it left none. */
int verbs_last_errno(void);

#endif
