/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting: who waits for something, how he is woken, and sources of events that the library reads from a descriptor
 * (a completion channel, a device's asynchronous events).
 *
 * The lock of a source: an event is read and acknowledged to the library under it (exclusive, GIL held), and whatever
 * an event may be about is destroyed under it (shared, GIL free). So a destroy never waits for an event that was read
 * and not acknowledged, and never frees what a reader is looking at. Nobody waits for it exclusively: a reader that does
 * not get it tries again, so it keeps its time, and no thread can end (at the interpreter's exit) with the lock in its
 * hands.
 */
#ifndef CORE_WAIT_H
#define CORE_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "object.h"

/* ---- those who wait --------------------------------------------------------------------------------------------- */

/* One that waits: a thread in a call, or an event loop (waiter.h). Whoever waits on an object holds a reference to it. */
struct core_waiter {
    struct core_waiter *next;
    int fd;           /* an eventfd, readable once it was woken */
    bool woken;       /* since it was last cleared */
    uint32_t made_in; /* the process generation it is of; others' are not followed, closed or woken */
};

/* All that wait on one object. All zero is ready for use. Touched with the GIL only. */
struct core_waiters {
    struct core_waiter *first;
    int spare;         /* an eventfd kept for the next one, where spare_in says so */
    uint32_t spare_in; /* the process generation it was made in; 0: there is none */
};

/* Has a descriptor ready for the first, so that a wait cannot fail for want of one. 0 or a positive errno. */
int core_waiters_provide(struct core_waiters *waiters);

/*
 * Adds one, not woken yet. Whatever it waits for is looked at after this and before it falls asleep, with the GIL held
 * all the while. Returns 0, or the errno for which there is no descriptor.
 */
int core_waiter_add(struct core_waiters *waiters, struct core_waiter *waiter);
void core_waiter_remove(struct core_waiters *waiters, struct core_waiter *waiter);

/* Whether it was woken; no more afterwards. */
bool core_waiter_clear(struct core_waiter *waiter);

void core_waiters_wake(struct core_waiters *waiters);

/* Lets go of what is kept. All have left, or leave later by themselves. */
void core_waiters_free(struct core_waiters *waiters);

/* An eventfd of ours, or -1 with errno. To set or clear it can fail only by its being so already. */
int core_eventfd(void);
void core_eventfd_set(int fd);
void core_eventfd_clear(int fd);

/* The monotonic clock. */
int64_t core_now_ns(void);

/* A wait of one thread, which becomes a waiter only if it has to sleep. */
struct core_wait {
    struct core_waiters *among; /* NULL before that */
    struct core_waiter waiter;
    int64_t timeout_ns; /* -1: for ever */
    int64_t deadline;   /* where that is above 0 */
};

void core_wait_begin(struct core_wait *wait, int64_t timeout_ns);
int64_t core_wait_left(const struct core_wait *wait); /* in ns: 0 when it is over, -1 for ever */
int core_wait_join(struct core_wait *wait, struct core_waiters *waiters); /* once; 0 or a positive errno */
void core_wait_end(struct core_wait *wait);

/* ---- sources of events ------------------------------------------------------------------------------------------- */

struct core_events {
    pthread_rwlock_t lock;
    int fd;     /* the library's descriptor, non-blocking */
    bool ready; /* the above were set up */
    struct core_waiters waiters;
};

/*
 * Takes over the library's descriptor (which becomes non-blocking, and stays the library's). 0 or a positive errno; then
 * core_events_free has still to be called.
 */
int core_events_init(struct core_events *events, int fd);
void core_events_free(struct core_events *events);

/* Held, without the GIL, around the destruction of whatever the events may be about. */
void core_events_hold(struct core_events *events);
void core_events_release(struct core_events *events);

/*
 * Around reading, with the GIL: 0 where an event is there and the lock is ours until core_events_release(); EAGAIN where
 * there is none; EBUSY where a destroy is under way, and nothing announces its end. Never blocks, whatever others made
 * of the descriptor's flags.
 */
int core_events_try(struct core_events *events);

/*
 * Sleeps, without the GIL, until there is an event or the waiter is woken, a signal comes or the time is over; a moment
 * at most after EBUSY.
 */
void core_events_sleep(const struct core_events *events, const struct core_wait *wait, int tried);

/*
 * Takes one event, by core_events_try and what follows from it. Called with the GIL. Returns a new reference; or NULL
 * with EAGAIN, EBUSY (as above) or EINTR (ask again at once) in `ret_err`, another errno, or 0 with an exception set.
 */
typedef PyObject *(*core_events_take)(struct core_object *self, int *ret_err);

/*
 * Waits until there is an event or `timeout_ns` (-1: for ever) is over, and takes it. Returns a new reference, None
 * when the time is over; NULL with an exception: EBADF where the object is closed meanwhile, the verb's error under
 * `operation`, or whatever a signal handler raised. Other threads run while it sleeps.
 */
PyObject *core_events_wait(struct core_object *self, struct core_events *events, int64_t timeout_ns,
                           core_events_take take, const char *method, const char *operation);

#endif
