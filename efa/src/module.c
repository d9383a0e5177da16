/* SPDX-License-Identifier: BSD-3-Clause */
/* The extension module efa._efa: its classes, functions and constants. */
#include "module.h"

#include "classes.h"
#include "cuda_functions.h"
#include "efa_constants.h"
#include "efadv.h"
#include "fork.h"
#include "library.h"
#include "verbs.h"

static const struct core_class classes[] = {
    {CORE_TYPE_VERBS_ERROR, "efa.EfaError", &efa_error_spec, CORE_NO_BASE, {&PyExc_OSError}},
    CORE_SHARED_CLASSES("efa"),
    {EFA_TYPE_DEVICE_ATTR, "efa.EfaDeviceAttr", &efa_device_attr_spec, CORE_NO_BASE, {NULL}},
    {EFA_TYPE_MR_ATTR, "efa.MRAttr", &efa_mr_attr_spec, CORE_NO_BASE, {NULL}},
    {EFA_TYPE_CQ_ATTR, "efa.CQAttr", &efa_cq_attr_spec, CORE_NO_BASE, {NULL}},
    {EFA_TYPE_WQ_ATTR, "efa.WQAttr", &efa_wq_attr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_AH_ATTR, "efa.AHAttr", &efa_ah_attr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_QP_INIT_ATTR, "efa.QPInitAttr", &efa_qp_init_attr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_CONTEXT, "efa.Context", &efa_context_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_PD, "efa.PD", &efa_pd_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_MR, "efa.MR", &efa_mr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_CQ, "efa._CQBase", &efa_cq_base_spec, CORE_NO_BASE, {NULL}},
    {EFA_TYPE_CQ_PLAIN, "efa.CQ", &efa_cq_spec, CORE_TYPE_CQ, {NULL}},
    {EFA_TYPE_CQ_EX, "efa.CQEx", &efa_cq_ex_spec, CORE_TYPE_CQ, {NULL}},
    {CORE_TYPE_QP, "efa.QP", &efa_qp_spec, CORE_NO_BASE, {NULL}},
    {EFA_TYPE_COMP_CNTR, "efa.CompCntr", &efa_comp_cntr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_AH, "efa.AH", &efa_ah_spec, CORE_NO_BASE, {NULL}},
    {EFA_TYPE_DESTINATION, "efa._Peer", &efa_destination_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_SEND_WR, "efa.SendWR", &efa_send_wr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_WC, "efa.WC", &efa_wc_spec, CORE_NO_BASE, {NULL}},
};

/* In this order: libefa needs the libibverbs of the same build. */
static const struct core_library libraries[] = {
    {verbs_load, "efa needs libibverbs: install " CORE_LIBIBVERBS_ADVICE},
    {efadv_load,
     "efa needs libefa, the provider of AWS EFA in rdma-core 26 or newer: install ibverbs-providers (Debian, Ubuntu), "
     "libibverbs (Fedora, RHEL, Amazon Linux), rdma-core (Arch, Alpine), libefa1 (SUSE) or the EFA installer of AWS"},
};

static int module_exec(PyObject *module)
{
    if (core_module_exec(module, libraries, sizeof libraries / sizeof *libraries, classes,
                         sizeof classes / sizeof *classes) < 0 ||
        core_add_constants(module, efa_constants, efa_constant_count) < 0)
        return -1;
    return cuda_add_functions(module);
}

static PyMethodDef module_methods[] = {
    CORE_GET_DEVICE_LIST_METHOD, CORE_FORK_METHODS, EFA_GET_DEVICE_LIST_METHOD, EFA_LIBRARY_METHOD, {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

struct PyModuleDef core_module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "efa._efa",
    .m_doc = "The C part of efa: classes, functions and constants over libibverbs and libefa.",
    .m_size = sizeof(struct core_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = core_module_traverse,
    .m_free = core_module_free,
};

PyMODINIT_FUNC PyInit__efa(void)
{
    return PyModuleDef_Init(&core_module_def);
}
