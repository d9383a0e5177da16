/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.AH and PD.create_ah() */
#include "ah.h"

#include "ah_attr.h"
#include "args.h"
#include "classes.h"
#include "makers.h"

static const struct core_params create_ah_params = {"PD.create_ah", 1, 1, {CORE_NAME_attr}};

PyObject *ibverbs_pd_create_ah(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_object *pd = (struct core_object *)op;
    PyObject *value;

    if (core_parse(pd->state, &create_ah_params, args, nargs, kwnames, &value) < 0)
        return NULL;
    if (!core_is(pd->state, value, CORE_TYPE_AH_ATTR))
        return core_raise_type("attr", "an AHAttr", value);

    /* A copy: another thread may change the object while the verb runs. */
    struct ibv_ah_attr attr = ((struct core_ah_attr *)value)->attr;
    return core_ah_create(pd, &attr, "create_ah");
}

static PyMethodDef ah_methods[] = {CORE_LIFETIME_METHODS, {NULL, NULL, 0, NULL}};

static PyGetSetDef ah_getset[] = {CORE_LIFETIME_GETSET, CORE_AH_GETSET, {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef ah_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot ah_slots[] = {
    {Py_tp_doc, "AH()\n--\n\nAn address handle, the destination of a datagram; PD.create_ah() makes one."},
    {Py_tp_new, core_ah_no_constructor},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, core_object_repr},
    {Py_tp_methods, ah_methods},
    {Py_tp_getset, ah_getset},
    {Py_tp_members, ah_members},
    {0, NULL},
};

const PyType_Spec ibverbs_ah_spec = {
    .basicsize = sizeof(struct core_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = ah_slots,
};
