/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a Peer is in C, so that a request made anew does not ask it three attributes by name: an address handle, or NULL
 * when closed, a queue pair number and a qkey. The Python class derives from it and owns the handle.
 */
#ifndef EFA_DESTINATION_H
#define EFA_DESTINATION_H

#include <stdint.h>

#include "pyapi.h"

struct efa_destination {
    PyObject_HEAD
    PyObject *ah;
    uint32_t qp_num;
    uint32_t qkey;
};

#endif
