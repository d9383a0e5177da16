/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FlagOps, the operators of flag enums. enum.IntFlag computes `A | B` in Python: three calls and a class call, a
 * microsecond or two. Here it is one look-up in the class's own table from values to members; everything that the
 * table cannot answer goes to the next class in line, IntFlag, so that there is one definition of what they mean.
 */
#include "flags.h"

#include <stdbool.h>

#include "state.h"

struct operator {
    const char *name;
    const char *reflected;
};

static const struct operator op_or = {"__or__", "__ror__"};
static const struct operator op_and = {"__and__", "__rand__"};
static const struct operator op_xor = {"__xor__", "__rxor__"};

/* Never reached by an enum's members, whose base in the layout is int. It also is what tells FlagOps from the classes
 * that derive from it: those that Python makes have a destructor of Python's. */
static void flag_ops_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    release(self);
    Py_DECREF(type);
}

/* A slot of a type, NULL where it has none. Before 3.10 PyType_GetSlot refuses static types (int, float). */
static void *heap_slot(PyTypeObject *type, int slot)
{
    return PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE ? PyType_GetSlot(type, slot) : NULL;
}

/* The state of the module that FlagOps, the first base of an enum class, was made for. NULL (no exception) where the
 * class is not made like that or the module is being torn down. */
static struct core_state *flags_state(PyTypeObject *type)
{
    PyObject *bases = heap_slot(type, Py_tp_bases);
    PyObject *base = bases && PyTuple_Size(bases) > 0 ? PyTuple_GetItem(bases, 0) : NULL;
    struct core_state *state;

    if (!base || heap_slot((PyTypeObject *)base, Py_tp_dealloc) != (void *)flag_ops_dealloc)
        return NULL;
    state = PyType_GetModuleState((PyTypeObject *)base);
    if (!state)
        PyErr_Clear();
    return state;
}

/* An attribute of a member, by the name that the module's state keeps interned, or by `text` where that is gone.
 * Asked of the member: asking the class would run the metaclass's __getattr__ hook before 3.12. */
static PyObject *member_attr(PyObject *member, enum core_name name, const char *text)
{
    struct core_state *state = flags_state(Py_TYPE(member));

    return state && state->names[name] ? PyObject_GetAttr(member, state->names[name])
                                       : PyObject_GetAttrString(member, text);
}

/* The member of self's class that has this value: a new reference, or NULL with no exception when there is none yet
 * or self is no enum member. */
static PyObject *find_member(PyObject *self, long long value)
{
    PyObject *members = member_attr(self, CORE_NAME__value2member_map_, "_value2member_map_");
    PyObject *key = members && PyDict_Check(members) ? PyLong_FromLongLong(value) : NULL;
    PyObject *found = key ? PyDict_GetItemWithError(members, key) : NULL;

    Py_XINCREF(found);
    Py_XDECREF(key);
    Py_XDECREF(members);
    if (!found)
        PyErr_Clear();
    return found;
}

/* FlagOps itself, as found among the bases of a class: borrowed, NULL with an exception where it is none of them. */
static PyObject *find_flag_ops(PyTypeObject *type)
{
    PyObject *mro = PyObject_GetAttrString((PyObject *)type, "__mro__"), *found = NULL;
    Py_ssize_t n = mro ? PyTuple_Size(mro) : 0;

    for (Py_ssize_t i = 0; i < n && !found; i++) {
        PyObject *class = PyTuple_GetItem(mro, i);
        if (heap_slot((PyTypeObject *)class, Py_tp_dealloc) == (void *)flag_ops_dealloc)
            found = class;
    }
    Py_XDECREF(mro);
    if (!found && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "not a flag of a class that derives from FlagOps");
    return found;
}

/*
 * The other operand as IntFlag should see it; a new reference. Up to 3.10 (no boundaries) it would keep a member of
 * another flag class as the value of a member of its own, and two classes that come to hold each other's recurse
 * without end: there it gets the number alone.
 */
static PyObject *operand_for(PyObject *self, PyObject *other)
{
    if (PyLong_Check(other) && !PyLong_CheckExact(other) && !PyObject_HasAttrString(self, "_boundary_"))
        return PyNumber_Long(other);
    Py_INCREF(other);
    return other;
}

/* What the class after FlagOps, which is IntFlag, makes of self and, unless it is NULL, another operand: super(). */
static PyObject *ask_next(const char *name, PyObject *self, PyObject *other)
{
    PyObject *flag_ops = find_flag_ops(Py_TYPE(self)), *next = NULL, *method = NULL, *operand = NULL, *result = NULL;

    if (flag_ops)
        next = PyObject_CallFunctionObjArgs((PyObject *)&PySuper_Type, flag_ops, self, NULL);
    if (next)
        method = PyObject_GetAttrString(next, name);
    if (method && other)
        operand = operand_for(self, other);
    if (method && (operand || !other)) {
        result = PyObject_CallFunctionObjArgs(method, operand, NULL);
    } else if (next && !method && PyErr_ExceptionMatches(PyExc_AttributeError)) { /* it has no such operator */
        PyErr_Clear();
        if (other) {
            result = Py_NotImplemented;
            Py_INCREF(result);
        } else {
            PyErr_SetString(PyExc_TypeError, "bad operand type for unary ~");
        }
    }
    Py_XDECREF(operand);
    Py_XDECREF(method);
    Py_XDECREF(next);
    return result;
}

/* Which operand of an operator the interpreter called us for: at least one is a FlagOps, the left one first. */
static bool self_is_left(PyObject *left, PyObject *right)
{
    bool found;

    if (Py_TYPE(left) == Py_TYPE(right) || PyLong_CheckExact(right))
        return true;
    if (PyLong_CheckExact(left))
        return false;
    found = find_flag_ops(Py_TYPE(left)) != NULL;
    PyErr_Clear();
    return found;
}

/* The value of a member or an int; false where it is neither or does not fit. */
static bool value_of(PyObject *obj, long long *ret_value)
{
    int overflow = 1;
    long long value = PyLong_Check(obj) ? PyLong_AsLongLongAndOverflow(obj, &overflow) : 0;

    if (overflow)
        return false;
    *ret_value = value;
    return true;
}

static PyObject *combine(PyObject *left, PyObject *right, const struct operator *op)
{
    bool from_left = self_is_left(left, right);
    PyObject *self = from_left ? left : right;
    PyObject *other = from_left ? right : left;
    long long a, b;

    if ((Py_TYPE(self) == Py_TYPE(other) || PyLong_CheckExact(other)) && value_of(self, &a) && value_of(other, &b)) {
        PyObject *member = find_member(self, op == &op_or ? a | b : op == &op_and ? a & b : a ^ b);

        if (member)
            return member;
    }
    return ask_next(from_left ? op->name : op->reflected, self, other);
}

static PyObject *flag_ops_or(PyObject *left, PyObject *right)
{
    return combine(left, right, &op_or);
}

static PyObject *flag_ops_and(PyObject *left, PyObject *right)
{
    return combine(left, right, &op_and);
}

static PyObject *flag_ops_xor(PyObject *left, PyObject *right)
{
    return combine(left, right, &op_xor);
}

/*
 * From 3.11 on a member keeps its inverse once it was asked for (None until then), and what that is depends on the
 * class's boundary. Before, it is the member of the inverted value: there flag_operators() in python/flags.py says so
 * with NotImplemented, because a missing attribute is dear.
 */
static PyObject *flag_ops_invert(PyObject *self)
{
    PyObject *inverse = member_attr(self, CORE_NAME__inverted_, "_inverted_");
    long long value;

    if (inverse && inverse != Py_None && inverse != Py_NotImplemented)
        return inverse;
    if (!inverse) {
        PyErr_Clear();
    } else {
        Py_DECREF(inverse);
        if (inverse == Py_NotImplemented && value_of(self, &value)) {
            inverse = find_member(self, ~value);
            if (inverse)
                return inverse;
        }
    }
    return ask_next("__invert__", self, NULL);
}

static PyType_Slot flag_ops_slots[] = {
    {Py_tp_doc, "Operators of enum.IntFlag members, looked up in C. For use as a base class before IntFlag."},
    {Py_tp_dealloc, flag_ops_dealloc},
    {Py_nb_or, flag_ops_or},
    {Py_nb_and, flag_ops_and},
    {Py_nb_xor, flag_ops_xor},
    {Py_nb_invert, flag_ops_invert},
    {0, NULL},
};

const PyType_Spec core_flag_ops_spec = {
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = flag_ops_slots,
};
