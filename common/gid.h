/* SPDX-License-Identifier: BSD-3-Clause */
/* Gid: 16 bytes that name a port, or the address behind it. Immutable; equal to the same bytes. */
#ifndef CORE_GID_H
#define CORE_GID_H

#include <stdint.h>

#include "state.h"

extern const PyType_Spec core_gid_spec;

PyObject *core_gid_new(struct core_state *state, const uint8_t raw[16]);

/* The 16 bytes of a Gid object. */
const uint8_t *core_gid_raw(PyObject *gid);

#endif
