/* SPDX-License-Identifier: BSD-3-Clause */
/* What an open device can do. See context.h. */
#include "context.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "async_event.h"
#include "cause.h"
#include "device_attr.h"
#include "error.h"
#include "gid.h"
#include "gid_entry.h"
#include "port_attr.h"
#include "verbs.h"

/* ---- life ------------------------------------------------------------------------------------------------------ */

static int context_destroy(struct core_object *self)
{
    return verbs_errno(verbs.close_device(self->handle));
}

static void context_wake(struct core_object *self, bool closing)
{
    if (closing)
        core_waiters_wake(&((struct core_context *)self)->async.waiters);
}

static void context_release(struct core_object *op, void *handle)
{
    struct core_context *self = (struct core_context *)op;

    (void)handle;
    core_events_free(&self->async);
    table_free(&self->objects);
}

static const struct core_kind context_kind = {
    CORE_KIND_CONTEXT, "ibv_close_device", context_destroy, context_wake, context_release,
};

PyObject *core_context_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "Device.open()");
}

PyObject *core_context_new(struct core_state *state, PyObject *module)
{
    return (PyObject *)core_object_new(state, module, CORE_TYPE_CONTEXT, &context_kind);
}

int core_context_attach(PyObject *op, struct ibv_context *context)
{
    struct core_context *self = (struct core_context *)op;
    int err = core_events_init(&self->async, context->async_fd);

    if (err) {
        verbs.close_device(context);
        core_raise(self->base.state, err, "Device.open", "the descriptor of asynchronous events could not be set up");
        return -1;
    }
    snprintf(self->name, sizeof self->name, "%s", verbs.get_device_name(context->device));
    core_object_attach(&self->base, context);
    return 0;
}

/* ---- the map --------------------------------------------------------------------------------------------------- */

struct core_context *core_context_of(struct core_object *object)
{
    while (object->parents[0]) /* the first parent is the one that owns the handle */
        object = object->parents[0];
    return (struct core_context *)object;
}

int core_context_reserve(struct core_context *self, int keys)
{
    if (table_reserve(&self->objects, (size_t)keys) == 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}

void core_context_unreserve(struct core_context *self, int keys)
{
    table_unreserve(&self->objects, (size_t)keys);
}

void core_context_put(struct core_context *self, uint64_t key, struct core_object *object)
{
    table_put(&self->objects, key, object);
}

void core_context_remove(struct core_context *self, uint64_t key, struct core_object *object)
{
    table_remove(&self->objects, key, object);
}

struct core_object *core_context_find(const struct core_context *self, uint64_t key)
{
    struct core_object *object = table_get(&self->objects, key);

    return object && object->open_in == core_generation ? object : NULL;
}

bool core_context_limits(struct core_context *self, struct ibv_device_attr *ret_attr)
{
    int err;

    if (!core_try_enter(&self->base))
        return false;
    Py_BEGIN_ALLOW_THREADS
    err = verbs.query_device(self->base.handle, ret_attr);
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    return err == 0;
}

/* ---- queries --------------------------------------------------------------------------------------------------- */

PyObject *core_context_method_query_device(PyObject *op, PyObject *ignored)
{
    struct core_context *self = (struct core_context *)op;
    struct ibv_device_attr attr = {0};
    int err;

    (void)ignored;
    if (core_enter(&self->base, "query_device") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = verbs_errno(verbs.query_device(self->base.handle, &attr));
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    if (err)
        return core_raise(self->base.state, err, "ibv_query_device", NULL);
    return core_device_attr_new(self->base.state, &attr);
}

PyObject *core_context_query_port(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                                  const struct core_params *params)
{
    struct core_context *self = (struct core_context *)op;
    struct ibv_port_attr attr = {0};
    struct cause cause = {0};
    uint8_t port_num = 1;
    PyObject *value;
    int err;

    if (core_parse(self->base.state, params, args, nargs, kwnames, &value) < 0 ||
        (value && core_u8(self->base.state, value, "port_num", &port_num) < 0) ||
        core_enter(&self->base, "query_port") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = verbs_query_port(self->base.handle, port_num, &attr);
    if (err)
        cause_of_port(&cause, self->base.handle, port_num, -1);
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    if (err)
        return core_raise_format(self->base.state, err, "ibv_query_port", "port_num %d of %s%s%s", port_num, self->name,
                                 cause.used ? ": " : "", cause.text);
    return core_port_attr_new(self->base.state, &attr);
}

PyObject *core_context_query_gid(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                                 const struct core_params *params)
{
    struct core_context *self = (struct core_context *)op;
    struct core_state *state = self->base.state;
    union ibv_gid gid = {{0}};
    struct cause cause = {0};
    PyObject *values[2];
    uint8_t port_num = 1;
    uint32_t index = 0;
    int err;

    if (core_parse(state, params, args, nargs, kwnames, values) < 0 ||
        (values[0] && core_u8(state, values[0], "port_num", &port_num) < 0) ||
        (values[1] && core_count(state, values[1], "index", 0, &index) < 0) ||
        core_enter(&self->base, "query_gid") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    err = verbs_errno(verbs.query_gid(self->base.handle, port_num, (int)index, &gid));
    if (err)
        cause_of_port(&cause, self->base.handle, port_num, index);
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    if (err)
        return core_raise_format(state, err, "ibv_query_gid", "port_num %d, index %u of %s%s%s", port_num, index,
                                 self->name, cause.used ? ": " : "", cause.text);
    return core_gid_new(state, gid.raw);
}

static PyObject *list_gids(struct core_state *state, const struct gid_row *rows, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);

    for (size_t i = 0; list && i < count; i++) {
        PyObject *entry = core_gid_entry_new(state, &rows[i]);
        if (!entry || PyList_SetItem(list, (Py_ssize_t)i, entry) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *core_context_query_gid_table(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                                       const struct core_params *params)
{
    struct core_context *self = (struct core_context *)op;
    struct gid_row *rows;
    struct cause cause = {0};
    PyObject *value, *list;
    uint8_t port_num = 1;
    size_t count;
    int err;

    if (core_parse(self->base.state, params, args, nargs, kwnames, &value) < 0 ||
        (value && core_u8(self->base.state, value, "port", &port_num) < 0) ||
        core_enter(&self->base, "query_gid_table") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = gid_table_read(self->base.handle, port_num, &rows, &count);
    if (err)
        cause_of_port(&cause, self->base.handle, port_num, -1);
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    if (err)
        return core_raise_format(self->base.state, err, "ibv_query_gid_table", "port %d of %s%s%s", port_num, self->name,
                                 cause.used ? ": " : "", cause.text);
    list = list_gids(self->base.state, rows, count);
    free(rows);
    return list;
}

/* ---- asynchronous events ---------------------------------------------------------------------------------------- */

static PyObject *take_async_event(struct core_object *op, int *ret_err)
{
    struct core_context *self = (struct core_context *)op;
    struct ibv_async_event event;
    PyObject *object;

    *ret_err = core_events_try(&self->async);
    if (*ret_err)
        return NULL;
    object = core_async_event_new(op->state); /* before the event is read, which could not be given back */
    if (object) {
        errno = 0;
        if (verbs.get_async_event(op->handle, &event)) {
            *ret_err = verbs_last_errno();
            Py_CLEAR(object);
        } else {
            /* Acknowledged as it is read: a program that drops an event never blocks a destroy. */
            verbs.ack_async_event(&event);
            core_async_event_fill(object, self, &event);
        }
    }
    core_events_release(&self->async);
    return object;
}

static const struct core_params get_async_event_params = {"Context.get_async_event", 1, 0, {CORE_NAME_timeout}};

PyObject *core_context_method_get_async_event(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_context *self = (struct core_context *)op;
    int64_t timeout_ns;
    PyObject *value;

    if (core_parse(self->base.state, &get_async_event_params, args, nargs, kwnames, &value) < 0 ||
        core_timeout(value, "timeout", &timeout_ns) < 0)
        return NULL;
    return core_events_wait(&self->base, &self->async, timeout_ns, take_async_event, "get_async_event",
                            "ibv_get_async_event");
}

static const struct core_params ack_async_event_params = {"Context.ack_async_event", 1, 1, {CORE_NAME_ev}};

PyObject *core_context_method_ack_async_event(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_context *self = (struct core_context *)op;
    PyObject *value;

    if (core_parse(self->base.state, &ack_async_event_params, args, nargs, kwnames, &value) < 0)
        return NULL;
    if (!core_is(self->base.state, value, CORE_TYPE_ASYNC_EVENT))
        return core_raise_type("ev", "an AsyncEvent", value);
    if (core_check_open(&self->base, "ack_async_event") < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

PyObject *core_context_get_name(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyUnicode_FromString(((struct core_context *)self)->name);
}

PyObject *core_context_get_async_fd(PyObject *op, void *ignored)
{
    struct core_context *self = (struct core_context *)op;

    (void)ignored;
    return core_check_open(&self->base, "async_fd") < 0 ? NULL : PyLong_FromLong(self->async.fd);
}

PyObject *core_context_get_num_comp_vectors(PyObject *op, void *ignored)
{
    struct core_context *self = (struct core_context *)op;

    (void)ignored;
    if (core_check_open(&self->base, "num_comp_vectors") < 0)
        return NULL;
    return PyLong_FromLong(core_context_handle(self)->num_comp_vectors);
}

PyObject *core_context_repr(PyObject *op)
{
    struct core_context *self = (struct core_context *)op;

    return PyUnicode_FromFormat("<Context of %s%s>", self->name, self->base.handle ? "" : ", closed");
}
