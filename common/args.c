/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading arguments and converting values. See args.h. */
#include "args.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "gid.h"

/* ---- which argument is which --------------------------------------------------------------------------------- */

/* The first parameter from `from` on whose name is this very object; params->count if there is none. */
static inline int find_same(const struct core_state *state, const struct core_params *params, PyObject *keyword, int from)
{
    while (from < params->count && state->names[params->names[from]] != keyword)
        from++;
    return from;
}

/* Which parameter a keyword names, whatever it is that stands for one; -1 with TypeError if none. */
static __attribute__((noinline)) int find_any(struct core_state *state, const struct core_params *params,
                                              PyObject *keyword)
{
    int found = find_same(state, params, keyword, 0);

    if (found < params->count)
        return found;
    for (int i = 0; i < params->count; i++) /* a keyword that came from a dictionary need not be interned */
        if (PyUnicode_Check(keyword) && PyUnicode_Compare(state->names[params->names[i]], keyword) == 0)
            return i;
    PyErr_Format(PyExc_TypeError, "%s() has no parameter %R", params->function, keyword);
    return -1;
}

/*
 * Puts a value where its keyword says. Looks from `from` on first, for most calls give them in order. Returns which
 * parameter it was, or -1 with TypeError.
 */
static inline int put_keyword(struct core_state *state, const struct core_params *params, PyObject *keyword,
                              PyObject *value, int from, PyObject **values)
{
    int i = find_same(state, params, keyword, from);

    if (i == params->count)
        i = find_any(state, params, keyword);
    if (i < 0)
        return -1;
    if (values[i]) {
        PyErr_Format(PyExc_TypeError, "%s() got %R twice", params->function, keyword);
        return -1;
    }
    values[i] = value;
    return i;
}

static int check_positional(const struct core_params *params, Py_ssize_t nargs)
{
    if (nargs <= params->count)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments, got %zd", params->function, params->count, nargs);
    return -1;
}

static int check_required(struct core_state *state, const struct core_params *params, PyObject **values)
{
    for (int i = 0; i < params->required; i++) {
        if (!values[i]) {
            PyErr_Format(PyExc_TypeError, "%s() lacks its argument %R", params->function,
                         state->names[params->names[i]]);
            return -1;
        }
    }
    return 0;
}

int core_parse_any(struct core_state *state, const struct core_params *params, PyObject *const *args, Py_ssize_t nargs,
                   PyObject *kwnames, PyObject **ret_values)
{
    Py_ssize_t keywords = kwnames ? PyTuple_Size(kwnames) : 0;
    int last = (int)nargs - 1;

    if (check_positional(params, nargs) < 0)
        return -1;
    for (int i = 0; i < params->count; i++)
        ret_values[i] = i < nargs ? args[i] : NULL;
    for (Py_ssize_t k = 0; k < keywords; k++) {
        last = put_keyword(state, params, PyTuple_GetItem(kwnames, k), args[nargs + k], last + 1, ret_values);
        if (last < 0)
            return -1;
    }
    return check_required(state, params, ret_values);
}

int core_parse_tuple(struct core_state *state, const struct core_params *params, PyObject *args, PyObject *kwargs,
                     PyObject **values)
{
    Py_ssize_t nargs = PyTuple_Size(args), keywords = kwargs ? PyDict_Size(kwargs) : 0, position = 0;
    PyObject *keyword, *value;
    int last = (int)nargs - 1;

    if (check_positional(params, nargs) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < nargs; i++)
        values[i] = PyTuple_GetItem(args, i);
    while (keywords-- && PyDict_Next(kwargs, &position, &keyword, &value)) {
        last = put_keyword(state, params, keyword, value, last + 1, values);
        if (last < 0)
            goto failed;
        Py_INCREF(value);
    }
    if (check_required(state, params, values) == 0)
        return 0;
failed:
    core_drop_values(params, args, kwargs, values);
    return -1;
}

void core_drop_values(const struct core_params *params, PyObject *args, PyObject *kwargs, PyObject **values)
{
    if (kwargs)
        for (Py_ssize_t i = PyTuple_Size(args); i < params->count; i++)
            Py_XDECREF(values[i]);
}

PyObject *core_construct(PyTypeObject *type, PyObject *args, PyObject *kwargs, const struct core_params *params,
                         core_make make)
{
    struct core_state *state = core_state_of(type);
    PyObject *values[CORE_MAX_PARAMS] = {NULL}, *self;

    if (!state || core_parse_tuple(state, params, args, kwargs, values) < 0)
        return NULL;
    self = make(state, type, values);
    core_drop_values(params, args, kwargs, values);
    return self;
}

/* ---- integers ------------------------------------------------------------------------------------------------ */

PyObject *core_raise_type(const char *name, const char *what, PyObject *value)
{
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");

    if (type)
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %U", name, what, type);
    Py_XDECREF(type);
    return NULL;
}

/* The same for what the exception that is set tells, which becomes the cause. */
static void raise_type_from(const char *name, const char *what, PyObject *value)
{
    PyObject *type, *error, *traceback, *cause;

    PyErr_Fetch(&type, &cause, &traceback);
    PyErr_NormalizeException(&type, &cause, &traceback);
    if (traceback)
        PyException_SetTraceback(cause, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);

    core_raise_type(name, what, value);
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyException_SetCause(error, cause);
    PyErr_Restore(type, error, traceback);
}

PyObject *core_get_attr(struct core_state *state, PyObject *object, enum core_name attribute, const char *name,
                        const char *what)
{
    PyObject *value = PyObject_GetAttr(object, state->names[attribute]);

    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
        raise_type_from(name, what, object);
    return value;
}

/* Reads what has __index__ as 64 bits. Sets `*fits` to false where the number is negative or longer. */
static int read_index(PyObject *value, const char *name, uint64_t *ret, bool *fits)
{
    PyObject *number = NULL;

    *fits = true;
    if (!PyLong_CheckExact(value) && !PyLong_Check(value)) {
        number = PyIndex_Check(value) ? PyNumber_Index(value) : core_raise_type(name, "an integer", value);
        if (!number)
            return -1;
        value = number;
    }

    *ret = PyLong_AsUnsignedLongLong(value);
    Py_XDECREF(number);
    if (*ret == UINT64_MAX && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        *fits = false;
    }
    return 0;
}

/* What nearly every value is: an int proper within the limits. Anything else is for integer_slowly, to take or refuse. */
static inline bool plain_integer(PyObject *value, uint64_t least, uint64_t most, uint64_t *ret)
{
    if (!PyLong_CheckExact(value))
        return false;
    *ret = PyLong_AsUnsignedLongLong(value);
    if (*ret == UINT64_MAX)
        PyErr_Clear(); /* an error, or that number */
    return *ret != UINT64_MAX && *ret >= least && *ret <= most;
}

static __attribute__((noinline)) int integer_slowly(struct core_state *state, PyObject *value, const char *name,
                                                    uint64_t least, uint64_t most, uint64_t *ret)
{
    uint64_t number;
    bool fits;

    if (read_index(value, name, &number, &fits) < 0)
        return -1;
    if (!fits || number < least || number > most) {
        core_raise_range(state, name, value, least, most);
        return -1;
    }
    *ret = number;
    return 0;
}

int core_integer(struct core_state *state, PyObject *value, const char *name, uint64_t least, uint64_t most,
                 uint64_t *ret)
{
    uint64_t number;

    if (!plain_integer(value, least, most, &number))
        return integer_slowly(state, value, name, least, most, ret);
    *ret = number;
    return 0;
}

static __attribute__((noinline)) int u32_slowly(struct core_state *state, PyObject *value, const char *name,
                                                uint64_t least, uint64_t most, uint32_t *ret)
{
    uint64_t number;

    if (integer_slowly(state, value, name, least, most, &number) < 0)
        return -1;
    *ret = (uint32_t)number;
    return 0;
}

int core_u8_most(struct core_state *state, PyObject *value, const char *name, uint8_t most, uint8_t *ret)
{
    uint64_t number;

    if (core_integer(state, value, name, 0, most, &number) < 0)
        return -1;
    *ret = (uint8_t)number;
    return 0;
}

int core_u8(struct core_state *state, PyObject *value, const char *name, uint8_t *ret)
{
    return core_u8_most(state, value, name, UINT8_MAX, ret);
}

int core_u16(struct core_state *state, PyObject *value, const char *name, uint16_t *ret)
{
    uint64_t number;

    if (core_integer(state, value, name, 0, UINT16_MAX, &number) < 0)
        return -1;
    *ret = (uint16_t)number;
    return 0;
}

int core_u32(struct core_state *state, PyObject *value, const char *name, uint32_t *ret)
{
    uint64_t number;

    if (!plain_integer(value, 0, UINT32_MAX, &number))
        return u32_slowly(state, value, name, 0, UINT32_MAX, ret);
    *ret = (uint32_t)number;
    return 0;
}

int core_u64(struct core_state *state, PyObject *value, const char *name, uint64_t *ret)
{
    return core_integer(state, value, name, 0, UINT64_MAX, ret);
}

int core_count(struct core_state *state, PyObject *value, const char *name, uint32_t least, uint32_t *ret)
{
    uint64_t number;

    if (!plain_integer(value, least, INT_MAX, &number))
        return u32_slowly(state, value, name, least, INT_MAX, ret);
    *ret = (uint32_t)number;
    return 0;
}

/* ---- everything else ----------------------------------------------------------------------------------------- */

int core_timeout(PyObject *value, const char *name, int64_t *ret_ns)
{
    double seconds;
    int overflow;

    if (!value || value == Py_None) {
        *ret_ns = -1;
        return 0;
    }
    if (PyComplex_Check(value) /* which has a __float__ before Python 3.10, for nothing but its own words */ ||
        (!PyFloat_Check(value) && !PyIndex_Check(value) && !PyObject_HasAttrString(value, "__float__"))) {
        core_raise_type(name, "a number of seconds or None", value);
        return -1;
    }
    seconds = PyFloat_AsDouble(value);
    if (seconds == -1.0 && PyErr_Occurred()) {
        if (!PyLong_Check(value) || !PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear(); /* an int beyond what a double holds, on either side */
        PyLong_AsLongAndOverflow(value, &overflow);
        seconds = overflow * (double)INFINITY;
    }
    if (!(seconds >= 0)) {
        PyErr_Format(PyExc_ValueError, "%s must be None or at least 0 seconds, got %S", name, value);
        return -1;
    }
    *ret_ns = seconds > 9e9 ? -1 : (int64_t)ceil(seconds * 1e9); /* beyond 285 years is for ever */
    return 0;
}

PyObject *core_list(PyObject *value, const char *name, const char *what)
{
    PyObject *list = PySequence_List(value), *type, *error, *traceback;
    bool iterable;

    if (list || !PyErr_ExceptionMatches(PyExc_TypeError))
        return list;
    PyErr_Fetch(&type, &error, &traceback);
    iterable = PySequence_Check(value) || PyObject_HasAttrString(value, "__iter__");
    PyErr_Restore(type, error, traceback);
    if (iterable) /* the error is its own */
        return NULL;
    PyErr_Clear();
    return core_raise_type(name, what, value);
}

int core_gid_bytes(struct core_state *state, PyObject *value, const char *name, uint8_t ret[16])
{
    PyObject *view, *bytes;
    int failed = -1;

    if (core_is(state, value, CORE_TYPE_GID)) {
        memcpy(ret, core_gid_raw(value), 16);
        return 0;
    }

    view = PyMemoryView_FromObject(value); /* refuses lists and integers, which PyBytes_FromObject would take */
    if (!view) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            core_raise_type(name, "a Gid or 16 bytes", value);
        }
        return -1;
    }
    bytes = PyBytes_FromObject(view);
    Py_DECREF(view);
    if (!bytes)
        return -1;
    if (PyBytes_Size(bytes) == 16) {
        memcpy(ret, PyBytes_AsString(bytes), 16);
        failed = 0;
    } else {
        PyErr_Format(PyExc_ValueError, "%s must have 16 bytes, got %zd", name, PyBytes_Size(bytes));
    }
    Py_DECREF(bytes);
    return failed;
}

struct core_hex core_hex(uint64_t number)
{
    struct core_hex hex;

    snprintf(hex.text, sizeof hex.text, "0x%llx", (unsigned long long)number);
    return hex;
}

PyObject *core_no_constructor(PyTypeObject *type, const char *maker)
{
    PyObject *name = PyObject_GetAttrString((PyObject *)type, "__name__");

    if (name)
        PyErr_Format(PyExc_TypeError, "a %U is made by %s", name, maker);
    Py_XDECREF(name);
    return NULL;
}
