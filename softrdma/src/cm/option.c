/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of identifiers. */
#include "option.h"

static bool is_early(const struct cm_id *id)
{
    return id->state == CM_IDLE || id->state == CM_BOUND;
}

static int set_number(struct cm_id *id, uint32_t name, int value)
{
    switch (name) {
    case RDMA_OPTION_ID_REUSEADDR:
        if (!value && !is_early(id))
            return EINVAL;
        id->reuse = value != 0;
        return 0;
    case RDMA_OPTION_ID_AFONLY:
        if (!is_early(id))
            return EINVAL;
        id->af_only = value != 0;
        return 0;
    }
    return ENOSYS;
}

int cm_option_set(struct cm_id *id, uint32_t level, uint32_t name, const void *value, uint32_t length)
{
    const uint8_t *byte = value;
    int number = 0;

    if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH) /* taken, and no other path is there */
        return length == 0 || length % sizeof(struct ib_path_rec_data) ? EINVAL : 0;
    if (level != RDMA_OPTION_ID || name > RDMA_OPTION_ID_ACK_TIMEOUT)
        return ENOSYS;
    if (name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT) {
        if (length != 1)
            return EINVAL;
        if (name == RDMA_OPTION_ID_TOS) {
            id->tos = *byte;
        } else {
            id->has_timeout = 1;
            id->timeout = *byte;
        }
        return 0;
    }
    if (length != sizeof(number))
        return EINVAL;
    memcpy(&number, value, sizeof(number));
    return set_number(id, name, number);
}
