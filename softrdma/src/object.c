/* SPDX-License-Identifier: BSD-3-Clause */
/* Destroying an object of any type. */
#include "object.h"

void object_free(struct region *r, enum object_type type, uint32_t index)
{
    static void (*const free_of[])(struct region *, uint32_t) = {
        [OBJ_PD] = pd_free, [OBJ_MR] = mr_free,   [OBJ_MW] = mw_free, [OBJ_CQ] = cq_free,
        [OBJ_QP] = qp_free, [OBJ_SRQ] = srq_free, [OBJ_AH] = ah_free, [OBJ_COUNTER] = counter_free,
    };

    free_of[type](r, index);
}
