/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.PD */
#include "pd.h"

#include "classes.h"
#include "makers.h"
#include "mr.h"

static PyMethodDef pd_methods[] = {
    CORE_LIFETIME_METHODS,
    CORE_REG_MR_METHODS,
    CORE_METHOD("create_qp", efa_pd_create_qp,
                "create_qp($self, init_attr)\n--\n\n"
                "Return a new queue pair, from a QPInitAttr or any object with its attributes. efadv_create_qp_ex."),
    CORE_METHOD("create_ah", efa_pd_create_ah,
                "create_ah($self, addr, sgid_index=0, port_num=1)\n--\n\n"
                "Return a new address handle, for a GID or an AHAttr. ibv_create_ah."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef pd_getset[] = {CORE_LIFETIME_GETSET, CORE_PD_GETSET, {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef pd_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot pd_slots[] = {
    {Py_tp_doc, "PD()\n--\n\nA protection domain; Context.alloc_pd() makes one."},
    {Py_tp_new, core_pd_no_constructor},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, core_object_repr},
    {Py_tp_methods, pd_methods},
    {Py_tp_getset, pd_getset},
    {Py_tp_members, pd_members},
    {0, NULL},
};

const PyType_Spec efa_pd_spec = {
    .basicsize = sizeof(struct core_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = pd_slots,
};
