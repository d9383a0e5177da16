/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Value objects made of plain C fields: one description of the fields serves the attributes, the constructor, repr,
 * comparison, hash and pickle.
 *
 * A record is an object whose whole value is its fields. Other classes (SendWR, SGE) use single fields as attributes.
 */
#ifndef CORE_FIELD_H
#define CORE_FIELD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "state.h"

enum core_field_kind {
    CORE_FIELD_UNSIGNED,
    CORE_FIELD_SIGNED,
    CORE_FIELD_TEXT,   /* a char array, ended by NUL where it is not full */
    CORE_FIELD_BOOL,   /* any object's truth, in one byte */
    CORE_FIELD_GID,    /* 16 bytes; None stands for all zero */
    CORE_FIELD_GID_BYTES, /* the same, read as bytes */
    CORE_FIELD_OBJECT, /* a reference to any object; NULL reads as None */
};

struct core_field {
    const char *name;
    uint16_t offset; /* in the object */
    uint8_t size;    /* 1, 2, 4, 8; of a text, up to 255 */
    uint8_t kind;
    uint64_t most; /* the largest value that may be set */
};

/* The largest unsigned number of so many bytes; what is longer is no number. */
#define CORE_FIELD_MOST(size) ((size) < 8 ? (UINT64_C(1) << 8 * ((size) % 8)) - 1 : UINT64_MAX)

/* A field of `struct object`, as large as its C member holds. */
#define CORE_FIELD(object, member, name_) CORE_FIELD_OF_KIND(object, member, name_, CORE_FIELD_UNSIGNED)
#define CORE_FIELD_LIMITED(object, member, name_, most_)                                                               \
    {name_, offsetof(struct object, member), sizeof(((struct object *)0)->member), CORE_FIELD_UNSIGNED, most_}
#define CORE_FIELD_OF_KIND(object, member, name_, kind_)                                                               \
    {name_, offsetof(struct object, member), sizeof(((struct object *)0)->member), kind_,                              \
     CORE_FIELD_MOST(sizeof(((struct object *)0)->member))}

/* Getter and setter for PyGetSetDef rows whose closure is the field. */
PyObject *core_field_get(PyObject *self, void *field);
int core_field_set(PyObject *self, PyObject *value, void *field);

/* Writes a value to a field: checked, whole or not at all. */
int core_field_store_any(struct core_state *state, PyObject *self, const struct core_field *field, PyObject *value);

/* An unsigned field of any size. */
static inline void core_field_put(PyObject *self, const struct core_field *field, uint64_t value)
{
    char *at = (char *)self + field->offset;
    uint32_t word = (uint32_t)value;
    uint16_t half = (uint16_t)value;
    uint8_t byte = (uint8_t)value;

    switch (field->size) {
    case 8:
        memcpy(at, &value, sizeof value);
        break;
    case 4:
        memcpy(at, &word, sizeof word);
        break;
    case 2:
        memcpy(at, &half, sizeof half);
        break;
    default:
        memcpy(at, &byte, sizeof byte);
    }
}

/* The same as core_field_store_any; here what nearly every store is costs next to nothing. */
static inline int core_field_store(struct core_state *state, PyObject *self, const struct core_field *field,
                                   PyObject *value)
{
    uint64_t number;

    if (field->kind == CORE_FIELD_UNSIGNED && PyLong_CheckExact(value)) {
        number = PyLong_AsUnsignedLongLong(value);
        if (number != UINT64_MAX && number <= field->most) {
            core_field_put(self, field, number);
            return 0;
        }
        PyErr_Clear(); /* an error, or that number: looked at again */
    }
    return core_field_store_any(state, self, field, value);
}

struct core_record {
    const struct core_field *fields;
    int count;
};

/* tp_new: the fields by position or keyword, those not given are zero. */
PyObject *core_record_new(PyTypeObject *type, PyObject *args, PyObject *kwargs, const struct core_record *record);

/* Its second half: writes arguments over what an object holds already. Returns 0 or -1. */
int core_record_fill(struct core_state *state, PyObject *self, PyObject *args, PyObject *kwargs,
                     const struct core_record *record);

/* An all-zero object for C to fill in. */
PyObject *core_record_alloc(struct core_state *state, enum core_type type);

/* tp_traverse and tp_clear of a record that holds objects, but for its class; tp_clear is the start of tp_dealloc too. */
int core_record_traverse(PyObject *self, visitproc visit, void *arg, const struct core_record *record);
int core_record_clear(PyObject *self, const struct core_record *record);

PyObject *core_record_repr(PyObject *self, const struct core_record *record);
PyObject *core_record_compare(PyObject *self, PyObject *other, int op, const struct core_record *record);
Py_hash_t core_record_hash(PyObject *self, const struct core_record *record);
PyObject *core_record_reduce(PyObject *self, const struct core_record *record);

/* The slot functions of a record class called `name`, each bound to its description. */
#define CORE_RECORD_FUNCTIONS(name, record)                                                                            \
    static PyObject *name##_repr(PyObject *self)                                                                       \
    {                                                                                                                  \
        return core_record_repr(self, &record);                                                                        \
    }                                                                                                                  \
    static PyObject *name##_compare(PyObject *self, PyObject *other, int op)                                           \
    {                                                                                                                  \
        return core_record_compare(self, other, op, &record);                                                          \
    }                                                                                                                  \
    static PyObject *name##_reduce(PyObject *self, PyObject *ignored)                                                  \
    {                                                                                                                  \
        (void)ignored;                                                                                                 \
        return core_record_reduce(self, &record);                                                                      \
    }

/* Those of a record whose fields cannot be set and are all zero unless given. */
#define CORE_CONSTANT_RECORD_FUNCTIONS(name, record)                                                                   \
    CORE_RECORD_FUNCTIONS(name, record)                                                                                \
    static PyObject *name##_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)                                  \
    {                                                                                                                  \
        return core_record_new(type, args, kwargs, &record);                                                           \
    }                                                                                                                  \
    static Py_hash_t name##_hash(PyObject *self)                                                                       \
    {                                                                                                                  \
        return core_record_hash(self, &record);                                                                        \
    }

#define CORE_RECORD_METHOD(name)                                                                                       \
    {"__reduce__", name##_reduce, METH_NOARGS, "__reduce__($self)\n--\n\nHow the object is pickled and copied."}

#define CORE_RECORD_SLOTS(name, new_, hash_)                                                                           \
    {Py_tp_new, new_}, {Py_tp_dealloc, core_value_dealloc}, {Py_tp_repr, name##_repr},                                 \
        {Py_tp_richcompare, name##_compare}, {Py_tp_hash, hash_}, {Py_tp_methods, name##_methods}

/*
 * A whole class whose objects C fills in and nobody changes: `struct object` is a PyObject_HEAD and a structure `attr`.
 * LIST(X, object) has X(object, name, member of attr, kind, doc) for each attribute. The slots of its specification are
 * {Py_tp_doc, ...}, CORE_ATTR_SLOTS(object), {0, NULL}. A class that has more to show than its fields writes its own
 * object##_getset between CORE_ATTR_RECORD and the slots: LIST(CORE_ATTR_ROW, object), its rows, the end.
 */
#define CORE_ATTR_CLASS(object, LIST)                                                                                  \
    CORE_ATTR_RECORD(object, LIST)                                                                                     \
    static PyGetSetDef object##_getset[] = {LIST(CORE_ATTR_ROW, object){NULL, NULL, NULL, NULL, NULL}};

#define CORE_ATTR_RECORD(object, LIST)                                                                                 \
    _Static_assert(offsetof(struct object, attr) == sizeof(PyObject), "where core_attr_new puts it");                  \
    enum object##_index { LIST(CORE_ATTR_INDEX, object) object##_COUNT };                                              \
    static const struct core_field object##_fields[] = {LIST(CORE_ATTR_FIELD, object)};                                \
    static const struct core_record object##_record = {object##_fields, object##_COUNT};                               \
    CORE_CONSTANT_RECORD_FUNCTIONS(object, object##_record)                                                            \
    static PyMethodDef object##_methods[] = {CORE_RECORD_METHOD(object), {NULL, NULL, 0, NULL}};

#define CORE_ATTR_INDEX(object, name, member, kind, doc) object##_##name,
#define CORE_ATTR_FIELD(object, name, member, kind, doc) CORE_FIELD_OF_KIND(object, attr.member, #name, kind),
#define CORE_ATTR_ROW(object, name, member, kind, doc)                                                                 \
    {#name, core_field_get, NULL, doc, (void *)&object##_fields[object##_##name]},
#define CORE_ATTR_SLOTS(object)                                                                                        \
    CORE_RECORD_SLOTS(object, object##_new, object##_hash), {Py_tp_getset, object##_getset}

/* An object of such a class that holds a copy of the structure. */
PyObject *core_attr_new(struct core_state *state, enum core_type type, const void *attr, size_t size);

/*
 * The end of tp_dealloc of a value: frees it, and lets go of its class. The first for classes that the collector does
 * not watch (none of them can be derived from), the second for those that it does.
 */
void core_value_dealloc(PyObject *self);
void core_watched_value_dealloc(PyObject *self);

/*
 * Lets go of an object (or NULL) that a value held and that may be such a value itself: the end of a long chain of them
 * does not take a piece of the C stack for each.
 */
void core_drop_chained(PyObject *object);

#endif
