/* SPDX-License-Identifier: BSD-3-Clause */
/* FlagOps: `|`, `&`, `^` and `~` of enum.IntFlag members as look-ups in C. */
#ifndef CORE_FLAGS_H
#define CORE_FLAGS_H

#include "pyapi.h"

/*
 * A base to put before enum.IntFlag: `class AccessFlags(FlagOps, IntFlag)`. From CPython 3.11 on the enum machinery
 * writes Flag's own operators into every class it makes, so the class has to be given these again afterwards;
 * python/flags.py does it.
 *
 * Results are those of IntFlag in every respect: the table is the class's own, and what it does not hold yet is left
 * to IntFlag, which adds it. The type is to be made with PyType_FromModuleAndSpec from a module whose state starts
 * with struct core_state; without that, or once that state is cleared, it works, slower.
 */
extern const PyType_Spec core_flag_ops_spec;

#endif
