/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.MR */
#include "mr.h"

#include "classes.h"

/* Nothing that is so of every device. */
void core_mr_explain(struct cause *cause, struct ibv_context *context, uint32_t access, int err)
{
    (void)cause;
    (void)context;
    (void)access;
    (void)err;
}

static PyMethodDef mr_methods[] = {CORE_LIFETIME_METHODS, CORE_MR_METHODS, {NULL, NULL, 0, NULL}};

static PyGetSetDef mr_getset[] = {CORE_LIFETIME_GETSET, CORE_MR_GETSET, {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef mr_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot mr_slots[] = {
    {Py_tp_doc, "MR()\n--\n\nA registered memory region; PD.reg_mr() makes one."},
    {Py_tp_new, core_mr_no_constructor},
    {Py_tp_traverse, core_mr_traverse},
    {Py_tp_finalize, core_mr_finalize},
    {Py_tp_clear, core_mr_clear},
    {Py_tp_dealloc, core_object_dealloc},
    {Py_tp_repr, core_mr_repr},
    {Py_tp_methods, mr_methods},
    {Py_tp_getset, mr_getset},
    {Py_tp_members, mr_members},
    {0, NULL},
};

const PyType_Spec ibverbs_mr_spec = {
    .basicsize = sizeof(struct core_mr),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = mr_slots,
};
