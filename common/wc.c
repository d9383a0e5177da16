/* SPDX-License-Identifier: BSD-3-Clause */
/* What a completion can do. See wc.h. */
#include "wc.h"

#include <arpa/inet.h>
#include <string.h>

#include "args.h"
#include "verbs.h"

const struct core_field core_wc_fields[CORE_WC_FIELD_COUNT] = {
#define FIELD(name, doc) CORE_FIELD(core_wc, wc.name, #name),
    CORE_WC_FIELDS(FIELD)
#undef FIELD
};

/* ---- making --------------------------------------------------------------------------------------------------------- */

PyObject **core_wc_first_error(PyObject *op)
{
    if (((struct core_wc *)op)->wc.status == IBV_WC_SUCCESS)
        return NULL;
    return (PyObject **)((char *)op + core_wc_size);
}

/* An all-zero one with room for a first error. */
static PyObject *alloc_with_room(PyTypeObject *type)
{
    size_t size = core_wc_size + sizeof(PyObject *);
    PyObject *self = PyObject_Malloc(size);

    if (!self)
        return PyErr_NoMemory();
    memset(self, 0, size);
    return PyObject_Init(self, type);
}

static void fill(struct core_wc *self, const struct ibv_wc *wc)
{
    self->wc = *wc;
    if (wc->wc_flags & IBV_WC_WITH_IMM)
        self->wc.imm_data = ntohl(wc->imm_data);
}

PyObject *core_wc_new(struct core_state *state, const struct ibv_wc *wc)
{
    struct core_wc *self = PyObject_New(struct core_wc, state->types[CORE_TYPE_WC]); /* all of it is written below */

    if (self)
        fill(self, wc);
    return (PyObject *)self;
}

PyObject *core_wc_new_failed(struct core_state *state, const struct ibv_wc *wc)
{
    PyObject *self = alloc_with_room(state->types[CORE_TYPE_WC]);

    if (self)
        fill((struct core_wc *)self, wc);
    return self;
}

static __attribute__((noinline)) void drop_first_error(PyObject *self)
{
    Py_XDECREF(*core_wc_first_error(self));
}

void core_wc_dealloc(PyObject *self)
{
    if (((struct core_wc *)self)->wc.status != IBV_WC_SUCCESS)
        drop_first_error(self);
    core_value_dealloc(self);
}

/* Takes `first_error` out of the arguments: it may be given by name, or behind the fields. -1 with an exception. */
static int split_arguments(PyObject **args, PyObject **kwargs, int fields, PyObject **ret_first_error)
{
    Py_ssize_t nargs = PyTuple_Size(*args);
    PyObject *name = *kwargs ? PyUnicode_FromString("first_error") : NULL;
    PyObject *named = name ? PyDict_GetItemWithError(*kwargs, name) : NULL;

    Py_XDECREF(name);
    if (*kwargs && !named && PyErr_Occurred())
        return -1;
    *ret_first_error = named ? named : Py_None;
    if (nargs == fields + 1) {
        if (named) {
            PyErr_SetString(PyExc_TypeError, "first_error was given twice");
            return -1;
        }
        *ret_first_error = PyTuple_GetItem(*args, fields);
    }
    Py_INCREF(*ret_first_error);

    *args = PyTuple_GetSlice(*args, 0, nargs == fields + 1 ? fields : nargs);
    *kwargs = *kwargs ? PyDict_Copy(*kwargs) : PyDict_New();
    if (*args && *kwargs && (!named || PyDict_DelItemString(*kwargs, "first_error") == 0))
        return 0;
    Py_CLEAR(*args);
    Py_CLEAR(*kwargs);
    Py_CLEAR(*ret_first_error);
    return -1;
}

static int store_first_error(PyObject *self, PyObject *value)
{
    PyObject **slot = core_wc_first_error(self), **deeper;

    if (value == Py_None)
        return 0;
    if (Py_TYPE(value) != Py_TYPE(self)) {
        core_raise_type("first_error", "a WC or None", value);
        return -1;
    }
    deeper = core_wc_first_error(value);
    if (!slot || !deeper || *deeper) {
        PyErr_SetString(PyExc_ValueError, "first_error is for a completion that failed, and must be one itself, without "
                                          "a first_error of its own");
        return -1;
    }
    Py_INCREF(value);
    *slot = value;
    return 0;
}

PyObject *core_wc_construct(PyTypeObject *type, PyObject *args, PyObject *kwargs, const struct core_record *record)
{
    struct core_state *state = core_state_of(type);
    PyObject *first_error, *self;

    if (!state || split_arguments(&args, &kwargs, record->count, &first_error) < 0)
        return NULL;
    self = alloc_with_room(type);
    if (self && (core_record_fill(state, self, args, kwargs, record) < 0 || store_first_error(self, first_error) < 0))
        Py_CLEAR(self);
    Py_DECREF(args);
    Py_DECREF(kwargs);
    Py_DECREF(first_error);
    return self;
}

/* The first error, borrowed, or NULL. */
static PyObject *first_error_of(PyObject *self)
{
    PyObject **slot = core_wc_first_error(self);

    return slot ? *slot : NULL;
}

PyObject *core_wc_repr(PyObject *self, const struct core_record *record)
{
    PyObject *first_error = first_error_of(self);
    PyObject *fields = core_record_repr(self, record), *open, *text;

    if (!fields || !first_error)
        return fields;
    open = PyUnicode_Substring(fields, 0, PyUnicode_GetLength(fields) - 1); /* without its bracket */
    text = open ? PyUnicode_FromFormat("%U, first_error=%R)", open, first_error) : NULL;
    Py_XDECREF(open);
    Py_DECREF(fields);
    return text;
}

PyObject *core_wc_reduce(PyObject *self, const struct core_record *record)
{
    PyObject *first_error = first_error_of(self);
    PyObject *plain = core_record_reduce(self, record), *last, *values, *result;

    if (!plain || !first_error)
        return plain;
    last = PyTuple_Pack(1, first_error);
    values = last ? PySequence_Concat(PyTuple_GetItem(plain, 1), last) : NULL;
    result = values ? Py_BuildValue("(ON)", PyTuple_GetItem(plain, 0), values) : NULL;
    Py_XDECREF(last);
    Py_DECREF(plain);
    return result;
}

/* ---- what it says --------------------------------------------------------------------------------------------------- */

static const char *status_text(const struct ibv_wc *wc)
{
    const char *text = verbs.wc_status_str(wc->status);

    return text ? text : "unknown status";
}

static PyObject *describe_one(const struct ibv_wc *wc)
{
    const char *vendor = core_wc_vendor_text(wc), *hint = core_wc_vendor_hint(wc);

    return PyUnicode_FromFormat("%s (status %d), wr_id=%llu, qp_num=0x%x, vendor_err=0x%x%s%s%s%s", status_text(wc),
                                (int)wc->status, (unsigned long long)wc->wr_id, wc->qp_num, wc->vendor_err,
                                vendor ? ", " : "", vendor ? vendor : "", hint ? "; " : "", hint ? hint : "");
}

PyObject *core_wc_describe(PyObject *op)
{
    PyObject *text = describe_one(&((struct core_wc *)op)->wc), *first_error = first_error_of(op), *cause, *both;

    if (!text || !first_error)
        return text;
    cause = describe_one(&((struct core_wc *)first_error)->wc);
    both = cause ? PyUnicode_FromFormat("%U; the first error of this queue pair was: %U", text, cause) : NULL;
    Py_XDECREF(cause);
    Py_DECREF(text);
    return both;
}

PyObject *core_wc_get_first_error(PyObject *op, void *ignored)
{
    PyObject *first_error = first_error_of(op);

    (void)ignored;
    if (!first_error)
        Py_RETURN_NONE;
    Py_INCREF(first_error);
    return first_error;
}

PyObject *core_wc_get_is_success(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((struct core_wc *)self)->wc.status == IBV_WC_SUCCESS);
}

PyObject *core_wc_get_status_str(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyUnicode_FromString(status_text(&((struct core_wc *)self)->wc));
}

PyObject *core_wc_method_raise_for_status(PyObject *self, PyObject *ignored)
{
    struct core_state *state;
    PyObject *error, *class;

    (void)ignored;
    if (((struct core_wc *)self)->wc.status == IBV_WC_SUCCESS)
        Py_RETURN_NONE;
    state = core_state_of(Py_TYPE(self));
    if (!state)
        return NULL;
    class = (PyObject *)state->types[CORE_TYPE_COMPLETION_ERROR];
    error = PyObject_CallFunctionObjArgs(class, self, NULL);
    if (error)
        PyErr_SetObject(class, error);
    Py_XDECREF(error);
    return NULL;
}
