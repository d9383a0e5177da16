/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for events and reading them. See wait.h. */
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

int core_events_init(struct core_events *events, int fd)
{
    int flags = fcntl(fd, F_GETFL), err;

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return errno;
    events->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (events->wake_fd < 0)
        return errno;
    err = pthread_rwlock_init(&events->lock, NULL);
    if (err) {
        close(events->wake_fd);
        return err;
    }
    events->fd = fd;
    events->made_in = core_generation;
    events->ready = true;
    return 0;
}

void core_events_free(struct core_events *events)
{
    if (!events->ready)
        return;
    if (events->made_in == core_generation) /* else it is the parent's, and the number may be another file's by now */
        close(events->wake_fd);
    pthread_rwlock_destroy(&events->lock);
    events->ready = false;
}

void core_events_wake(struct core_events *events, bool closing)
{
    uint64_t count = 1;
    ssize_t done;

    /* Neither can fail on an eventfd of ours but by being in that state already. */
    done = closing ? write(events->wake_fd, &count, sizeof count) : read(events->wake_fd, &count, sizeof count);
    (void)done;
}

void core_events_hold(struct core_events *events)
{
    pthread_rwlock_rdlock(&events->lock);
}

void core_events_release(struct core_events *events)
{
    pthread_rwlock_unlock(&events->lock);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/*
 * Sleeps until an event may be there, the object is being closed, a signal comes or the time is over; a moment at most
 * where a destroy is under way, which nothing announces the end of.
 */
static void sleep_until_ready(const struct core_events *events, bool destroying, int64_t left_ns)
{
    struct pollfd fds[2] = {{events->wake_fd, POLLIN, 0}, {events->fd, POLLIN, 0}};
    struct timespec left;

    if (destroying && (left_ns < 0 || left_ns > DESTROY_POLL_NS))
        left_ns = DESTROY_POLL_NS;
    left = (struct timespec){left_ns / NS_PER_S, left_ns % NS_PER_S};
    Py_BEGIN_ALLOW_THREADS
    ppoll(fds, destroying ? 1 : 2, left_ns < 0 ? NULL : &left, NULL);
    Py_END_ALLOW_THREADS
}

PyObject *core_events_wait(struct core_object *self, struct core_events *events, int64_t timeout_ns,
                           core_events_read read, const char *method, const char *operation)
{
    int64_t deadline = timeout_ns > 0 ? now_ns() + timeout_ns : 0;

    for (;;) {
        PyObject *event = NULL;
        int64_t left = timeout_ns;
        bool destroying;
        int err = 0;

        if (core_enter(self, method) < 0)
            return NULL;
        destroying = pthread_rwlock_trywrlock(&events->lock) != 0;
        if (destroying) {
            err = EAGAIN;
        } else {
            event = read(self, &err);
            pthread_rwlock_unlock(&events->lock);
        }

        if (!event && err == EINTR) { /* nothing was read: again, after the signal's handler */
            left = -1;
            err = EAGAIN;
        } else if (!event && err == EAGAIN) {
            if (timeout_ns > 0)
                left = deadline > now_ns() ? deadline - now_ns() : 0;
            if (left != 0)
                sleep_until_ready(events, destroying, left);
        }
        core_exit(self); /* before signal handlers run: they may close the object */

        if (event)
            return event;
        if (err != EAGAIN)
            return err ? core_raise(self->state, err, operation, NULL) : NULL;
        if (PyErr_CheckSignals() < 0)
            return NULL;
        if (left == 0)
            Py_RETURN_NONE;
    }
}
