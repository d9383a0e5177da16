/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields and records. See field.h. */
#include "field.h"

#include <stdbool.h>
#include <string.h>

#include "args.h"
#include "error.h"
#include "gid.h"

/* ---- one field ----------------------------------------------------------------------------------------------- */

static PyObject *get_unsigned(const char *at, size_t size)
{
    uint64_t wide;
    uint32_t word;
    uint16_t half;

    switch (size) {
    case 8:
        memcpy(&wide, at, sizeof wide);
        return PyLong_FromUnsignedLongLong(wide);
    case 4:
        memcpy(&word, at, sizeof word);
        return PyLong_FromUnsignedLong(word);
    case 2:
        memcpy(&half, at, sizeof half);
        return PyLong_FromLong(half);
    default:
        return PyLong_FromLong(*(const unsigned char *)at);
    }
}

static bool is_no_gid(const char *at)
{
    static const char none[16];

    return memcmp(at, none, sizeof none) == 0;
}

static PyObject *get_gid(PyObject *self, const char *at)
{
    struct core_state *state;

    if (is_no_gid(at))
        Py_RETURN_NONE;
    state = core_state_of(Py_TYPE(self));
    return state ? core_gid_new(state, (const uint8_t *)at) : NULL;
}

static PyObject *get_gid_bytes(const char *at)
{
    if (is_no_gid(at))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(at, 16);
}

static PyObject *get_object(const char *at)
{
    PyObject *object = *(PyObject *const *)at;

    if (!object)
        object = Py_None;
    Py_INCREF(object);
    return object;
}

PyObject *core_field_get(PyObject *self, void *closure)
{
    const struct core_field *field = closure;
    const char *at = (const char *)self + field->offset;
    int number;

    switch (field->kind) {
    case CORE_FIELD_TEXT:
        return PyUnicode_DecodeUTF8(at, (Py_ssize_t)strnlen(at, field->size), "replace");
    case CORE_FIELD_BOOL:
        return PyBool_FromLong(*at);
    case CORE_FIELD_GID:
        return get_gid(self, at);
    case CORE_FIELD_GID_BYTES:
        return get_gid_bytes(at);
    case CORE_FIELD_OBJECT:
        return get_object(at);
    case CORE_FIELD_SIGNED: /* every signed field of verbs is an int */
        memcpy(&number, at, sizeof number);
        return PyLong_FromLong(number);
    default:
        return get_unsigned(at, field->size);
    }
}

static int store_text(struct core_state *state, PyObject *value, const struct core_field *field, char *at)
{
    PyObject *bytes;
    Py_ssize_t size;

    if (!PyUnicode_Check(value)) {
        core_raise_type(field->name, "a string", value);
        return -1;
    }
    bytes = PyUnicode_AsUTF8String(value);
    if (!bytes)
        return -1;
    size = PyBytes_Size(bytes);
    if (size >= field->size || strlen(PyBytes_AsString(bytes)) != (size_t)size) {
        if (size >= field->size)
            core_raise_range_format(state, "%s holds at most %d bytes, got the %zd of %R", field->name, field->size - 1,
                                    size, value);
        else
            PyErr_Format(PyExc_ValueError, "%s cannot hold a NUL, got %R", field->name, value);
        Py_DECREF(bytes);
        return -1;
    }
    memset(at, 0, field->size);
    memcpy(at, PyBytes_AsString(bytes), (size_t)size);
    Py_DECREF(bytes);
    return 0;
}

static int store_signed(struct core_state *state, PyObject *value, const struct core_field *field, char *at)
{
    PyObject *index = PyIndex_Check(value) ? PyNumber_Index(value) : core_raise_type(field->name, "an integer", value);
    int overflow, number;
    long wide;

    if (!index)
        return -1;
    wide = PyLong_AsLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (wide == -1 && PyErr_Occurred())
        return -1;
    if (overflow || wide < INT32_MIN || wide > INT32_MAX) {
        core_raise_range(state, field->name, value, INT32_MIN, INT32_MAX);
        return -1;
    }
    number = (int)wide;
    memcpy(at, &number, sizeof number);
    return 0;
}

static void store_object(PyObject *value, PyObject **slot)
{
    PyObject *old = *slot;

    Py_INCREF(value);
    *slot = value;
    core_drop_chained(old);
}

int core_field_store_any(struct core_state *state, PyObject *self, const struct core_field *field, PyObject *value)
{
    char *at = (char *)self + field->offset;
    uint64_t number;
    int truth;

    switch (field->kind) {
    case CORE_FIELD_TEXT:
        return store_text(state, value, field, at);
    case CORE_FIELD_BOOL:
        truth = PyObject_IsTrue(value);
        if (truth < 0)
            return -1;
        *at = (char)truth;
        return 0;
    case CORE_FIELD_GID:
    case CORE_FIELD_GID_BYTES:
        if (value != Py_None)
            return core_gid_bytes(state, value, field->name, (uint8_t *)at);
        memset(at, 0, 16);
        return 0;
    case CORE_FIELD_OBJECT:
        store_object(value, (PyObject **)at);
        return 0;
    case CORE_FIELD_SIGNED:
        return store_signed(state, value, field, at);
    default:
        if (core_integer(state, value, field->name, 0, field->most, &number) < 0)
            return -1;
        core_field_put(self, field, number);
        return 0;
    }
}

int core_field_set(PyObject *self, PyObject *value, void *closure)
{
    const struct core_field *field = closure;
    struct core_state *state;

    if (!value) {
        PyErr_Format(PyExc_AttributeError, "%s cannot be deleted", field->name);
        return -1;
    }
    state = core_state_of(Py_TYPE(self));
    return state ? core_field_store(state, self, field, value) : -1;
}

/* ---- records ------------------------------------------------------------------------------------------------- */

static const struct core_field *find_field(const struct core_record *record, PyObject *name)
{
    for (int i = 0; i < record->count; i++)
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, record->fields[i].name) == 0)
            return &record->fields[i];
    return NULL;
}

int core_record_fill(struct core_state *state, PyObject *self, PyObject *args, PyObject *kwargs,
                     const struct core_record *record)
{
    Py_ssize_t nargs = PyTuple_Size(args), position = 0;
    PyObject *name, *value;

    if (nargs > record->count) {
        PyErr_Format(PyExc_TypeError, "at most %d arguments, got %zd", record->count, nargs);
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++)
        if (core_field_store(state, self, &record->fields[i], PyTuple_GetItem(args, i)) < 0)
            return -1;
    while (kwargs && PyDict_Next(kwargs, &position, &name, &value)) {
        const struct core_field *field = find_field(record, name);
        int failed;

        if (!field || field - record->fields < nargs) {
            PyErr_Format(PyExc_TypeError, field ? "%R was given twice" : "there is no field %R", name);
            return -1;
        }
        Py_INCREF(value); /* a conversion may empty the dictionary: see core_parse_tuple */
        failed = core_field_store(state, self, field, value);
        Py_DECREF(value);
        if (failed)
            return -1;
    }
    return 0;
}

PyObject *core_record_new(PyTypeObject *type, PyObject *args, PyObject *kwargs, const struct core_record *record)
{
    struct core_state *state = core_state_of(type);
    PyObject *self = state ? PyType_GenericAlloc(type, 0) : NULL;

    if (self && core_record_fill(state, self, args, kwargs, record) < 0)
        Py_CLEAR(self);
    return self;
}

PyObject *core_record_alloc(struct core_state *state, enum core_type type)
{
    return PyType_GenericAlloc(state->types[type], 0);
}

PyObject *core_attr_new(struct core_state *state, enum core_type type, const void *attr, size_t size)
{
    PyObject *self = core_record_alloc(state, type);

    if (self)
        memcpy((char *)self + sizeof(PyObject), attr, size);
    return self;
}

static PyObject **object_at(PyObject *self, const struct core_field *field)
{
    return field->kind == CORE_FIELD_OBJECT ? (PyObject **)((char *)self + field->offset) : NULL;
}

int core_record_traverse(PyObject *self, visitproc visit, void *arg, const struct core_record *record)
{
    for (int i = 0; i < record->count; i++) {
        PyObject **slot = object_at(self, &record->fields[i]);
        if (slot)
            Py_VISIT(*slot);
    }
    return 0;
}

int core_record_clear(PyObject *self, const struct core_record *record)
{
    for (int i = 0; i < record->count; i++) {
        PyObject **slot = object_at(self, &record->fields[i]), *object = slot ? *slot : NULL;
        if (slot)
            *slot = NULL;
        core_drop_chained(object);
    }
    return 0;
}

/* The values in order. */
static PyObject *values_of(PyObject *self, const struct core_record *record)
{
    PyObject *tuple = PyTuple_New(record->count);

    for (int i = 0; tuple && i < record->count; i++) {
        PyObject *value = core_field_get(self, (void *)&record->fields[i]);
        if (!value || PyTuple_SetItem(tuple, i, value) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *core_record_repr(PyObject *self, const struct core_record *record)
{
    PyObject *text = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "__name__");

    for (int i = 0; text && i < record->count; i++) {
        PyObject *value = core_field_get(self, (void *)&record->fields[i]);
        PyObject *longer = value ? PyUnicode_FromFormat("%U%s%s=%R", text, i ? ", " : "(", record->fields[i].name, value)
                                 : NULL;
        Py_XDECREF(value);
        Py_DECREF(text);
        text = longer;
    }
    if (text) {
        PyObject *whole = PyUnicode_FromFormat("%U)", text);
        Py_DECREF(text);
        text = whole;
    }
    return text;
}

PyObject *core_record_compare(PyObject *self, PyObject *other, int op, const struct core_record *record)
{
    PyObject *mine, *theirs, *result = NULL;

    if (Py_TYPE(self) != Py_TYPE(other) || (op != Py_EQ && op != Py_NE)) {
        Py_INCREF(Py_NotImplemented);
        return Py_NotImplemented;
    }
    mine = values_of(self, record);
    theirs = values_of(other, record);
    if (mine && theirs)
        result = PyObject_RichCompare(mine, theirs, op);
    Py_XDECREF(mine);
    Py_XDECREF(theirs);
    return result;
}

Py_hash_t core_record_hash(PyObject *self, const struct core_record *record)
{
    PyObject *values = values_of(self, record);
    Py_hash_t hash = values ? PyObject_Hash(values) : -1;

    Py_XDECREF(values);
    return hash;
}

PyObject *core_record_reduce(PyObject *self, const struct core_record *record)
{
    PyObject *values = values_of(self, record);

    return values ? Py_BuildValue("(ON)", (PyObject *)Py_TYPE(self), values) : NULL;
}

void core_value_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_Free(self);
    Py_DECREF(type);
}

void core_watched_value_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_Del(self);
    Py_DECREF(type);
}

void core_drop_chained(PyObject *object)
{
    PyObject *type, *value, *traceback, *tuple;

    if (!object)
        return;
    if (Py_REFCNT(object) > 1) {
        Py_DECREF(object);
        return;
    }
    /* By way of a tuple, whose end the interpreter puts off where it is inside of too many others. */
    PyErr_Fetch(&type, &value, &traceback);
    tuple = PyTuple_Pack(1, object);
    PyErr_Restore(type, value, traceback);
    Py_DECREF(object);
    Py_XDECREF(tuple);
}
