/* SPDX-License-Identifier: BSD-3-Clause */
/* The stub's completion counters (rdma-core 65): two numbers each, that nothing but their own calls counts up. */
#include "stub.h"
#include <sys/uio.h>
#include <unistd.h>

#if STUB_RELEASE >= 65
static _Atomic uint32_t next_handle;

/* Whether there is memory for a number: a kernel, which pins it, would find out. */
static bool exists(uint64_t *place)
{
    uint64_t value;
    struct iovec to = {&value, sizeof value}, from = {place, sizeof value};

    return (uintptr_t)place % sizeof value == 0 && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof value;
}

/* The counter of efadv_create_comp_cntr, whose values lie where the program says, or in itself. */
STUB_EXPORT struct stub_comp_cntr *stub_comp_cntr_new(struct ibv_context *context, uint64_t *comp, uint64_t *err)
{
    struct stub_context *ctx = stub_context_of(context);
    struct stub_comp_cntr *cntr;

    if ((comp && !exists(comp)) || (err && !exists(err)))
        return stub_null(EFAULT);
    cntr = stub_new(KIND_comp_cntr, sizeof *cntr, offsetof(struct stub_comp_cntr, object), &ctx->object);
    if (!cntr)
        return stub_null(ENOMEM);
    cntr->context = context;
    cntr->handle = ++next_handle;
    cntr->values[0] = comp ? comp : &cntr->own[0];
    cntr->values[1] = err ? err : &cntr->own[1];
    return cntr;
}

STUB_EXPORT int ibv_destroy_comp_cntr(struct stub_comp_cntr *cntr)
{
    int err;

    stub_check(&cntr->object, KIND_comp_cntr, VERB_destroy_comp_cntr);
    if ((err = stub_enter(VERB_destroy_comp_cntr, &cntr->object)))
        return stub_positive(err);
    stub_leave(VERB_destroy_comp_cntr, &cntr->object);
    return stub_delete(&cntr->object);
}

#define ACCESS(verb, parameter, statement)                                                                             \
    STUB_EXPORT int ibv_##verb(struct stub_comp_cntr *cntr, parameter)                                                 \
    {                                                                                                                  \
        int err;                                                                                                       \
                                                                                                                       \
        stub_check(&cntr->object, KIND_comp_cntr, VERB_##verb);                                                        \
        if ((err = stub_enter(VERB_##verb, &cntr->object)))                                                            \
            return stub_positive(err);                                                                                 \
        statement;                                                                                                     \
        stub_leave(VERB_##verb, &cntr->object);                                                                        \
        return 0;                                                                                                      \
    }
ACCESS(read_comp_cntr, uint64_t *value, *value = *cntr->values[0])
ACCESS(read_err_comp_cntr, uint64_t *value, *value = *cntr->values[1])
ACCESS(set_comp_cntr, uint64_t value, *cntr->values[0] = value)
ACCESS(set_err_comp_cntr, uint64_t value, *cntr->values[1] = value)
ACCESS(inc_comp_cntr, uint64_t value, *cntr->values[0] += value)
ACCESS(inc_err_comp_cntr, uint64_t value, *cntr->values[1] += value)

/* Counts the operations that it was asked for: what a test sees of it. */
STUB_EXPORT int ibv_qp_attach_comp_cntr(struct ibv_qp *ibqp, struct stub_comp_cntr *cntr,
                                        struct stub_attach_comp_cntr_attr *attr)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    int err;

    stub_check(&qp->object, KIND_qp, VERB_qp_attach_comp_cntr);
    stub_check(&cntr->object, KIND_comp_cntr, VERB_qp_attach_comp_cntr);
    if ((err = stub_enter(VERB_qp_attach_comp_cntr, &qp->object)))
        return stub_positive(err);
    stub_leave(VERB_qp_attach_comp_cntr, &qp->object);
    if (attr->comp_mask || !attr->op_mask)
        return EINVAL;
    *cntr->values[0] += attr->op_mask;
    return 0;
}
#endif
