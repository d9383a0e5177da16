/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.SendWR: a send request that names destination, remote memory and hints side by side. */
#ifndef EFA_EFA_SEND_WR_H
#define EFA_EFA_SEND_WR_H

#include "send_wr.h"

struct efa_send_wr {
    struct core_send_wr core;
    uint32_t processing_hints;
};

#endif
