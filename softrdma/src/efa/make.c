/* SPDX-License-Identifier: BSD-3-Clause */
/* The makes of the device. Which of them has which capability is what AWS and libfabric say in public about the
 * instances they are in; the limits are those that programs report from the field, where any do (README). */
#include "efa.h"

#define CAPS_0 (EFA_CAP_RNR_RETRY | EFA_CAP_CQ_NOTIFICATIONS | EFA_CAP_CQ_WITH_SGID)
#define CAPS_1 (CAPS_0 | EFA_CAP_RDMA_READ)
#define CAPS_2 (CAPS_1 | EFA_CAP_RDMA_WRITE)
#define CAPS_3 (CAPS_2 | EFA_CAP_UNSOLICITED_WRITE_RECV)
#define CAPS_4 (CAPS_3 | EFA_CAP_CQ_WITH_EXT_MEM | EFA_CAP_COMP_CNTR | EFA_CAP_SQ_64_BIT_REQ_ID)

#define LIMITS                                                                                               \
    .mtu = 8928, .max_qp = SHORT_QPNS, .max_cq = 512, .max_mr = MAX_MRS - 64, .max_pd = 256,                 \
    .max_ah = MAX_AHS - 64, .max_cqe = 32768, .max_sq_wr = 4096, .max_rq_wr = 32768, .max_sq_sge = 2,        \
    .max_rq_sge = 3, .max_rdma_sge = 1, .inline_size = EFA_INLINE_64

static const struct efa_make makes[] = {
    {.number = 0, LIMITS, .caps = CAPS_0, .inline_size_ex = EFA_INLINE_64},
    {.number = 1, LIMITS, .caps = CAPS_1, .max_rdma_size = 1u << 30, .inline_size_ex = EFA_INLINE_64},
    {.number = 2, LIMITS, .caps = CAPS_2, .max_rdma_size = 1u << 30, .inline_size_ex = EFA_INLINE_64},
    {.number = 3, LIMITS, .caps = CAPS_3, .max_rdma_size = 1u << 30, .inline_size_ex = EFA_INLINE_64},
    {.number = 4, LIMITS, .caps = CAPS_4, .max_rdma_size = 1u << 30, .inline_size_ex = EFA_INLINE_128},
};

static const struct efa_make *find(int number)
{
    for (size_t i = 0; i < NELEM(makes); i++) {
        if (makes[i].number == number)
            return &makes[i];
    }
    return NULL;
}

bool efa_has_make(int number)
{
    return find(number) != NULL;
}

const struct efa_make *efa_make_of(const struct device *d)
{
    return find(d->make);
}
