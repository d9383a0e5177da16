/* SPDX-License-Identifier: BSD-3-Clause */
/* The stub's protection domains, memory regions and address handles. */
#include "stub.h"
#include <stdlib.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define OPTIONAL_ACCESS IBV_ACCESS_OPTIONAL_RANGE
#define KNOWN_ACCESS 0x3ffu

static _Atomic uint32_t next_handle;
static struct stub_registration last_registration;
static struct ibv_ah_attr last_ah;

STUB_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct stub_context *ctx = stub_context_of(context);
    struct stub_pd *pd;
    int err;

    stub_check(&ctx->object, KIND_context, VERB_alloc_pd);
    if ((err = stub_enter(VERB_alloc_pd, &ctx->object)))
        return stub_null(err);
    pd = stub_new(KIND_pd, sizeof *pd, offsetof(struct stub_pd, object), &ctx->object);
    stub_leave(VERB_alloc_pd, &ctx->object);
    if (!pd)
        return stub_null(ENOMEM);
    pd->pd.context = context;
    pd->pd.handle = ++next_handle;
    return &pd->pd;
}

STUB_EXPORT int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
    struct stub_pd *pd = (struct stub_pd *)ibpd;
    int err;

    stub_check(&pd->object, KIND_pd, VERB_dealloc_pd);
    if ((err = stub_enter(VERB_dealloc_pd, &pd->object)))
        return stub_positive(err);
    stub_leave(VERB_dealloc_pd, &pd->object);
    return stub_delete(&pd->object);
}

static int check_registration(const struct stub_pd *pd, const struct stub_registration *reg)
{
    unsigned int access = reg->access;

    if (access & ~(KNOWN_ACCESS | OPTIONAL_ACCESS))
        return EINVAL;
#if STUB_RELEASE < 28
    if (access & OPTIONAL_ACCESS)
        return EINVAL;
#endif
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    if (reg->length > stub_limits(pd->pd.context)->max_mr_size || reg->addr + reg->length < reg->addr)
        return EINVAL;
    return 0;
}

static struct ibv_mr *register_memory(struct ibv_pd *ibpd, enum stub_verb verb, const struct stub_registration *reg)
{
    struct stub_pd *pd = (struct stub_pd *)ibpd;
    struct stub_mr *mr = NULL;
    int err;

    stub_check(&pd->object, KIND_pd, verb);
    if ((err = stub_enter(verb, &pd->object)))
        return stub_null(err);
    err = check_registration(pd, reg);
    if (!err) {
        mr = stub_new(KIND_mr, sizeof *mr, offsetof(struct stub_mr, object), &pd->object);
        err = mr ? 0 : ENOMEM;
    }
    if (mr) {
        mr->mr.context = ibpd->context;
        mr->mr.pd = ibpd;
        mr->mr.addr = (void *)(uintptr_t)reg->addr;
        mr->mr.length = reg->length;
        mr->mr.handle = ++next_handle;
        mr->mr.lkey = mr->mr.handle << 8;
        mr->mr.rkey = mr->mr.lkey | 0x80000001u;
        pthread_mutex_lock(&stub_mutex);
        last_registration = *reg;
        pthread_mutex_unlock(&stub_mutex);
    }
    stub_leave(verb, &pd->object);
    return mr ? &mr->mr : stub_null(err);
}

STUB_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    struct stub_registration reg = {.addr = (uintptr_t)addr, .length = length, .iova = (uintptr_t)addr, .fd = -1,
                                    .access = (uint32_t)access, .verb = 0};

    return register_memory(pd, VERB_reg_mr, &reg);
}

#if STUB_RELEASE >= 28
STUB_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                            unsigned int access)
{
    struct stub_registration reg = {.addr = (uintptr_t)addr, .length = length, .iova = iova, .fd = -1,
                                    .access = access, .verb = 1};

    return register_memory(pd, VERB_reg_mr_iova2, &reg);
}

STUB_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}
#endif

#if STUB_RELEASE >= 34
STUB_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                             int access)
{
    /* The real library, too, shows the offset as the address. */
    struct stub_registration reg = {.addr = offset, .length = length, .iova = iova, .offset = offset, .fd = fd,
                                    .access = (uint32_t)access, .verb = 2};

    return register_memory(pd, VERB_reg_dmabuf_mr, &reg);
}
#endif

STUB_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    (void)mr, (void)flags, (void)pd, (void)addr, (void)length, (void)access;
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

STUB_EXPORT int ibv_dereg_mr(struct ibv_mr *ibmr)
{
    struct stub_mr *mr = (struct stub_mr *)ibmr;
    int err;

    stub_check(&mr->object, KIND_mr, VERB_dereg_mr);
    if ((err = stub_enter(VERB_dereg_mr, &mr->object)))
        return stub_positive(err);
    stub_leave(VERB_dereg_mr, &mr->object);
    return stub_delete(&mr->object);
}

STUB_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *ibpd, struct ibv_ah_attr *attr)
{
    struct stub_pd *pd = (struct stub_pd *)ibpd;
    struct stub_ah *ah = NULL;
    int err;

    stub_check(&pd->object, KIND_pd, VERB_create_ah);
    if ((err = stub_enter(VERB_create_ah, &pd->object)))
        return stub_null(err);
    if (!atomic_load(&stub_lenient) &&
        (attr->port_num < 1 || attr->port_num > stub_port_count(ibpd->context) ||
         (attr->is_global && attr->grh.sgid_index >= stub_gid_count())))
        err = EINVAL;
    else if (!(ah = stub_new(KIND_ah, sizeof *ah, offsetof(struct stub_ah, object), &pd->object)))
        err = ENOMEM;
    else {
        ah->ah.context = ibpd->context;
        ah->ah.pd = ibpd;
        ah->ah.handle = ++next_handle;
        ah->attr = *attr;
        pthread_mutex_lock(&stub_mutex);
        last_ah = *attr;
        pthread_mutex_unlock(&stub_mutex);
    }
    stub_leave(VERB_create_ah, &pd->object);
    return ah ? &ah->ah : stub_null(err);
}

STUB_EXPORT int ibv_destroy_ah(struct ibv_ah *ibah)
{
    struct stub_ah *ah = (struct stub_ah *)ibah;
    int err;

    stub_check(&ah->object, KIND_ah, VERB_destroy_ah);
    if ((err = stub_enter(VERB_destroy_ah, &ah->object)))
        return stub_positive(err);
    stub_leave(VERB_destroy_ah, &ah->object);
    return stub_delete(&ah->object);
}

STUB_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                                    struct ibv_ah_attr *attr)
{
    (void)context;
    memset(attr, 0, sizeof *attr);
    attr->dlid = wc->slid;
    attr->sl = wc->sl;
    attr->src_path_bits = wc->dlid_path_bits;
    attr->port_num = port;
    if (wc->wc_flags & IBV_WC_GRH) {
        attr->is_global = 1;
        attr->grh.dgid = grh->sgid;
        attr->grh.hop_limit = 255;
    }
    return 0;
}

STUB_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                                 uint8_t port)
{
    struct ibv_ah_attr attr;

    ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr);
    return ibv_create_ah(pd, &attr);
}

STUB_EXPORT void stub_last_registration(struct stub_registration *ret_registration)
{
    pthread_mutex_lock(&stub_mutex);
    *ret_registration = last_registration;
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT void stub_last_ah(struct ibv_ah_attr *ret_attr)
{
    pthread_mutex_lock(&stub_mutex);
    *ret_attr = last_ah;
    pthread_mutex_unlock(&stub_mutex);
}
