/* SPDX-License-Identifier: BSD-3-Clause */
/* The CompChannel class. See channel.h. */
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "args.h"
#include "context.h"
#include "cq.h"
#include "error.h"
#include "verbs.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int channel_destroy(struct core_object *self)
{
    return verbs_errno(verbs.destroy_comp_channel(self->handle));
}

static void channel_wake(struct core_object *self, bool closing)
{
    if (closing)
        core_waiters_wake(&((struct core_channel *)self)->events.waiters);
}

static void close_fds(struct core_channel *self)
{
    if (self->fds_in == core_generation) { /* as with waiters: after a fork the numbers may be another file's */
        close(self->pending_fd);
        close(self->fd);
    }
    self->fds_in = 0;
}

static void channel_release(struct core_object *op, void *handle)
{
    struct core_channel *self = (struct core_channel *)op;

    (void)handle;
    core_events_free(&self->events);
    close_fds(self);
}

static const struct core_kind channel_kind = {
    CORE_KIND_CHANNEL, "ibv_destroy_comp_channel", channel_destroy, channel_wake, channel_release,
};

static PyObject *channel_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "Context.create_comp_channel()");
}

static int watch(int epoll_fd, int fd)
{
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}) < 0 ? errno : 0;
}

/* The descriptor that shows both the library's events and those that were read already. 0 or a positive errno. */
static int open_fds(struct core_channel *self, int library_fd)
{
    int err;

    self->pending_fd = core_eventfd();
    if (self->pending_fd < 0)
        return errno;
    self->fd = epoll_create1(EPOLL_CLOEXEC);
    if (self->fd < 0) {
        err = errno;
        close(self->pending_fd);
        return err;
    }
    self->fds_in = core_generation;
    err = fcntl(self->fd, F_SETFL, O_NONBLOCK) < 0 ? errno : watch(self->fd, self->pending_fd);
    return err ? err : watch(self->fd, library_fd);
}

/* The channel, set up for waiting; NULL with the errno. Without the GIL. */
static struct ibv_comp_channel *create(struct ibv_context *context, struct core_channel *self, int *ret_err)
{
    struct ibv_comp_channel *channel;

    errno = 0;
    channel = verbs.create_comp_channel(context);
    if (!channel) {
        *ret_err = verbs_last_errno();
        return NULL;
    }
    *ret_err = open_fds(self, channel->fd);
    if (!*ret_err)
        *ret_err = core_events_init(&self->events, channel->fd);
    if (!*ret_err)
        return channel;
    verbs.destroy_comp_channel(channel);
    return NULL;
}

PyObject *core_context_method_create_comp_channel(PyObject *op, PyObject *ignored)
{
    struct core_object *context = (struct core_object *)op;
    struct ibv_comp_channel *channel;
    struct core_channel *self;
    PyObject *result;
    int err;

    (void)ignored;
    if (core_check_open(context, "create_comp_channel") < 0)
        return NULL;
    self = (struct core_channel *)core_object_new(context->state, context->module, CORE_TYPE_CHANNEL, &channel_kind);
    if (!self)
        return NULL;
    core_object_add_parent(&self->base, context);
    if (core_object_begin(&self->base, "create_comp_channel") < 0)
        return NULL;

    Py_BEGIN_ALLOW_THREADS
    channel = create(context->handle, self, &err);
    Py_END_ALLOW_THREADS
    result = core_object_finish(&self->base, channel);
    return err ? core_raise(context->state, err, "ibv_create_comp_channel", NULL) : result;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void put_pending(struct core_channel *self, struct core_cq *cq)
{
    if (cq->pending++)
        return;
    cq->next_pending = NULL;
    if (self->last_pending) {
        self->last_pending->next_pending = cq;
    } else {
        self->first_pending = cq;
        core_eventfd_set(self->pending_fd);
        core_waiters_wake(&self->events.waiters);
    }
    self->last_pending = cq;
}

/* Takes a queue out of the list, with all its events. */
void core_channel_forget(struct core_channel *self, struct core_cq *cq)
{
    struct core_cq *before = NULL;

    if (!cq->pending)
        return;
    cq->pending = 0;
    for (struct core_cq *at = self->first_pending; at != cq; at = at->next_pending)
        before = at;
    *(before ? &before->next_pending : &self->first_pending) = cq->next_pending;
    if (self->last_pending == cq)
        self->last_pending = before;
    if (!self->first_pending && self->fds_in == core_generation)
        core_eventfd_clear(self->pending_fd);
}

/* The queue whose event comes out next; NULL where none is left. */
static struct core_cq *take_pending(struct core_channel *self)
{
    struct core_cq *cq;

    while ((cq = self->first_pending) && cq->base.open_in != core_generation) /* being closed */
        core_channel_forget(self, cq);
    if (cq && cq->pending > 1)
        cq->pending--;
    else if (cq)
        core_channel_forget(self, cq);
    return cq;
}

/*
 * The one place that reads this channel's events. Each is acknowledged to the library, and wakes the waits of its queue.
 * Returns 0 with the queue, borrowed, where the event is for the program, else with NULL; or an errno, as
 * core_channel_read does.
 */
static int read_one(struct core_channel *self, struct core_cq **ret_cq)
{
    struct ibv_cq *pointer;
    struct core_cq *cq;
    void *context;
    int err = core_events_try(&self->events);

    *ret_cq = NULL;
    if (err)
        return err;
    errno = 0;
    err = verbs.get_cq_event(self->base.handle, &pointer, &context) ? verbs_last_errno() : 0;
    if (!err)
        verbs.ack_cq_events(pointer, 1);
    cq = err ? NULL : (struct core_cq *)core_context_find(core_context_of(&self->base), core_pointer_key(pointer));
    core_events_release(&self->events);

    if (cq) { /* else it is being closed: nobody is left to tell */
        core_waiters_wake(&cq->waiters);
        if (cq->asked || !cq->waited_on)
            *ret_cq = cq;
        if (cq->asked)
            cq->asked--;
    }
    return err;
}

int core_channel_read(struct core_channel *self)
{
    struct core_cq *cq;
    int err;

    while ((err = read_one(self, &cq)) == 0)
        if (cq)
            put_pending(self, cq);
    return err;
}

static PyObject *take_cq_event(struct core_object *op, int *ret_err)
{
    struct core_channel *self = (struct core_channel *)op;
    struct core_cq *cq = take_pending(self);

    *ret_err = cq ? 0 : read_one(self, &cq);
    if (!cq) {
        if (!*ret_err)
            *ret_err = EINTR; /* that one was not for the program: the next may be */
        return NULL;
    }
    cq->events++;
    Py_INCREF(cq);
    return (PyObject *)cq;
}

static const struct core_params get_cq_event_params = {"CompChannel.get_cq_event", 1, 0, {CORE_NAME_timeout}};

static PyObject *channel_get_cq_event(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_channel *self = (struct core_channel *)op;
    int64_t timeout_ns;
    PyObject *value;

    if (core_parse(self->base.state, &get_cq_event_params, args, nargs, kwnames, &value) < 0 ||
        core_timeout(value, "timeout", &timeout_ns) < 0)
        return NULL;
    return core_events_wait(&self->base, &self->events, timeout_ns, take_cq_event, "get_cq_event", "ibv_get_cq_event");
}

static PyObject *channel_get_fd(PyObject *op, void *ignored)
{
    struct core_channel *self = (struct core_channel *)op;

    (void)ignored;
    return core_check_open(&self->base, "fd") < 0 ? NULL : PyLong_FromLong(self->fd);
}

/* ---- the class --------------------------------------------------------------------------------------------------- */

static PyMethodDef channel_methods[] = {
    CORE_LIFETIME_METHODS,
    CORE_METHOD("get_cq_event", channel_get_cq_event,
                "get_cq_event($self, timeout=None)\n--\n\n"
                "Wait for an event and return the CQ it is about; None when the time is over. ibv_get_cq_event."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef channel_getset[] = {
    CORE_LIFETIME_GETSET,
    {"fd", channel_get_fd, NULL, "A descriptor to watch: readable while an event is there; non-blocking.", NULL},
    {"context", core_object_get_parent, NULL, "The Context it belongs to.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef channel_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot channel_slots[] = {
    {Py_tp_doc, "CompChannel()\n--\n\nA completion channel; Context.create_comp_channel() makes one."},
    {Py_tp_new, channel_no_constructor},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, core_object_repr},
    {Py_tp_methods, channel_methods},
    {Py_tp_getset, channel_getset},
    {Py_tp_members, channel_members},
    {0, NULL},
};

const PyType_Spec core_channel_spec = {
    .basicsize = sizeof(struct core_channel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = channel_slots,
};
