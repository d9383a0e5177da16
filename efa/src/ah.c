/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.AH and PD.create_ah() */
#include "ah.h"

#include "ah_attr.h"
#include "args.h"
#include "classes.h"
#include "efadv.h"
#include "error.h"
#include "makers.h"
#include "verbs.h"

static const struct core_params create_ah_params = {
    "PD.create_ah", 3, 1, {CORE_NAME_addr, CORE_NAME_sgid_index, CORE_NAME_port_num}};

PyObject *efa_pd_create_ah(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_object *pd = (struct core_object *)op;
    struct ibv_ah_attr attr;
    PyObject *values[3];

    if (core_parse(pd->state, &create_ah_params, args, nargs, kwnames, values) < 0)
        return NULL;
    if (core_is(pd->state, values[0], CORE_TYPE_AH_ATTR)) {
        if (values[1] || values[2]) {
            PyErr_SetString(PyExc_ValueError, "sgid_index and port_num are those of the AHAttr: they were given twice");
            return NULL;
        }
        attr = ((struct core_ah_attr *)values[0])->attr; /* a copy: another thread may change the object meanwhile */
        return core_ah_create(pd, &attr, "create_ah");
    }

    core_ah_attr_init(&attr);
    if (core_gid_bytes(pd->state, values[0], "addr", attr.grh.dgid.raw) < 0 ||
        (values[1] && core_u8(pd->state, values[1], "sgid_index", &attr.grh.sgid_index) < 0) ||
        (values[2] && core_u8(pd->state, values[2], "port_num", &attr.port_num) < 0))
        return NULL;
    return core_ah_create(pd, &attr, "create_ah");
}

static PyObject *ah_get_ahn(PyObject *op, void *ignored)
{
    struct core_object *self = (struct core_object *)op;
    struct dv_ah_attr attr = {0};
    int err;

    (void)ignored;
    if (core_check_open(self, "ahn") < 0)
        return NULL;
    err = verbs_errno(efadv.query_ah(self->handle, &attr, sizeof attr)); /* asks nobody but the library */
    return err ? core_raise(self->state, err, "efadv_query_ah", NULL) : PyLong_FromLong(attr.ahn);
}

static PyMethodDef ah_methods[] = {CORE_LIFETIME_METHODS, {NULL, NULL, 0, NULL}};

static PyGetSetDef ah_getset[] = {
    CORE_LIFETIME_GETSET,
    CORE_AH_GETSET,
    {"ahn", ah_get_ahn, NULL, "The device's number for the destination. efadv_query_ah.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef ah_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot ah_slots[] = {
    {Py_tp_doc, "AH()\n--\n\nAn address handle, the destination of a request; PD.create_ah() makes one."},
    {Py_tp_new, core_ah_no_constructor},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, core_object_repr},
    {Py_tp_methods, ah_methods},
    {Py_tp_getset, ah_getset},
    {Py_tp_members, ah_members},
    {0, NULL},
};

const PyType_Spec efa_ah_spec = {
    .basicsize = sizeof(struct core_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = ah_slots,
};
