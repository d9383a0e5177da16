/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A source of events that the library reads from a descriptor: a completion channel, or a device's asynchronous
 * events. One function waits and reads; several threads may wait, close() wakes them all.
 *
 * The lock: an event is read and acknowledged to the library under it (exclusive, GIL held), and whatever an event
 * may be about is destroyed under it (shared, GIL free). So a destroy never waits for an event that was read and not
 * acknowledged, and never frees what a reader is looking at. Nobody waits for it exclusively: a reader that does not get
 * it tries again, so it keeps its time, and no thread can end (at the interpreter's exit) with the lock in its hands.
 */
#ifndef CORE_WAIT_H
#define CORE_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "object.h"

struct core_events {
    pthread_rwlock_t lock;
    int fd;      /* the library's descriptor, non-blocking */
    int wake_fd; /* an eventfd, readable while the object is being closed */
    bool ready;  /* the above were set up */
    uint32_t made_in; /* the process generation they were set up in, whose wake_fd it is */
};

/* Takes over the library's descriptor (which becomes non-blocking, and stays the library's). 0 or a positive errno. */
int core_events_init(struct core_events *events, int fd);
void core_events_free(struct core_events *events);

/* Wakes all that wait, or lets waiting be possible again. */
void core_events_wake(struct core_events *events, bool closing);

/* Held, without the GIL, around the destruction of whatever the events may be about. */
void core_events_hold(struct core_events *events);
void core_events_release(struct core_events *events);

/*
 * Reads one event. Called with the GIL and the lock. Returns a new reference; or NULL with EAGAIN in `ret_err` where
 * there is none, another errno, or 0 with an exception set.
 */
typedef PyObject *(*core_events_read)(struct core_object *self, int *ret_err);

/*
 * Waits until there is an event or `timeout_ns` (-1: for ever) is over, and reads it. Returns a new reference, None
 * when the time is over; NULL with an exception: EBADF where the object is closed meanwhile, the verb's error under
 * `operation`, or whatever a signal handler raised. Other threads run while it sleeps.
 */
PyObject *core_events_wait(struct core_object *self, struct core_events *events, int64_t timeout_ns,
                           core_events_read read, const char *method, const char *operation);

#endif
