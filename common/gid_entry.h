/* SPDX-License-Identifier: BSD-3-Clause */
/* GidEntry: one entry of a port's GID table with what it is. */
#ifndef CORE_GID_ENTRY_H
#define CORE_GID_ENTRY_H

#include "gid_table.h"
#include "state.h"

extern const PyType_Spec core_gid_entry_spec;

PyObject *core_gid_entry_new(struct core_state *state, const struct gid_row *row);

#endif
