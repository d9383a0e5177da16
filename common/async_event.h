/* SPDX-License-Identifier: BSD-3-Clause */
/* AsyncEvent: what happened to a device, a port, a QP, a CQ or an SRQ, with the Python object that it is about. */
#ifndef CORE_ASYNC_EVENT_H
#define CORE_ASYNC_EVENT_H

#include <infiniband/verbs.h>

#include "context.h"
#include "state.h"

extern const PyType_Spec core_async_event_spec;

/* An event that says nothing yet. Made before the library is asked for one, which could not be given back. */
PyObject *core_async_event_new(struct core_state *state);

/* What a context's library gave is copied; the object it is about is looked up in the context. */
void core_async_event_fill(PyObject *self, const struct core_context *context, const struct ibv_async_event *event);

#endif
