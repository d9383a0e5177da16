/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of libibverbs and the calls that verbs.h would make through an exported symbol. See verbs.h. */
#include "verbs.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Bits that a library or kernel may ignore (IBV_ACCESS_OPTIONAL_RANGE of newer headers). */
#define VERBS_ACCESS_OPTIONAL 0x3ff00000u

struct verbs verbs;

static const struct loader_symbol verbs_symbols[] = {
#define REQUIRED(name, since) {"ibv_" #name, offsetof(struct verbs, name), true, since},
#define OPTIONAL(name, since) {"ibv_" #name, offsetof(struct verbs, name), false, since},
    VERBS_SYMBOLS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
    {"_ibv_query_gid_table", offsetof(struct verbs, query_gid_table), false, "32"},
};

struct loader_library verbs_library = LOADER_LIBRARY("libibverbs.so.1", LOADER_RDMA_PATH, verbs_symbols, &verbs);

int verbs_load(char *reason, size_t reason_size)
{
    return loader_load(&verbs_library, reason, reason_size);
}

int verbs_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *ret_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);
    struct ibv_port_attr attr;
    int err;

    memset(&attr, 0, sizeof attr);
    if (vctx)
        err = vctx->query_port(context, port_num, &attr, sizeof attr);
    else /* its prototype is that of the 48-byte structure which ours begins with */
        err = verbs.query_port(context, port_num, (struct _compat_ibv_port_attr *)&attr);
    if (err)
        return verbs_errno(err);

    *ret_attr = attr;
    return 0;
}

struct ibv_mr *verbs_reg_mr(struct ibv_pd *pd, uint64_t addr, size_t length, unsigned access)
{
    void *start = (void *)(uintptr_t)addr;

    if (verbs.reg_mr_iova2)
        return verbs.reg_mr_iova2(pd, start, length, addr, access);
    return verbs.reg_mr(pd, start, length, (int)(access & ~VERBS_ACCESS_OPTIONAL));
}

struct ibv_qp *verbs_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, create_qp_ex);

    if (vctx)
        return vctx->create_qp_ex(context, attr);
    errno = EOPNOTSUPP;
    return NULL;
}

int verbs_errno(int returned)
{
    if (returned >= 0)
        return returned;
    if (returned == -1)
        return verbs_last_errno();
    return returned > -4096 ? -returned : EIO; /* the kernel's range of error numbers */
}

int verbs_last_errno(void)
{
    return errno > 0 ? errno : EIO;
}
