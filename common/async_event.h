/* SPDX-License-Identifier: BSD-3-Clause */
/* AsyncEvent: what happened to a device, a port, a QP, a CQ or an SRQ, with the Python object that it is about. */
#ifndef CORE_ASYNC_EVENT_H
#define CORE_ASYNC_EVENT_H

#include <infiniband/verbs.h>

#include "context.h"
#include "state.h"

extern const PyType_Spec core_async_event_spec;

/* The event that a context's library gave, copied; the object it is about is looked up in the context. */
PyObject *core_async_event_new(struct core_context *context, const struct ibv_async_event *event);

#endif
