/* SPDX-License-Identifier: BSD-3-Clause */
/* RecvWR: a receive request. One class for both modules. */
#ifndef CORE_RECV_WR_H
#define CORE_RECV_WR_H

#include <stdint.h>

#include "state.h"

struct core_recv_wr {
    PyObject_HEAD
    uint64_t wr_id;
    PyObject *sg_list; /* as sge.h says */
};

extern const PyType_Spec core_recv_wr_spec;

#endif
