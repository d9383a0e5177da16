/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CompChannel: where completion queues announce that something came in. One class for both modules.
 *
 * Several may read a channel at once: get_cq_event(), the waits of its queues (cq_wait.c), event loops. Whoever reads an
 * event tells all of them: it wakes every wait of the queue that the event is about, and as often as the program had asked
 * for one (req_notify), one comes out of get_cq_event() as well, whoever read it. Events beyond that come out only of
 * queues that were never waited on: of the others they are the waits' own.
 */
#ifndef CORE_CHANNEL_H
#define CORE_CHANNEL_H

#include <infiniband/verbs.h>

#include "object.h"
#include "wait.h"

struct core_cq;

struct core_channel {
    struct core_object base;
    struct core_events events;
    struct core_cq *first_pending, *last_pending; /* events that were read and have yet to come out of get_cq_event() */
    int pending_fd;                               /* an eventfd, readable while there are such */
    int fd;          /* an epoll descriptor, readable while either is: what a program is given to watch */
    uint32_t fds_in; /* the process generation that those two were made in; 0 before */
};

/*
 * Reads all events that are there and tells everyone. With the GIL; runs no code of the caller's. Returns EAGAIN when
 * there is no more, EBUSY as core_events_try does, or what the library said.
 */
int core_channel_read(struct core_channel *self);

/* A queue that goes takes its pending events along. */
void core_channel_forget(struct core_channel *self, struct core_cq *cq);

extern const PyType_Spec core_channel_spec;

/* Context.create_comp_channel() */
PyObject *core_context_method_create_comp_channel(PyObject *self, PyObject *ignored);

#define CORE_CREATE_COMP_CHANNEL_METHOD                                                                                \
    {"create_comp_channel", core_context_method_create_comp_channel, METH_NOARGS,                                      \
     "create_comp_channel($self)\n--\n\nReturn a new CompChannel. ibv_create_comp_channel."}

#endif
