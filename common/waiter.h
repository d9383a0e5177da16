/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiter: how an event loop waits on a CQ, a CompChannel or a Context. Not for programs; python/waiting.py is what uses
 * it. It has a descriptor that a loop can watch, readable while the library has an event or somebody has read one that
 * concerns the object, or the object is being closed.
 */
#ifndef CORE_WAITER_H
#define CORE_WAITER_H

#include "pyapi.h"

extern const PyType_Spec core_waiter_spec;

#endif
