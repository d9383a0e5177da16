/* SPDX-License-Identifier: BSD-3-Clause */
/* The SGE class. See sge.h. */
#include "sge.h"

#include <errno.h>

#include "args.h"
#include "error.h"
#include "field.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

static PyObject *sge_alloc(PyTypeObject *type, PyObject *owner, struct core_mr *mr)
{
    struct core_sge *self = (struct core_sge *)PyType_GenericAlloc(type, 0);

    if (self) {
        Py_XINCREF(owner);
        self->owner = owner;
        Py_XINCREF(mr);
        self->mr = mr;
    }
    return (PyObject *)self;
}

PyObject *core_sge_new(struct core_state *state, struct core_mr *mr, uint64_t addr, uint32_t length)
{
    /* Read first: making an object may run the collector, and what that runs may close the region. */
    struct ibv_sge sge = {addr, length, core_mr_handle(mr)->lkey};
    struct core_sge *self = (struct core_sge *)sge_alloc(state->types[CORE_TYPE_SGE], (PyObject *)mr, mr);

    if (self)
        self->sge = sge;
    return (PyObject *)self;
}

/* What an object gives as a memory region. */
struct region {
    uint64_t addr;
    uint64_t length;
    uint32_t lkey;
    PyObject *mr; /* new reference to the MR of ours that stands behind it, or NULL */
};

static int read_attribute(struct core_state *state, PyObject *object, enum core_name name, const char *text,
                          uint64_t most, uint64_t *ret)
{
    PyObject *value =
        core_get_attr(state, object, name, "target", "an MR, an address, or an object with addr, length and lkey");
    int failed = value ? core_integer(state, value, text, 0, most, ret) : -1;

    Py_XDECREF(value);
    return failed;
}

/* Anything with addr, length and lkey; one that wraps an MR of ours says so with its `mr`. */
static int region_of_object(struct core_state *state, PyObject *target, struct region *ret)
{
    uint64_t lkey;

    if (read_attribute(state, target, CORE_NAME_addr, "target.addr", UINT64_MAX, &ret->addr) < 0 ||
        read_attribute(state, target, CORE_NAME_length, "target.length", UINT64_MAX, &ret->length) < 0 ||
        read_attribute(state, target, CORE_NAME_lkey, "target.lkey", UINT32_MAX, &lkey) < 0)
        return -1;
    ret->lkey = (uint32_t)lkey;

    ret->mr = PyObject_GetAttr(target, state->names[CORE_NAME_mr]);
    if (!ret->mr) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
    } else if (!core_is(state, ret->mr, CORE_TYPE_MR)) {
        Py_CLEAR(ret->mr);
    }
    return 0;
}

static int region_of_mr(struct core_mr *mr, struct region *ret)
{
    if (core_check_open(&mr->base, "sge") < 0)
        return -1;
    Py_INCREF(mr);
    *ret = (struct region){mr->addr, mr->length, core_mr_handle(mr)->lkey, (PyObject *)mr};
    return 0;
}

static const struct core_params new_params = {
    "SGE", 4, 2, {CORE_NAME_target, CORE_NAME_length, CORE_NAME_lkey, CORE_NAME_offset}};

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    struct region region = {0, UINT64_MAX, 0, NULL};
    PyObject *target = values[0], *self = NULL;
    uint32_t length, lkey = 0;
    uint64_t offset = 0;
    int failed;

    if (core_u32(state, values[1], "length", &length) < 0 ||
        (values[2] && core_u32(state, values[2], "lkey", &lkey) < 0) ||
        (values[3] && core_u64(state, values[3], "offset", &offset) < 0))
        return NULL;

    if (PyIndex_Check(target)) {
        failed = core_u64(state, target, "target", &region.addr);
        region.lkey = lkey;
        target = NULL;
    } else {
        failed = core_is(state, target, CORE_TYPE_MR) ? region_of_mr((struct core_mr *)target, &region)
                                                      : region_of_object(state, target, &region);
        if (!failed && lkey && lkey != region.lkey) {
            PyErr_Format(PyExc_ValueError, "lkey comes from the region (0x%x); 0x%x was given", region.lkey, lkey);
            failed = -1;
        }
        if (!failed)
            failed = core_mr_check_range(state, region.length, offset, length);
    }
    if (!failed && region.addr + offset < region.addr) {
        core_raise_range_format(state, "target %s + offset %llu is beyond the 64-bit address space",
                                core_hex(region.addr).text, (unsigned long long)offset);
        failed = -1;
    }

    if (!failed)
        self = sge_alloc(type, target, (struct core_mr *)region.mr);
    if (self)
        ((struct core_sge *)self)->sge = (struct ibv_sge){region.addr + offset, length, region.lkey};
    Py_XDECREF(region.mr);
    return self;
}

static PyObject *sge_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_construct(type, args, kwargs, &new_params, make);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int sge_traverse(PyObject *op, visitproc visit, void *arg)
{
    struct core_sge *self = (struct core_sge *)op;

    Py_VISIT(self->owner);
    Py_VISIT(self->mr);
    Py_VISIT(Py_TYPE(op));
    return 0;
}

static int sge_clear(PyObject *op)
{
    struct core_sge *self = (struct core_sge *)op;

    PyObject *owner = self->owner;

    self->owner = NULL;
    Py_CLEAR(self->mr);
    core_drop_chained(owner); /* which may be another SGE */
    return 0;
}

static void sge_dealloc(PyObject *op)
{
    PyObject_GC_UnTrack(op);
    sge_clear(op);
    core_watched_value_dealloc(op);
}

/* ---- use --------------------------------------------------------------------------------------------------------- */

static void replace(PyObject **slot, PyObject *list)
{
    PyObject *old = *slot;

    *slot = list;
    Py_XDECREF(old);
}

int core_sg_list_copy(struct core_state *state, PyObject **slot, PyObject *value)
{
    PyObject *list;

    if (value == Py_None) {
        replace(slot, NULL);
        return 0;
    }
    if (PyList_CheckExact(value) && PyList_Size(value) == 1 &&
        Py_TYPE(PyList_GetItem(value, 0)) == state->types[CORE_TYPE_SGE]) {
        value = PyList_GetItem(value, 0);
        Py_INCREF(value);
        replace(slot, value);
        return 0;
    }

    list = PyList_CheckExact(value) ? PyList_GetSlice(value, 0, PyList_Size(value))
                                    : core_list(value, "sg_list", "an iterable of SGEs or None");
    if (!list)
        return -1;
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        if (!core_is(state, PyList_GetItem(list, i), CORE_TYPE_SGE)) { /* runs no code: the list stays as it is */
            core_raise_type("every item of sg_list", "an SGE", PyList_GetItem(list, i));
            Py_DECREF(list);
            return -1;
        }
    }
    replace(slot, list);
    return 0;
}

int core_sg_list_set(PyObject **slot, PyObject *value)
{
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "sg_list cannot be deleted");
        return -1;
    }
    if (!PyList_Check(value)) {
        core_raise_type("sg_list", "a list", value);
        return -1;
    }
    Py_INCREF(value);
    replace(slot, value);
    return 0;
}

PyObject *core_sg_list_get(PyObject **slot)
{
    if (!*slot || core_sg_list_is_one(*slot)) {
        PyObject *list = PyList_New(0), *one = *slot; /* read after it was made: the collector may run code that asks too */

        if (!list || (one && core_sg_list_is_one(one) && PyList_Append(list, one) < 0)) {
            Py_XDECREF(list);
            return NULL;
        }
        if (!one || core_sg_list_is_one(one))
            replace(slot, list);
        else
            Py_DECREF(list);
    }
    Py_INCREF(*slot);
    return *slot;
}

static inline int copy_entry(struct core_object *self, PyObject *item, struct ibv_sge *ret, const char *method,
                             Py_ssize_t request, Py_ssize_t i)
{
    struct core_sge *entry = (struct core_sge *)item;

    if (!core_is(self->state, item, CORE_TYPE_SGE)) {
        PyErr_Format(PyExc_TypeError, "request %zd: sg_list[%zd] must be an SGE, not %R", request, i,
                     (PyObject *)Py_TYPE(item));
        return -1;
    }
    if (entry->mr && entry->mr->base.open_in != core_generation) {
        core_raise_method(self, EBADF, method, "request %zd: sg_list[%zd] is in %R", request, i, entry->mr);
        return -1;
    }
    *ret = entry->sge;
    return 0;
}

Py_ssize_t core_sge_copy_any(struct core_object *self, PyObject *kept, struct ibv_sge *sge, const char *method,
                             Py_ssize_t request)
{
    Py_ssize_t count;

    if (core_sg_list_is_one(kept))
        return copy_entry(self, kept, sge, method, request, 0) < 0 ? -1 : 1;
    count = PyList_Size(kept);
    for (Py_ssize_t i = 0; i < count; i++)
        if (copy_entry(self, PyList_GetItem(kept, i), &sge[i], method, request, i) < 0)
            return -1;
    return count;
}

static const struct core_field fields[] = {
    CORE_FIELD(core_sge, sge.addr, "addr"),
    CORE_FIELD(core_sge, sge.length, "length"),
    CORE_FIELD(core_sge, sge.lkey, "lkey"),
};

static PyObject *sge_get_owner(PyObject *self, void *ignored)
{
    PyObject *owner = ((struct core_sge *)self)->owner;

    (void)ignored;
    if (!owner)
        Py_RETURN_NONE;
    Py_INCREF(owner);
    return owner;
}

static PyObject *sge_repr(PyObject *op)
{
    const struct ibv_sge *sge = &((struct core_sge *)op)->sge;

    return PyUnicode_FromFormat("SGE(%s, %u, 0x%x)", core_hex(sge->addr).text, sge->length, sge->lkey);
}

static PyGetSetDef sge_getset[] = {
    {"addr", core_field_get, core_field_set, "The address, in the region's terms.", (void *)&fields[0]},
    {"length", core_field_get, core_field_set, "The length in bytes, at most 2**32 - 1.", (void *)&fields[1]},
    {"lkey", core_field_get, core_field_set, "The region's key for local access.", (void *)&fields[2]},
    {"owner", sge_get_owner, NULL, "The MR it was cut from, or what serves as one; None for a plain address.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot sge_slots[] = {
    {Py_tp_doc, "SGE(target, length, lkey=0, offset=0)\n--\n\n"
                "A piece of memory for a request: of an MR, which it keeps alive, or at an address. struct ibv_sge."},
    {Py_tp_new, sge_new},
    {Py_tp_dealloc, sge_dealloc},
    {Py_tp_traverse, sge_traverse},
    {Py_tp_clear, sge_clear},
    {Py_tp_repr, sge_repr},
    {Py_tp_getset, sge_getset},
    {0, NULL},
};

const PyType_Spec core_sge_spec = {
    .basicsize = sizeof(struct core_sge),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = sge_slots,
};
