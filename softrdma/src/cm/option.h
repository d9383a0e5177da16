/* SPDX-License-Identifier: BSD-3-Clause */
/* SET_OPTION. The caller holds the region's cm.lock. */
#ifndef SOFTRDMA_CM_OPTION_H
#define SOFTRDMA_CM_OPTION_H

#include "../region.h"

#define CM_OPTION_MOST 4096 /* bytes of a value */

int cm_option_set(struct cm_id *id, uint32_t level, uint32_t name, const void *value, uint32_t length);

#endif
