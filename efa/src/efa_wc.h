/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.WC: a completion, with what extended queues tell beyond struct ibv_wc. */
#ifndef EFA_EFA_WC_H
#define EFA_EFA_WC_H

#include "wc.h"

/* What an extended queue tells of a completion; all zero where it tells nothing. */
struct efa_wc_extra {
    uint8_t sgid[16];
    char unsolicited;
};

struct efa_wc {
    struct core_wc core;
    struct efa_wc_extra extra;
};

#endif
