/* SPDX-License-Identifier: BSD-3-Clause */
/* The CompChannel class. See channel.h. */
#include "channel.h"

#include <errno.h>

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
    core_events_wake(&((struct core_channel *)self)->events, closing);
}

static void channel_release(struct core_object *self, void *handle)
{
    (void)handle;
    core_events_free(&((struct core_channel *)self)->events);
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
    *ret_err = core_events_init(&self->events, channel->fd);
    if (*ret_err) {
        verbs.destroy_comp_channel(channel);
        return NULL;
    }
    return channel;
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

/* The one place that reads this channel's events; each is acknowledged to the library and counted on its CQ. */
static PyObject *read_cq_event(struct core_object *self, int *ret_err)
{
    struct core_object *cq;
    struct ibv_cq *pointer;
    void *context;

    errno = 0;
    if (verbs.get_cq_event(self->handle, &pointer, &context)) {
        *ret_err = verbs_last_errno();
        return NULL;
    }
    verbs.ack_cq_events(pointer, 1);

    cq = core_context_find(core_context_of(self), core_pointer_key(pointer));
    if (!cq) { /* it is being closed: nobody is left to tell */
        *ret_err = EAGAIN;
        return NULL;
    }
    ((struct core_cq *)cq)->events++;
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
        core_timeout(value, &timeout_ns) < 0)
        return NULL;
    return core_events_wait(&self->base, &self->events, timeout_ns, read_cq_event, "get_cq_event", "ibv_get_cq_event");
}

static PyObject *channel_get_fd(PyObject *op, void *ignored)
{
    struct core_channel *self = (struct core_channel *)op;

    (void)ignored;
    return core_check_open(&self->base, "fd") < 0 ? NULL : PyLong_FromLong(self->events.fd);
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
    {"fd", channel_get_fd, NULL, "The descriptor: readable while an event is there; non-blocking.", NULL},
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
