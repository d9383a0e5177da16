/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.CQ and Context.create_cq() */
#include "cq.h"

#include "classes.h"
#include "makers.h"

PyObject *ibverbs_context_create_cq(PyObject *context, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_context_create_cq(context, args, nargs, kwnames, CORE_TYPE_CQ, &core_cq_plain);
}

static PyMethodDef cq_methods[] = {CORE_LIFETIME_METHODS, CORE_CQ_METHODS, {NULL, NULL, 0, NULL}};

static PyGetSetDef cq_getset[] = {CORE_LIFETIME_GETSET, CORE_CQ_GETSET, {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef cq_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot cq_slots[] = {
    {Py_tp_doc, "CQ()\n--\n\nA completion queue; Context.create_cq() makes one."},
    {Py_tp_new, core_cq_no_constructor},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, core_object_repr},
    {Py_tp_methods, cq_methods},
    {Py_tp_getset, cq_getset},
    {Py_tp_members, cq_members},
    {0, NULL},
};

const PyType_Spec ibverbs_cq_spec = {
    .basicsize = sizeof(struct core_cq),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = cq_slots,
};
