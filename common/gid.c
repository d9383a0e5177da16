/* SPDX-License-Identifier: BSD-3-Clause */
/* The Gid class. See gid.h. */
#include "gid.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#include "args.h"
#include "field.h"

struct core_gid {
    PyObject_HEAD
    uint8_t raw[16];
};

const uint8_t *core_gid_raw(PyObject *gid)
{
    return ((struct core_gid *)gid)->raw;
}

PyObject *core_gid_new(struct core_state *state, const uint8_t raw[16])
{
    struct core_gid *self = (struct core_gid *)PyType_GenericAlloc(state->types[CORE_TYPE_GID], 0);

    if (self)
        memcpy(self->raw, raw, 16);
    return (PyObject *)self;
}

static const struct core_params new_params = {"Gid", 1, 1, {CORE_NAME_raw}};

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    uint8_t raw[16];

    (void)type; /* it cannot be derived from */
    return core_gid_bytes(state, values[0], "raw", raw) < 0 ? NULL : core_gid_new(state, raw);
}

static PyObject *gid_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_construct(type, args, kwargs, &new_params, make);
}

static PyObject *gid_raw(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBytes_FromStringAndSize((const char *)core_gid_raw(self), 16);
}

static PyObject *gid_bytes(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return gid_raw(self, NULL);
}

/* One of the two halves, by its offset. */
static PyObject *gid_half(PyObject *self, void *offset)
{
    uint64_t half;

    memcpy(&half, core_gid_raw(self) + (uintptr_t)offset, sizeof half);
    return PyLong_FromUnsignedLongLong(be64toh(half));
}

static PyObject *gid_str(PyObject *self)
{
    char text[INET6_ADDRSTRLEN];

    if (!inet_ntop(AF_INET6, core_gid_raw(self), text, sizeof text))
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyUnicode_FromString(text);
}

static PyObject *gid_repr(PyObject *self)
{
    PyObject *address = gid_str(self), *text = NULL;

    if (address)
        text = PyUnicode_FromFormat("<Gid %U>", address);
    Py_XDECREF(address);
    return text;
}

static PyObject *gid_compare(PyObject *self, PyObject *other, int op)
{
    PyObject *mine, *theirs, *result;

    if (op != Py_EQ && op != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    if (Py_TYPE(other) == Py_TYPE(self)) {
        int same = memcmp(core_gid_raw(self), core_gid_raw(other), 16) == 0;
        return PyBool_FromLong(op == Py_EQ ? same : !same);
    }
    if (!PyBytes_Check(other) && !PyByteArray_Check(other) && !PyMemoryView_Check(other))
        Py_RETURN_NOTIMPLEMENTED;

    mine = gid_raw(self, NULL);
    theirs = mine ? PyBytes_FromObject(other) : NULL;
    result = theirs ? PyObject_RichCompare(mine, theirs, op) : NULL;
    Py_XDECREF(mine);
    Py_XDECREF(theirs);
    return result;
}

static Py_hash_t gid_hash(PyObject *self)
{
    PyObject *bytes = gid_raw(self, NULL);
    Py_hash_t hash = bytes ? PyObject_Hash(bytes) : -1;

    Py_XDECREF(bytes);
    return hash;
}

static PyObject *gid_reduce(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_BuildValue("O(N)", (PyObject *)Py_TYPE(self), gid_raw(self, NULL));
}

static PyGetSetDef gid_getset[] = {
    {"raw", gid_raw, NULL, "The 16 bytes, in network byte order.", NULL},
    {"subnet_prefix", gid_half, NULL, "The first eight bytes, read as a big-endian integer.", (void *)0},
    {"interface_id", gid_half, NULL, "The last eight bytes, read as a big-endian integer.", (void *)8},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef gid_methods[] = {
    {"__bytes__", gid_bytes, METH_NOARGS, "__bytes__($self)\n--\n\nReturn the 16 bytes."},
    {"__reduce__", gid_reduce, METH_NOARGS, "How a Gid is pickled and copied."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot gid_slots[] = {
    {Py_tp_doc, "Gid(raw)\n--\n\nA 128-bit port address: 16 bytes, or another Gid. str() gives its IPv6 form."},
    {Py_tp_new, gid_new},
    {Py_tp_dealloc, core_value_dealloc},
    {Py_tp_repr, gid_repr},
    {Py_tp_str, gid_str},
    {Py_tp_richcompare, gid_compare},
    {Py_tp_hash, gid_hash},
    {Py_tp_getset, gid_getset},
    {Py_tp_methods, gid_methods},
    {0, NULL},
};

const PyType_Spec core_gid_spec = {
    .basicsize = sizeof(struct core_gid),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = gid_slots,
};
