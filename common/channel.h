/* SPDX-License-Identifier: BSD-3-Clause */
/* CompChannel: where completion queues announce that something came in. One class for both modules. */
#ifndef CORE_CHANNEL_H
#define CORE_CHANNEL_H

#include <infiniband/verbs.h>

#include "object.h"
#include "wait.h"

struct core_channel {
    struct core_object base;
    struct core_events events;
};

extern const PyType_Spec core_channel_spec;

/* Context.create_comp_channel() */
PyObject *core_context_method_create_comp_channel(PyObject *self, PyObject *ignored);

#define CORE_CREATE_COMP_CHANNEL_METHOD                                                                                \
    {"create_comp_channel", core_context_method_create_comp_channel, METH_NOARGS,                                      \
     "create_comp_channel($self)\n--\n\nReturn a new CompChannel. ibv_create_comp_channel."}

#endif
