/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CQ: a completion queue. Polling fills the queue's own array of completions and wraps them one by one, so that what
 * was reaped and could not be delivered (no memory, a later failure) comes with the next call.
 */
#ifndef CORE_CQ_H
#define CORE_CQ_H

#include <infiniband/verbs.h>

#include "object.h"

#define CORE_CQ_REAP 64 /* how many completions one call of the library is asked for */

struct core_cq {
    struct core_object base;
    struct core_object *channel; /* held as a parent; NULL where there is none */
    uint64_t events;             /* read by the channel and not yet acknowledged by the program */
    int deferred_err;            /* of the library, to be raised by the next call */
    uint32_t ready_at;           /* what was reaped and not delivered: ready[ready_at] and on */
    uint32_t ready_count;
    struct ibv_wc ready[CORE_CQ_REAP]; /* all zero but for those: providers leave fields that do not apply */
};

static inline struct ibv_cq *core_cq_handle(const struct core_cq *self)
{
    return self->base.handle;
}

/* Context.create_cq() */
PyObject *core_context_method_create_cq(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

#define CORE_CREATE_CQ_METHOD                                                                                          \
    CORE_METHOD("create_cq", core_context_method_create_cq,                                                            \
                "create_cq($self, cqe, channel=None, comp_vector=0)\n--\n\n"                                           \
                "Return a completion queue for at least cqe completions. ibv_create_cq.")

/* ---- rows for the module's class ---------------------------------------------------------------------------------- */

PyObject *core_cq_method_poll(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_cq_method_req_notify(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_cq_method_ack_events(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_cq_get_cqe(PyObject *self, void *ignored);
PyObject *core_cq_get_channel(PyObject *self, void *ignored);
PyObject *core_cq_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs);

#define CORE_CQ_METHODS                                                                                                \
    CORE_METHOD("poll", core_cq_method_poll,                                                                           \
                "poll($self, num_entries)\n--\n\n"                                                                     \
                "Return a list of at most num_entries completions, empty when there are none. ibv_poll_cq."),          \
        CORE_METHOD("req_notify", core_cq_method_req_notify,                                                           \
                    "req_notify($self, solicited_only=False)\n--\n\n"                                                  \
                    "Ask for one event on the channel when the next completion comes. ibv_req_notify_cq."),            \
        CORE_METHOD("ack_events", core_cq_method_ack_events,                                                           \
                    "ack_events($self, nevents=1)\n--\n\n"                                                             \
                    "Say that events were dealt with; the library was told when they were read.")

#define CORE_CQ_GETSET                                                                                                 \
    {"cqe", core_cq_get_cqe, NULL, "How many completions the queue holds, as granted.", NULL},                         \
        {"channel", core_cq_get_channel, NULL, "The CompChannel it announces on, or None.", NULL},                     \
        {"context", core_object_get_parent, NULL, "The Context it belongs to.", NULL}

#endif
