/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening, using and closing of handles. See object.h. */
#include "object.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "args.h"
#include "error.h"

/* What each kind of handle is called, in the order in which a refusal of close() lists children. */
static const char *const kind_names[CORE_KIND_COUNT] = {
    [CORE_KIND_CONTEXT] = "Context",
    [CORE_KIND_PD] = "PD",
    [CORE_KIND_MR] = "MR",
    [CORE_KIND_CQ] = "CQ",
    [CORE_KIND_CHANNEL] = "CompChannel",
    [CORE_KIND_QP] = "QP",
    [CORE_KIND_SRQ] = "SRQ",
    [CORE_KIND_AH] = "AH",
    [CORE_KIND_COMP_CNTR] = "CompCntr",
    [CORE_KIND_CM_ID] = "CMID",
};

static const char *name_of(const struct core_object *self)
{
    return kind_names[self->kind->id];
}

/* ---- forks ----------------------------------------------------------------------------------------------------- */

uint32_t core_generation = 1;

static void count_fork(void)
{
    core_generation++;
}

int core_watch_forks(void)
{
    static bool watching;
    int err = watching ? 0 : pthread_atfork(NULL, NULL, count_fork);

    if (!err)
        watching = true;
    return err;
}

static bool from_before_fork(const struct core_object *self)
{
    return self->made_in && self->made_in != core_generation;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

PyObject *core_raise_method(struct core_object *self, int err, const char *method, const char *format, ...)
{
    char operation[64];
    va_list values;

    snprintf(operation, sizeof operation, "%s.%s", name_of(self), method);
    va_start(values, format);
    core_raise_format_v(self->state, err, operation, format, values);
    va_end(values);
    return NULL;
}

static const char *why_unusable(const struct core_object *self)
{
    if (from_before_fork(self))
        return "was made before a fork, in another process";
    return self->handle ? "is being closed" : "is closed";
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

struct core_object *core_object_new(struct core_state *state, PyObject *module, int type,
                                    const struct core_kind *kind)
{
    struct core_object *self = (struct core_object *)PyType_GenericAlloc(state->types[type], 0);

    if (!self)
        return NULL;
    Py_INCREF(module);
    self->module = module;
    self->state = state;
    self->kind = kind;
    return self;
}

void core_object_add_parent(struct core_object *self, struct core_object *parent)
{
    for (int i = 0; i < CORE_MAX_PARENTS; i++) {
        if (self->parents[i] == parent)
            return;
        if (!self->parents[i]) {
            Py_INCREF(parent);
            self->parents[i] = parent;
            return;
        }
    }
    Py_FatalError("a handle with more parents than there is room for");
}

static void count_in_parents(struct core_object *self, int by)
{
    for (int i = 0; i < CORE_MAX_PARENTS && self->parents[i]; i++)
        self->parents[i]->children[self->kind->id] += (uint32_t)by;
}

void core_object_attach(struct core_object *self, void *handle)
{
    self->handle = handle;
    self->made_in = core_generation;
    self->open_in = core_generation;
    count_in_parents(self, 1);
}

static void exit_parents(struct core_object *self, int count)
{
    for (int i = 0; i < count; i++)
        core_exit(self->parents[i]);
}

int core_object_begin(struct core_object *self, const char *method)
{
    for (int i = 0; i < CORE_MAX_PARENTS && self->parents[i]; i++) {
        struct core_object *parent = self->parents[i];

        if (parent->open_in != core_generation) {
            exit_parents(self, i); /* before raising, which may run the collector, and that may close those */
            core_raise_method(self->parents[0], EBADF, method, "%R %s", (PyObject *)parent, why_unusable(parent));
            Py_DECREF(self);
            return -1;
        }
        parent->in_use++;
    }
    return 0;
}

PyObject *core_object_finish(struct core_object *self, void *handle)
{
    int parents = 0;

    if (handle)
        core_object_attach(self, handle);
    while (parents < CORE_MAX_PARENTS && self->parents[parents])
        parents++;
    exit_parents(self, parents);
    if (handle)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* ---- using ------------------------------------------------------------------------------------------------------- */

int core_raise_closed(struct core_object *self, const char *method)
{
    core_raise_method(self, EBADF, method, "%R %s", (PyObject *)self, why_unusable(self));
    return -1;
}

bool core_try_enter(struct core_object *self)
{
    if (self->open_in != core_generation)
        return false;
    self->in_use++;
    return true;
}

int core_enter(struct core_object *self, const char *method)
{
    return core_try_enter(self) ? 0 : core_raise_closed(self, method);
}

void core_exit(struct core_object *self)
{
    self->in_use--;
}

int core_check_argument(struct core_object *self, PyObject *value, enum core_type type, const char *name,
                        const char *what, const char *method)
{
    struct core_object *object = (struct core_object *)value;

    if (!core_is(self->state, value, type)) {
        core_raise_type(name, what, value);
        return -1;
    }
    if (object->open_in == core_generation)
        return 0;
    core_raise_method(self, EBADF, method, "%s: %R %s", name, value, why_unusable(object));
    return -1;
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

static int raise_busy(struct core_object *self)
{
    char children[160] = "";
    size_t used = 0;
    bool any = false;

    for (int i = 0; i < CORE_KIND_COUNT; i++) {
        if (!self->children[i])
            continue;
        used += (size_t)snprintf(children + used, sizeof children - used, "%s%u %s", any ? ", " : "",
                                 self->children[i], kind_names[i]);
        any = true;
    }
    if (!any)
        return 0;
    core_raise_method(self, EBUSY, "close", "still open on it: %s", children);
    return -1;
}

/* Waits, without the GIL, until no other thread is inside of a call. Signals are handled as they come. */
static int wait_until_unused(struct core_object *self)
{
    struct timespec pause = {0, 20000};

    while (self->in_use) {
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
        if (pause.tv_nsec < 1000000)
            pause.tv_nsec *= 2;
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
    return 0;
}

static void reopen(struct core_object *self)
{
    self->open_in = self->made_in;
    if (self->kind->wake)
        self->kind->wake(self, false);
}

/* The handle is gone, or was never this process's to release. */
static void detach(struct core_object *self)
{
    void *handle = self->handle;

    self->handle = NULL;
    count_in_parents(self, -1);
    if (self->kind->release)
        self->kind->release(self, handle);
}

int core_close(struct core_object *self)
{
    int err;

    if (!self->handle)
        return 0;
    if (from_before_fork(self)) {
        self->open_in = 0;
        detach(self);
        return 0;
    }
    if (!self->open_in) { /* being closed: over when that is over, unless a signal handler asks in the midst of it */
        if (self->closer == PyThread_get_thread_ident())
            return 0;
        while (self->handle && !self->open_in) {
            Py_BEGIN_ALLOW_THREADS
            nanosleep(&(struct timespec){0, 50000}, NULL);
            Py_END_ALLOW_THREADS
            if (PyErr_CheckSignals() < 0)
                return -1;
        }
        return self->handle ? core_close(self) : 0;
    }
    if (raise_busy(self) < 0)
        return -1;

    self->open_in = 0;
    self->closer = PyThread_get_thread_ident();
    if (self->kind->wake)
        self->kind->wake(self, true);
    if (wait_until_unused(self) < 0 || raise_busy(self) < 0) { /* a call that was under way may have made a child */
        reopen(self);
        return -1;
    }

    Py_BEGIN_ALLOW_THREADS
    err = self->kind->destroy(self);
    Py_END_ALLOW_THREADS
    if (err) {
        reopen(self);
        core_raise(self->state, err, self->kind->destroy_op, NULL);
        return -1;
    }
    detach(self);
    return 0;
}

void core_object_finalize(struct core_object *self)
{
    PyObject *type, *value, *traceback;
    int err;

    if (!self->handle)
        return;
    if (from_before_fork(self)) {
        detach(self);
        return;
    }

    PyErr_Fetch(&type, &value, &traceback);
    self->open_in = 0;
    self->closer = PyThread_get_thread_ident();
    Py_BEGIN_ALLOW_THREADS
    err = self->kind->destroy(self);
    Py_END_ALLOW_THREADS
    if (err) {
        self->left_behind = true;
        core_unraisable(self->kind->destroy_op, err, name_of(self));
    }
    detach(self);
    PyErr_Restore(type, value, traceback);
}

/* ---- rows and slots ------------------------------------------------------------------------------------------------ */

PyObject *core_object_method_close(PyObject *op, PyObject *ignored)
{
    struct core_object *self = (struct core_object *)op;

    (void)ignored;
    if (self->shared)
        return core_raise_method(self, EBUSY, "close", "%R is shared, and closed when the last of its users goes", op);
    if (core_close(self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *core_object_method_enter(PyObject *op, PyObject *ignored)
{
    (void)ignored;
    if (core_check_open((struct core_object *)op, "__enter__") < 0)
        return NULL;
    Py_INCREF(op);
    return op;
}

PyObject *core_object_method_exit(PyObject *op, PyObject *args)
{
    (void)args;
    return core_object_method_close(op, NULL);
}

PyObject *core_object_get_closed(PyObject *op, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(!((struct core_object *)op)->handle);
}

PyObject *core_object_get_ptr(PyObject *op, void *ignored)
{
    struct core_object *self = (struct core_object *)op;

    (void)ignored;
    return core_check_open(self, "ptr") < 0 ? NULL : PyLong_FromVoidPtr(self->handle);
}

PyObject *core_object_get_as_parameter(PyObject *op, void *ignored)
{
    struct core_object *self = (struct core_object *)op;
    PyObject *ctypes, *pointer;

    (void)ignored;
    /* Not a plain int, which ctypes would pass as a C int. The import may run other threads: it comes first. */
    ctypes = PyImport_ImportModule("ctypes");
    if (!ctypes)
        return NULL;
    pointer = core_check_open(self, "_as_parameter_") < 0
                  ? NULL
                  : PyObject_CallMethod(ctypes, "c_void_p", "N", PyLong_FromVoidPtr(self->handle));
    Py_DECREF(ctypes);
    return pointer;
}

PyObject *core_object_get_parent(PyObject *op, void *ignored)
{
    PyObject *parent = (PyObject *)((struct core_object *)op)->parents[0];

    (void)ignored;
    Py_INCREF(parent);
    return parent;
}

int core_object_traverse(PyObject *op, visitproc visit, void *arg)
{
    struct core_object *self = (struct core_object *)op;

    for (int i = 0; i < CORE_MAX_PARENTS; i++)
        Py_VISIT(self->parents[i]);
    Py_VISIT(self->module);
    Py_VISIT(Py_TYPE(op));
    return 0;
}

void core_object_dealloc(PyObject *op)
{
    struct core_object *self = (struct core_object *)op;
    PyTypeObject *type = Py_TYPE(op);
    PyObject *module = self->module;

    /* Handle first, then what it pinned, then its parents, then the module. */
    PyObject_GC_UnTrack(op);
    self->open_in = 0; /* from here on nobody finds it in a map: callbacks of weak references run next */
    if (self->weak_references)
        PyObject_ClearWeakRefs(op);
    core_object_finalize(self);
    if (self->kind && self->kind->release)
        self->kind->release(self, NULL);
    for (int i = 0; i < CORE_MAX_PARENTS; i++)
        Py_XDECREF(self->parents[i]);

    ((freefunc)PyType_GetSlot(type, Py_tp_free))(op);
    Py_DECREF(type);
    Py_XDECREF(module);
}

PyObject *core_object_repr(PyObject *op)
{
    struct core_object *self = (struct core_object *)op;
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(op), "__name__"), *text;

    if (!name)
        return NULL;
    if (self->handle)
        text = PyUnicode_FromFormat("<%U at %p>", name, self->handle);
    else
        text = PyUnicode_FromFormat("<%U, closed>", name);
    Py_DECREF(name);
    return text;
}
