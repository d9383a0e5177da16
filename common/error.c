/* SPDX-License-Identifier: BSD-3-Clause */
/* Exceptions: their classes, and the functions that raise them. See error.h. */
#include "error.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "verbs.h"
#include "wc.h"

/* ---- VerbsError ---------------------------------------------------------------------------------------------- */

/* Sets up an OSError with errno and text, and keeps what it was made from. */
static int verbs_error_fill(struct core_state *state, PyObject *self, PyObject *operation, PyObject *err,
                            PyObject *detail)
{
    PyObject *text = NULL, *none = NULL;
    uint64_t code;
    int failed = -1;

    if (core_integer(state, err, "err", 0, INT_MAX, &code) < 0)
        return -1;

    if (detail != Py_None)
        text = PyUnicode_FromFormat("%U: %s: %S", operation, strerror((int)code), detail);
    else
        text = PyUnicode_FromFormat("%U: %s", operation, strerror((int)code));
    if (!text)
        goto done;

    /* By name: CPython 3.9 does not give out the slots of its own types. */
    none = PyObject_CallMethod(PyExc_OSError, "__init__", "OOO", self, err, text);
    if (!none)
        goto done;
    if (PyObject_SetAttrString(self, "_operation", operation) < 0 ||
        PyObject_SetAttrString(self, "_detail", detail) < 0)
        goto done;
    failed = 0;
done:
    Py_XDECREF(text);
    Py_XDECREF(none);
    return failed;
}

static const struct core_params verbs_error_params = {
    "the error", 3, 2, {CORE_NAME_operation, CORE_NAME_err, CORE_NAME_detail}};

int core_verbs_error_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct core_state *state = core_state_of(Py_TYPE(self));
    PyObject *values[3] = {NULL};
    int failed = -1;

    if (!state || core_parse_tuple(state, &verbs_error_params, args, kwargs, values) < 0)
        return -1;
    if (PyUnicode_Check(values[0]))
        failed = verbs_error_fill(state, self, values[0], values[1], values[2] ? values[2] : Py_None);
    else
        core_raise_type("operation", "a string", values[0]);
    core_drop_values(&verbs_error_params, args, kwargs, values);
    return failed;
}

static PyObject *verbs_error_operation(PyObject *self, void *closure)
{
    return PyObject_GetAttrString(self, closure);
}

static PyObject *verbs_error_reduce(PyObject *self, PyObject *ignored)
{
    PyObject *operation = PyObject_GetAttrString(self, "_operation");
    PyObject *detail = PyObject_GetAttrString(self, "_detail");
    PyObject *err = PyObject_GetAttrString(self, "errno");
    PyObject *dict = PyObject_GetAttrString(self, "__dict__");
    PyObject *result = NULL;

    (void)ignored;
    if (operation && detail && err && dict)
        result = Py_BuildValue("O(OOO)O", (PyObject *)Py_TYPE(self), operation, err, detail, dict);
    Py_XDECREF(operation);
    Py_XDECREF(detail);
    Py_XDECREF(err);
    Py_XDECREF(dict);
    return result;
}

PyGetSetDef core_verbs_error_getset[] = {
    {"operation", verbs_error_operation, NULL, "The C function that failed, or the method where none was called.",
     "_operation"},
    {"detail", verbs_error_operation, NULL, "The cause, where more is known than errno says; else None.", "_detail"},
    {NULL, NULL, NULL, NULL, NULL},
};

PyMethodDef core_verbs_error_methods[] = {
    {"__reduce__", verbs_error_reduce, METH_NOARGS, "How the error is pickled and copied."},
    {NULL, NULL, 0, NULL},
};

/* ---- UnsupportedError, RangeError ---------------------------------------------------------------------------- */

static PyType_Slot unsupported_error_slots[] = {
    {Py_tp_doc, "UnsupportedError(operation, err, detail=None)\n--\n\n"
                "The installed library or its provider lacks a function; `errno` is EOPNOTSUPP."},
    {Py_tp_init, core_verbs_error_init},
    {0, NULL},
};

const PyType_Spec core_unsupported_error_spec = {
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = unsupported_error_slots,
};

static PyType_Slot range_error_slots[] = {
    {Py_tp_doc, "RangeError(*args)\n--\n\n"
                "A value does not fit its field, or is above a limit; the message names field, value and limit."},
    {0, NULL},
};

const PyType_Spec core_range_error_spec = {
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = range_error_slots,
};

/* ---- CompletionError ----------------------------------------------------------------------------------------- */

static const struct core_params completion_error_params = {"CompletionError", 1, 1, {CORE_NAME_wc}};

static int completion_error_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct core_state *state = core_state_of(Py_TYPE(self));
    PyObject *wc = NULL, *operation = NULL, *err = NULL, *detail = NULL;
    int failed = -1;

    if (!state || core_parse_tuple(state, &completion_error_params, args, kwargs, &wc) < 0)
        return -1;
    if (!core_is(state, wc, CORE_TYPE_WC)) {
        core_raise_type("wc", "a WC", wc);
        goto done;
    }

    operation = PyUnicode_FromString("ibv_poll_cq");
    err = PyLong_FromLong(EIO);
    detail = core_wc_describe(wc);
    if (operation && err && detail && verbs_error_fill(state, self, operation, err, detail) == 0 &&
        PyObject_SetAttrString(self, "_wc", wc) == 0)
        failed = 0;
done:
    Py_XDECREF(operation);
    Py_XDECREF(err);
    Py_XDECREF(detail);
    core_drop_values(&completion_error_params, args, kwargs, &wc);
    return failed;
}

/* The completion that it tells of. A program can reach where it is kept: put there, the error would ask itself. */
static PyObject *completion_of(PyObject *self)
{
    struct core_state *state = core_state_of(Py_TYPE(self));
    PyObject *wc = state ? PyObject_GetAttrString(self, "_wc") : NULL;

    if (wc && !core_is(state, wc, CORE_TYPE_WC)) {
        core_raise_type("_wc", "a WC", wc);
        Py_CLEAR(wc);
    }
    return wc;
}

static PyObject *completion_error_field(PyObject *self, void *closure)
{
    PyObject *wc = completion_of(self), *value;

    if (!wc || !closure)
        return wc;
    value = PyObject_GetAttrString(wc, closure);
    Py_DECREF(wc);
    return value;
}

static PyObject *completion_error_reduce(PyObject *self, PyObject *ignored)
{
    PyObject *wc = completion_of(self);
    PyObject *dict = wc ? PyObject_GetAttrString(self, "__dict__") : NULL;
    PyObject *result = dict ? Py_BuildValue("O(O)O", (PyObject *)Py_TYPE(self), wc, dict) : NULL;

    (void)ignored;
    Py_XDECREF(wc);
    Py_XDECREF(dict);
    return result;
}

static PyGetSetDef completion_error_getset[] = {
    {"wc", completion_error_field, NULL, "The completion.", NULL},
    {"status", completion_error_field, NULL, "Its status, a WCStatus value.", "status"},
    {"first_error", completion_error_field, NULL, "Of a flushed request: what broke its queue pair, or None.",
     "first_error"},
    {"vendor_err", completion_error_field, NULL, "The device's own number for the failure.", "vendor_err"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef completion_error_methods[] = {
    {"__reduce__", completion_error_reduce, METH_NOARGS, "How the error is pickled and copied."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot completion_error_slots[] = {
    {Py_tp_doc, "CompletionError(wc)\n--\n\n"
                "A request completed with a status other than success; `wc` is its completion, `errno` is EIO."},
    {Py_tp_init, completion_error_init},
    {Py_tp_getset, completion_error_getset},
    {Py_tp_methods, completion_error_methods},
    {0, NULL},
};

const PyType_Spec core_completion_error_spec = {
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = completion_error_slots,
};

/* ---- raising ------------------------------------------------------------------------------------------------- */

static PyObject *raise_class(PyTypeObject *class, int err, const char *operation, PyObject *detail)
{
    PyObject *error = PyObject_CallFunction((PyObject *)class, "siO", operation, err, detail);

    if (error)
        PyErr_SetObject((PyObject *)class, error);
    Py_XDECREF(error);
    return NULL;
}

PyObject *core_raise(struct core_state *state, int err, const char *operation, const char *detail)
{
    return detail ? core_raise_format(state, err, operation, "%s", detail)
                  : raise_class(state->types[CORE_TYPE_VERBS_ERROR], err, operation, Py_None);
}

PyObject *core_raise_format_v(struct core_state *state, int err, const char *operation, const char *format,
                              va_list values)
{
    PyObject *detail = PyUnicode_FromFormatV(format, values);

    if (detail)
        raise_class(state->types[CORE_TYPE_VERBS_ERROR], err, operation, detail);
    Py_XDECREF(detail);
    return NULL;
}

PyObject *core_raise_format(struct core_state *state, int err, const char *operation, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    core_raise_format_v(state, err, operation, format, values);
    va_end(values);
    return NULL;
}

PyObject *core_raise_unsupported(struct core_state *state, const struct loader_library *library, const char *function)
{
    char name[32];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(library->soname, "."), library->soname);
    return core_raise_unsupported_format(state, function,
                                         "the installed %s has no such function; rdma-core %s brings it", name,
                                         loader_since(library, function));
}

PyObject *core_raise_unsupported_format(struct core_state *state, const char *operation, const char *format, ...)
{
    PyObject *detail;
    va_list values;

    va_start(values, format);
    detail = PyUnicode_FromFormatV(format, values);
    va_end(values);
    if (!detail)
        return NULL;
    raise_class(state->types[CORE_TYPE_UNSUPPORTED_ERROR], EOPNOTSUPP, operation, detail);
    Py_DECREF(detail);
    return NULL;
}

PyObject *core_raise_range(struct core_state *state, const char *field, PyObject *value, int64_t least, uint64_t most)
{
    PyObject *text = PyObject_Str(value);

    if (!text) { /* thousands of digits, which newer interpreters refuse to write out */
        PyErr_Clear();
        text = PyUnicode_FromString("a number too long to print");
    }
    if (text)
        PyErr_Format((PyObject *)state->types[CORE_TYPE_RANGE_ERROR], "%s must be between %lld and %llu, got %U", field,
                     (long long)least, (unsigned long long)most, text);
    Py_XDECREF(text);
    return NULL;
}

PyObject *core_raise_range_format(struct core_state *state, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    PyErr_FormatV((PyObject *)state->types[CORE_TYPE_RANGE_ERROR], format, values);
    va_end(values);
    return NULL;
}

static void set_number(PyObject *error, PyObject *name, Py_ssize_t number)
{
    PyObject *value;

    if (number < 0) {
        Py_INCREF(Py_None);
        value = Py_None;
    } else {
        value = PyLong_FromSsize_t(number);
    }
    if (!value || PyObject_SetAttr(error, name, value) < 0)
        PyErr_Clear(); /* the error itself matters more than where it happened */
    Py_XDECREF(value);
}

void core_error_set_index(struct core_state *state, Py_ssize_t index, Py_ssize_t posted)
{
    PyObject *type, *error, *traceback;

    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    set_number(error, state->names[CORE_NAME_index], index);
    set_number(error, state->names[CORE_NAME_posted], posted);
    PyErr_Restore(type, error, traceback);
}

void core_unraisable(const char *operation, int err, const char *what)
{
    PyObject *object = PyUnicode_FromFormat("%s that was collected", what);
    PyObject *error = PyObject_CallFunction(PyExc_OSError, "iN", err,
                                            PyUnicode_FromFormat("%s: %s", operation, strerror(err)));

    /* The module may be gone by now: OSError is what is left to say it with. */
    if (error)
        PyErr_SetObject(PyExc_OSError, error);
    Py_XDECREF(error);
    PyErr_WriteUnraisable(object);
    Py_XDECREF(object);
}
