/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CQ.wait: spin a little, then sleep on the channel until there is a completion.
 *
 * Nothing is lost between looking and sleeping: a thread becomes a waiter of the queue, arms it, looks again, and only
 * then sleeps, with the GIL held all along. An event that comes after that is read by somebody, who wakes all waiters of
 * the queue (channel.c), and each of them begins anew: one that finds nothing arms again.
 */
#include <errno.h>
#include <sched.h>

#include "args.h"
#include "channel.h"
#include "cq.h"
#include "error.h"
#include "wait.h"

#define DEFAULT_SPIN_NS 20000
#define SPIN_TURN_NS 2000000 /* after this long a spinning thread lets signals be handled */
#define POLLS_PER_TIME 4     /* how often it polls before it looks at the clock */

/* ---- spinning ---------------------------------------------------------------------------------------------------- */

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Polls until something comes, the time is over or the queue is being closed. Without the GIL. Returns 0 or an errno. */
static int poll_until(struct core_cq *self, uint32_t most, int64_t until, uint32_t *ret_found)
{
    int err = 0;

    do {
        sched_yield(); /* to whoever shares this CPU: it may be the one who is waited for */
        for (int i = 0; i < POLLS_PER_TIME && !err && !*ret_found; i++) {
            relax();
            err = core_cq_spin(self, most, ret_found);
        }
    } while (!err && !*ret_found && core_now_ns() < until &&
             !atomic_load_explicit(&self->leaving, memory_order_relaxed));
    return err;
}

/* One turn of it. Returns 0, or -1 with an exception. */
static int spin(struct core_cq *self, uint32_t most, int64_t until)
{
    int64_t turn = core_now_ns() + SPIN_TURN_NS;
    uint32_t found = 0;
    int err;

    if (core_enter(&self->base, "wait") < 0)
        return -1;
    self->spinning = true;
    Py_BEGIN_ALLOW_THREADS
    err = poll_until(self, most, turn < until ? turn : until, &found);
    Py_END_ALLOW_THREADS
    self->spinning = false;
    core_exit(&self->base);
    if (core_cq_spun(self, err, found) < 0)
        return -1;
    return PyErr_CheckSignals();
}

/* ---- sleeping ---------------------------------------------------------------------------------------------------- */

struct waiting {
    struct core_wait wait;
    uint32_t most;
    int64_t spin_ns, spin_until; /* the latter is 0 before it began */
    bool armed;
    int tried; /* what reading the channel came to */
};

/* Sleeps until there may be news. Returns 0, or -1 with an exception. */
static int sleep_on_channel(struct core_cq *self, struct waiting *waiting)
{
    struct core_channel *channel = self->channel; /* stays open as long as the queue does */

    if (core_enter(&self->base, "wait") < 0)
        return -1;
    core_events_sleep(&channel->events, &waiting->wait, waiting->tried);
    waiting->tried = core_channel_read(channel);
    core_exit(&self->base);

    switch (waiting->tried) {
    case EAGAIN:
    case EBUSY:
    case EINTR:
        return PyErr_CheckSignals();
    default:
        core_raise(self->base.state, waiting->tried, "ibv_get_cq_event", NULL);
        return -1;
    }
}

/* Becomes a waiter and arms, or sleeps where that was done already. Returns 0, or -1 with an exception. */
static int arm_or_sleep(struct core_cq *self, struct waiting *waiting)
{
    int err;

    if (waiting->armed) {
        if (sleep_on_channel(self, waiting) < 0)
            return -1;
        waiting->armed = !core_waiter_clear(&waiting->wait.waiter);
        return 0;
    }
    err = core_wait_join(&waiting->wait, &self->waiters);
    if (err) {
        core_raise(self->base.state, err, "CQ.wait", NULL);
        return -1;
    }
    waiting->armed = true;
    return core_cq_arm(self);
}

/* ---- the method -------------------------------------------------------------------------------------------------- */

static bool may_spin(const struct core_cq *self, struct waiting *waiting)
{
    int64_t now;

    if (!waiting->spin_ns || self->spinning)
        return false;
    now = core_now_ns();
    if (!waiting->spin_until) {
        waiting->spin_until = now + waiting->spin_ns;
        if (waiting->wait.deadline && waiting->spin_until > waiting->wait.deadline)
            waiting->spin_until = waiting->wait.deadline;
    }
    return now < waiting->spin_until;
}

static PyObject *wait_for_any(struct core_cq *self, struct waiting *waiting)
{
    while (core_check_open(&self->base, "wait") == 0) {
        int ready = core_cq_look(self, waiting->most);

        if (ready < 0)
            return NULL;
        if (ready) {
            PyObject *list = core_cq_deliver(self, waiting->most);
            if (!list || PyList_Size(list) > 0)
                return list;
            Py_DECREF(list); /* code that the collector ran has taken them */
            continue;
        }
        if (core_wait_left(&waiting->wait) == 0)
            return PyList_New(0);
        if (may_spin(self, waiting) ? spin(self, waiting->most, waiting->spin_until) < 0
                                    : arm_or_sleep(self, waiting) < 0)
            return NULL;
    }
    return NULL;
}

/* The parameter `spin`: nanoseconds; None is not at all. */
static int spin_time(PyObject *value, int64_t *ret_ns)
{
    *ret_ns = value ? 0 : DEFAULT_SPIN_NS;
    if (!value || value == Py_None)
        return 0;
    if (core_timeout(value, "spin", ret_ns) < 0)
        return -1;
    if (*ret_ns >= 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "spin must be a bounded time in seconds, or None, got %S", value);
    return -1;
}

static const struct core_params wait_params = {
    "CQ.wait", 3, 1, {CORE_NAME_num_entries, CORE_NAME_timeout, CORE_NAME_spin}};

PyObject *core_cq_method_wait(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_cq *self = (struct core_cq *)op;
    struct waiting waiting = {.tried = EAGAIN};
    PyObject *values[3], *list;
    int64_t timeout_ns;

    if (core_parse(self->base.state, &wait_params, args, nargs, kwnames, values) < 0 ||
        core_count(self->base.state, values[0], "num_entries", 1, &waiting.most) < 0 ||
        core_timeout(values[1], "timeout", &timeout_ns) < 0 || spin_time(values[2], &waiting.spin_ns) < 0 ||
        core_check_open(&self->base, "wait") < 0 || core_cq_check_channel(self) < 0)
        return NULL;

    core_wait_begin(&waiting.wait, timeout_ns);
    list = wait_for_any(self, &waiting);
    core_wait_end(&waiting.wait);
    return list;
}
