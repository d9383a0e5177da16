/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.PD */
#include "pd.h"

#include "classes.h"
#include "mr.h"
#include "makers.h"

static PyMethodDef pd_methods[] = {
    CORE_LIFETIME_METHODS,
    CORE_REG_MR_METHODS,
    CORE_METHOD("create_qp", ibverbs_pd_create_qp,
                "create_qp($self, init_attr)\n--\n\n"
                "Return a new queue pair, from a QPInitAttr or any object with its attributes. ibv_create_qp."),
    CORE_METHOD("create_srq", ibverbs_pd_create_srq,
                "create_srq($self, max_wr=128, max_sge=1, srq_limit=0)\n--\n\n"
                "Return a new shared receive queue. ibv_create_srq."),
    CORE_METHOD("create_ah", ibverbs_pd_create_ah,
                "create_ah($self, attr)\n--\n\nReturn a new address handle, from an AHAttr. ibv_create_ah."),
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

const PyType_Spec ibverbs_pd_spec = {
    .basicsize = sizeof(struct core_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = pd_slots,
};
