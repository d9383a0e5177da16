/* SPDX-License-Identifier: BSD-3-Clause */
/* efa._Peer. See destination.h. */
#include "destination.h"

#include <stddef.h>

#include "args.h"
#include "classes.h"
#include "field.h"
#include "wr.h"

static const struct core_params new_params = {"Peer", 3, 3, {CORE_NAME_ah, CORE_NAME_qp_num, CORE_NAME_qkey}};

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    uint64_t qp_num;
    uint32_t qkey;
    struct efa_destination *self;

    if (!core_is(state, values[0], CORE_TYPE_AH))
        return core_raise_type("Peer.ah", "an AH", values[0]);
    if (core_integer(state, values[1], "Peer.qp_num", 0, WR_QPN_MOST, &qp_num) < 0 ||
        core_u32(state, values[2], "Peer.qkey", &qkey) < 0)
        return NULL;
    self = (struct efa_destination *)PyType_GenericAlloc(type, 0);
    if (self) {
        Py_INCREF(values[0]);
        self->ah = values[0];
        self->qp_num = (uint32_t)qp_num;
        self->qkey = qkey;
    }
    return (PyObject *)self;
}

static PyObject *destination_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_construct(type, args, kwargs, &new_params, make);
}

static int destination_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(((struct efa_destination *)op)->ah);
    Py_VISIT(Py_TYPE(op));
    return 0;
}

static int destination_clear(PyObject *op)
{
    Py_CLEAR(((struct efa_destination *)op)->ah);
    return 0;
}

static void destination_dealloc(PyObject *op)
{
    PyObject_GC_UnTrack(op);
    destination_clear(op);
    core_watched_value_dealloc(op);
}

static PyObject *destination_drop(PyObject *op, PyObject *ignored)
{
    (void)ignored;
    destination_clear(op);
    Py_RETURN_NONE;
}

static PyMemberDef destination_members[] = {
    {"ah", T_OBJECT, offsetof(struct efa_destination, ah), READONLY, "The address handle; None when closed."},
    {"qp_num", T_UINT, offsetof(struct efa_destination, qp_num), READONLY, "The peer's queue pair."},
    {"qkey", T_UINT, offsetof(struct efa_destination, qkey), READONLY, "The peer's qkey."},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef destination_methods[] = {
    {"_drop", destination_drop, METH_NOARGS, "_drop($self)\n--\n\nLet go of the address handle."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot destination_slots[] = {
    {Py_tp_doc, "_Peer(ah, qp_num, qkey)\n--\n\nWhat a Peer holds."},
    {Py_tp_new, destination_new},
    {Py_tp_traverse, destination_traverse},
    {Py_tp_clear, destination_clear},
    {Py_tp_dealloc, destination_dealloc},
    {Py_tp_members, destination_members},
    {Py_tp_methods, destination_methods},
    {0, NULL},
};

const PyType_Spec efa_destination_spec = {
    .basicsize = sizeof(struct efa_destination),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = destination_slots,
};
