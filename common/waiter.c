/* SPDX-License-Identifier: BSD-3-Clause */
/* The Waiter class. See waiter.h. */
#include "waiter.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "args.h"
#include "channel.h"
#include "context.h"
#include "cq.h"
#include "error.h"
#include "wait.h"

struct waiter {
    PyObject_HEAD
    struct core_object *source; /* held: it outlives its list of waiters */
    struct core_cq *cq;         /* the source, where it is one */
    struct core_waiters *among; /* NULL once closed */
    struct core_waiter waiter;
    int fd; /* an epoll descriptor of this process as long as it is open */
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Where those wait who wait on an object, and the events that concern it; -1 with TypeError or ValueError. */
static int find(struct core_state *state, PyObject *source, struct core_waiters **ret_among,
                const struct core_events **ret_events)
{
    if (core_is(state, source, CORE_TYPE_CONTEXT)) {
        *ret_events = &((struct core_context *)source)->async;
        *ret_among = &((struct core_context *)source)->async.waiters;
    } else if (core_is(state, source, CORE_TYPE_CHANNEL)) {
        *ret_events = &((struct core_channel *)source)->events;
        *ret_among = &((struct core_channel *)source)->events.waiters;
    } else if (core_is(state, source, CORE_TYPE_CQ)) {
        if (core_cq_check_channel((struct core_cq *)source) < 0)
            return -1;
        *ret_events = &((struct core_cq *)source)->channel->events;
        *ret_among = &((struct core_cq *)source)->waiters;
    } else {
        core_raise_type("source", "a CQ, a CompChannel or a Context", source);
        return -1;
    }
    return 0;
}

static int watch(int epoll_fd, int fd)
{
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}) < 0 ? errno : 0;
}

/* Lets go of the descriptors, where they are this process's, and of the place among the waiters. */
static void let_go(struct waiter *self)
{
    if (!self->among)
        return;
    if (self->waiter.made_in == core_generation)
        close(self->fd);
    core_waiter_remove(self->among, &self->waiter);
    self->among = NULL;
}

/* 0 or a positive errno. */
static int join(struct waiter *self, struct core_waiters *among, const struct core_events *events)
{
    int err;

    self->fd = epoll_create1(EPOLL_CLOEXEC);
    if (self->fd < 0)
        return errno;
    err = core_waiter_add(among, &self->waiter);
    if (err) {
        close(self->fd);
        return err;
    }
    self->among = among;
    err = watch(self->fd, self->waiter.fd);
    return err ? err : watch(self->fd, events->fd);
}

static const struct core_params waiter_params = {"Waiter", 1, 1, {CORE_NAME_source}};

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    const struct core_events *events;
    struct core_waiters *among;
    PyObject *source = values[0];
    struct waiter *self;
    int err;

    if (find(state, source, &among, &events) < 0)
        return NULL;
    self = (struct waiter *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    Py_INCREF(source);
    self->source = (struct core_object *)source;
    self->cq = core_is(state, source, CORE_TYPE_CQ) ? (struct core_cq *)source : NULL;
    if (core_check_open(self->source, "wait") == 0) {
        err = join(self, among, events);
        if (!err)
            return (PyObject *)self;
        core_raise(state, err, "Waiter", NULL);
    }
    Py_DECREF(self);
    return NULL;
}

static PyObject *waiter_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_construct(type, args, kwargs, &waiter_params, make);
}

static int waiter_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(((struct waiter *)op)->source);
    Py_VISIT(Py_TYPE(op));
    return 0;
}

static void waiter_dealloc(PyObject *op)
{
    struct waiter *self = (struct waiter *)op;
    PyTypeObject *type = Py_TYPE(op);

    PyObject_GC_UnTrack(op);
    let_go(self);
    Py_XDECREF(self->source);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(op);
    Py_DECREF(type);
}

/* ---- methods ----------------------------------------------------------------------------------------------------- */

static PyObject *waiter_close(PyObject *op, PyObject *ignored)
{
    (void)ignored;
    let_go((struct waiter *)op);
    Py_RETURN_NONE;
}

static PyObject *waiter_fileno(PyObject *op, PyObject *ignored)
{
    struct waiter *self = (struct waiter *)op;

    (void)ignored;
    if (self->among)
        return PyLong_FromLong(self->fd);
    PyErr_SetString(PyExc_ValueError, "the Waiter is closed");
    return NULL;
}

static PyObject *waiter_arm(PyObject *op, PyObject *ignored)
{
    struct core_cq *cq = ((struct waiter *)op)->cq;

    (void)ignored;
    if (cq && (core_check_open(&cq->base, "wait") < 0 || core_cq_arm(cq) < 0))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *waiter_take(PyObject *op, PyObject *ignored)
{
    struct waiter *self = (struct waiter *)op;
    int err = 0;

    (void)ignored;
    if (!self->among || self->source->open_in != core_generation || !self->cq) {
        if (self->among)
            core_waiter_clear(&self->waiter);
        Py_RETURN_TRUE;
    }
    err = core_channel_read(self->cq->channel);
    if (err != EAGAIN && err != EBUSY && err != EINTR)
        return core_raise(self->source->state, err, "ibv_get_cq_event", NULL);
    return PyBool_FromLong(core_waiter_clear(&self->waiter));
}

/* ---- the class --------------------------------------------------------------------------------------------------- */

static PyMethodDef waiter_methods[] = {
    {"fileno", waiter_fileno, METH_NOARGS, "fileno($self)\n--\n\nReturn the descriptor to watch for reading."},
    {"arm", waiter_arm, METH_NOARGS, "arm($self)\n--\n\nAsk for the next event; look again before waiting for it."},
    {"take", waiter_take, METH_NOARGS,
     "take($self)\n--\n\nTake in what made the descriptor readable, and return whether to look at the object now."},
    {"close", waiter_close, METH_NOARGS, "close($self)\n--\n\nStop waiting and close the descriptor."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot waiter_slots[] = {
    {Py_tp_doc, "Waiter(source)\n--\n\nHow an event loop waits on a CQ, a CompChannel or a Context."},
    {Py_tp_new, waiter_new},
    {Py_tp_traverse, waiter_traverse},
    {Py_tp_dealloc, waiter_dealloc},
    {Py_tp_methods, waiter_methods},
    {0, NULL},
};

const PyType_Spec core_waiter_spec = {
    .basicsize = sizeof(struct waiter),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = waiter_slots,
};
