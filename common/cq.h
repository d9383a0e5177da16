/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CQ: a completion queue. Polling fills the queue's own array of completions and wraps them one by one, so that what
 * was reaped and could not be delivered (no memory, a later failure) comes with the next call. Waiting is in cq_wait.c.
 */
#ifndef CORE_CQ_H
#define CORE_CQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "channel.h"
#include "context.h"
#include "object.h"
#include "wait.h"

#define CORE_CQ_REAP 64 /* how many completions one call of the library is asked for */
#define CORE_CQ_SPIN 16 /* the same while a wait spins: one thread at a time, with entries of its own behind those */
#define CORE_CQ_LEAVE 16 /* and for a source that looks when a queue pair goes */
#define CORE_CQ_LEAVE_AT (CORE_CQ_REAP + CORE_CQ_SPIN)
#define CORE_CQ_ROOM (CORE_CQ_LEAVE_AT + CORE_CQ_LEAVE)

struct core_cq;

/* How the completions of one class of queues are had from the library. */
struct core_cq_source {
    const char *verb; /* what polling calls: "ibv_poll_cq" */
    /*
     * Fills `ready` from `at` on with at most so many completions, imm_data as the library has it. Returns 0 or a
     * positive errno; what it wrote before a failure is cleared. No code of the caller's runs. With the GIL or without:
     * two threads may be in it, with other entries each.
     */
    int (*reap)(struct core_cq *self, uint32_t at, uint32_t most, uint32_t *ret_found);
    /* Adds what else the module's WC holds to the object that was made from ready[at]. May be NULL. */
    void (*add)(struct core_cq *self, uint32_t at, PyObject *wc);
    bool needs_channel; /* the provider cannot be asked for an event of a queue that has no channel */
    /* Before a queue pair of it is destroyed or reset, and once it is `gone`. Without the GIL. May be NULL. */
    void (*leave)(struct core_cq *self, uint32_t qp_num, bool gone);
};

struct core_cq {
    struct core_object base;
    const struct core_cq_source *source;
    bool lost_qps; /* a queue pair of it was destroyed; written without the GIL, atomically */
    struct core_channel *channel; /* held as a parent; NULL where there is none */
    uint64_t events;              /* read by the channel and not yet acknowledged by the program */

    /* Who wants the next event, and who waits; see channel.h. */
    uint32_t asked; /* how many req_notify() has asked for that have not come */
    bool waited_on; /* a wait has armed it for itself */
    struct core_waiters waiters;
    uint32_t pending; /* events that have yet to come out of get_cq_event(): a place in the channel's list */
    struct core_cq *next_pending;
    bool spinning;       /* a thread polls it without the GIL, into the last entries of `ready` */
    atomic_bool leaving; /* it is being closed: that thread ends */

    bool left_over;      /* either of these two */
    uint32_t spun_count; /* what a spinning thread left there, to be delivered by the next call */
    int deferred_err;    /* of the library, to be raised by the next call */
    uint32_t ready_at;   /* what was reaped and not delivered: ready[ready_at] and on */
    uint32_t ready_count;
    struct ibv_wc ready[CORE_CQ_ROOM]; /* all zero but for those: providers leave fields that do not apply */
};

static inline struct ibv_cq *core_cq_handle(const struct core_cq *self)
{
    return self->base.handle;
}

/* That of ibv_poll_cq. */
extern const struct core_cq_source core_cq_plain;

/* A reap that asks ibv_poll_cq, and what that returns as an errno. */
int core_cq_reap(struct core_cq *self, uint32_t at, uint32_t most, uint32_t *ret_found);

/* ---- making --------------------------------------------------------------------------------------------------------- */

/* What every way of making one asks for. */
struct core_cq_request {
    uint32_t cqe;
    uint32_t comp_vector;
    struct core_object *channel; /* borrowed; NULL for none */
    const char *detail; /* what else was asked for, in words; or NULL */
};

/* Reads cqe, channel and comp_vector (NULL for what was not given) for `method` of a context. Returns 0 or -1. */
int core_cq_read_request(struct core_context *context, PyObject *const values[3], const char *method,
                         struct core_cq_request *ret);

/* A queue without a handle, begun, with room kept in the map; NULL with an exception. */
struct core_cq *core_cq_begin(struct core_context *context, int type, const struct core_cq_source *source,
                              const struct core_cq_request *request, const char *method);

/* Takes the handle (NULL: `verb` failed with `err`, which is raised with what was asked for). */
PyObject *core_cq_finish(struct core_cq *self, struct ibv_cq *cq, int err, const char *verb,
                         const struct core_cq_request *request);

/* Context.create_cq(): by ibv_create_cq, of the class `type`. */
PyObject *core_context_create_cq(PyObject *context, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int type,
                                 const struct core_cq_source *source);

/* The row of the module's method, which chooses class and source. */
#define CORE_CREATE_CQ_METHOD(method)                                                                                  \
    CORE_METHOD("create_cq", method,                                                                                   \
                "create_cq($self, cqe, channel=None, comp_vector=0)\n--\n\n"                                           \
                "Return a completion queue for at least cqe completions. ibv_create_cq.")

/* ---- for waiting: with the GIL, the queue open, and nobody of the caller's entered --------------------------------- */

/* Raises ValueError where the queue has no channel to wait on. Returns 0 or -1. */
int core_cq_check_channel(const struct core_cq *self);

/* Whether there are completions to deliver, reaping some if need be. 1 or 0, or -1 with an exception. */
int core_cq_look(struct core_cq *self, uint32_t most);

/* A list of what is there, at most so many; less than was looked at where other code ran meanwhile. */
PyObject *core_cq_deliver(struct core_cq *self, uint32_t most);

/* Asks the library without the GIL, for the one thread that spins, which found nothing before. Returns 0 or an errno. */
int core_cq_spin(struct core_cq *self, uint32_t most, uint32_t *ret_found);

/* Takes in what that came to, with the GIL; until it is delivered no thread spins. Returns 0, or -1 with an exception. */
int core_cq_spun(struct core_cq *self, int err, uint32_t found);

/* Arms the queue for whoever waits. Returns 0, or -1 with an exception. */
int core_cq_arm(struct core_cq *self);

/* ---- rows for the module's class ---------------------------------------------------------------------------------- */

PyObject *core_cq_method_poll(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_cq_method_req_notify(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_cq_method_ack_events(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_cq_method_wait(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
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
                    "Say that events were dealt with; the library was told when they were read."),                     \
        CORE_METHOD("wait", core_cq_method_wait,                                                                       \
                    "wait($self, num_entries, timeout=None, spin=2e-05)\n--\n\n"                                       \
                    "Return completions as poll() does, but wait for the first; [] when the time is over.")

#define CORE_CQ_GETSET                                                                                                 \
    {"cqe", core_cq_get_cqe, NULL, "How many completions the queue holds, as granted.", NULL},                         \
        {"channel", core_cq_get_channel, NULL, "The CompChannel it announces on, or None.", NULL},                     \
        {"context", core_object_get_parent, NULL, "The Context it belongs to.", NULL}

#endif
