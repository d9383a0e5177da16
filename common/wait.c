/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for events and waking those who do. See wait.h. */
#include "wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "error.h"

#define NS_PER_S 1000000000
#define DESTROY_POLL_NS 500000

int64_t core_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* ---- those who wait --------------------------------------------------------------------------------------------- */

int core_eventfd(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void core_eventfd_set(int fd)
{
    uint64_t count = 1;
    ssize_t done = write(fd, &count, sizeof count);

    (void)done;
}

void core_eventfd_clear(int fd)
{
    uint64_t count;
    ssize_t done = read(fd, &count, sizeof count);

    (void)done;
}

int core_waiter_add(struct core_waiters *waiters, struct core_waiter *waiter)
{
    if (waiters->spare_in == core_generation) {
        waiter->fd = waiters->spare;
        waiters->spare_in = 0;
    } else {
        waiter->fd = core_eventfd();
        if (waiter->fd < 0)
            return errno;
    }
    waiter->woken = false;
    waiter->made_in = core_generation;
    waiter->next = waiters->first;
    waiters->first = waiter;
    return 0;
}

void core_waiter_remove(struct core_waiters *waiters, struct core_waiter *waiter)
{
    struct core_waiter **at = &waiters->first;

    if (waiter->made_in != core_generation) /* the others lie on stacks of threads that this process does not have */
        return;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;

    core_waiter_clear(waiter);
    if (waiters->spare_in) {
        close(waiter->fd);
    } else {
        waiters->spare = waiter->fd;
        waiters->spare_in = core_generation;
    }
}

bool core_waiter_clear(struct core_waiter *waiter)
{
    bool woken = waiter->woken;

    if (woken)
        core_eventfd_clear(waiter->fd);
    waiter->woken = false;
    return woken;
}

void core_waiters_wake(struct core_waiters *waiters)
{
    for (struct core_waiter *waiter = waiters->first; waiter; waiter = waiter->next) {
        if (!waiter->woken)
            core_eventfd_set(waiter->fd);
        waiter->woken = true;
    }
}

int core_waiters_provide(struct core_waiters *waiters)
{
    waiters->spare = core_eventfd();
    if (waiters->spare < 0)
        return errno;
    waiters->spare_in = core_generation;
    return 0;
}

void core_waiters_free(struct core_waiters *waiters)
{
    if (waiters->spare_in == core_generation) /* else it is the parent's, and the number may be another file's by now */
        close(waiters->spare);
    waiters->spare_in = 0;
}

void core_wait_begin(struct core_wait *wait, int64_t timeout_ns)
{
    wait->among = NULL;
    wait->timeout_ns = timeout_ns;
    wait->deadline = timeout_ns > 0 ? core_now_ns() + timeout_ns : 0;
}

int64_t core_wait_left(const struct core_wait *wait)
{
    int64_t left;

    if (wait->timeout_ns <= 0)
        return wait->timeout_ns;
    left = wait->deadline - core_now_ns();
    return left > 0 ? left : 0;
}

int core_wait_join(struct core_wait *wait, struct core_waiters *waiters)
{
    int err = wait->among ? 0 : core_waiter_add(waiters, &wait->waiter);

    if (!err)
        wait->among = waiters;
    return err;
}

void core_wait_end(struct core_wait *wait)
{
    if (wait->among)
        core_waiter_remove(wait->among, &wait->waiter);
}

/* ---- sources of events ------------------------------------------------------------------------------------------- */

int core_events_init(struct core_events *events, int fd)
{
    int flags = fcntl(fd, F_GETFL), err;

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return errno;
    err = core_waiters_provide(&events->waiters);
    if (!err)
        err = pthread_rwlock_init(&events->lock, NULL);
    if (err)
        return err;
    events->fd = fd;
    events->ready = true;
    return 0;
}

void core_events_free(struct core_events *events)
{
    core_waiters_free(&events->waiters);
    if (events->ready)
        pthread_rwlock_destroy(&events->lock);
    events->ready = false;
}

void core_events_hold(struct core_events *events)
{
    pthread_rwlock_rdlock(&events->lock);
}

void core_events_release(struct core_events *events)
{
    pthread_rwlock_unlock(&events->lock);
}

int core_events_try(struct core_events *events)
{
    struct pollfd there = {events->fd, POLLIN, 0};

    if (pthread_rwlock_trywrlock(&events->lock) != 0)
        return EBUSY;
    if (poll(&there, 1, 0) == 1)
        return 0;
    core_events_release(events);
    return EAGAIN;
}

void core_events_sleep(const struct core_events *events, const struct core_wait *wait, int tried)
{
    struct pollfd fds[2] = {{wait->waiter.fd, POLLIN, 0}, {events->fd, POLLIN, 0}};
    bool destroying = tried == EBUSY;
    int64_t left_ns = core_wait_left(wait);
    struct timespec left;

    if (destroying && (left_ns < 0 || left_ns > DESTROY_POLL_NS))
        left_ns = DESTROY_POLL_NS;
    left = (struct timespec){left_ns / NS_PER_S, left_ns % NS_PER_S};
    Py_BEGIN_ALLOW_THREADS
    ppoll(fds, destroying ? 1 : 2, left_ns < 0 ? NULL : &left, NULL);
    Py_END_ALLOW_THREADS
}

/* One turn of a wait: takes an event or sleeps for one. With EAGAIN the time is over. */
static PyObject *take_or_sleep(struct core_object *self, struct core_events *events, core_events_take take,
                               struct core_wait *wait, int *ret_err)
{
    PyObject *event;
    int tried, err;

    if (wait->among)
        core_waiter_clear(&wait->waiter);
    event = take(self, &tried);
    *ret_err = tried;
    if (event || (tried != EAGAIN && tried != EBUSY))
        return event;

    *ret_err = EAGAIN;
    if (core_wait_left(wait) == 0)
        return NULL;
    err = core_wait_join(wait, &events->waiters);
    if (!err)
        core_events_sleep(events, wait, tried);
    *ret_err = err ? err : EINTR;
    return NULL;
}

PyObject *core_events_wait(struct core_object *self, struct core_events *events, int64_t timeout_ns,
                           core_events_take take, const char *method, const char *operation)
{
    struct core_wait wait;
    PyObject *event = NULL;
    int err = EINTR;

    core_wait_begin(&wait, timeout_ns);
    while (!event && err == EINTR && PyErr_CheckSignals() == 0 && core_enter(self, method) == 0) {
        event = take_or_sleep(self, events, take, &wait, &err);
        core_exit(self); /* before signal handlers run: they may close the object */
    }
    core_wait_end(&wait);

    if (!event && err == EAGAIN) {
        event = Py_None;
        Py_INCREF(event);
    } else if (!event && err && err != EINTR) {
        core_raise(self->state, err, operation, NULL);
    }
    return event;
}
