/* SPDX-License-Identifier: BSD-3-Clause */
/* The extension module ibverbs._ibverbs: its classes and its function. */
#include "module.h"

#include "classes.h"
#include "cuda_functions.h"
#include "fork.h"
#include "verbs.h"

static const struct core_class classes[] = {
    {CORE_TYPE_VERBS_ERROR, "ibverbs.VerbsError", &ibverbs_error_spec, CORE_NO_BASE, {&PyExc_OSError}},
    CORE_SHARED_CLASSES("ibverbs"),
    {CORE_TYPE_AH_ATTR, "ibverbs.AHAttr", &ibverbs_ah_attr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_QP_INIT_ATTR, "ibverbs.QPInitAttr", &ibverbs_qp_init_attr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_CONTEXT, "ibverbs.Context", &ibverbs_context_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_PD, "ibverbs.PD", &ibverbs_pd_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_MR, "ibverbs.MR", &ibverbs_mr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_CQ, "ibverbs.CQ", &ibverbs_cq_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_SRQ, "ibverbs.SRQ", &ibverbs_srq_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_QP, "ibverbs.QP", &ibverbs_qp_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_AH, "ibverbs.AH", &ibverbs_ah_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_SEND_WR, "ibverbs.SendWR", &ibverbs_send_wr_spec, CORE_NO_BASE, {NULL}},
    {CORE_TYPE_WC, "ibverbs.WC", &ibverbs_wc_spec, CORE_NO_BASE, {NULL}},
    {IBVERBS_TYPE_CM_ID, "ibverbs._CMID", &ibverbs_cm_id_spec, CORE_NO_BASE, {NULL}},
};

static const struct core_library libraries[] = {
    {verbs_load, "ibverbs needs libibverbs: install " CORE_LIBIBVERBS_ADVICE},
};

static const struct core_constant qp_types[] = {
#define ROW(name, value) {#name, value},
    CORE_QP_TYPES(ROW)
#undef ROW
};

static int module_exec(PyObject *module)
{
    if (core_module_exec(module, libraries, sizeof libraries / sizeof *libraries, classes,
                         sizeof classes / sizeof *classes) < 0 ||
        core_add_constants(module, qp_types, sizeof qp_types / sizeof *qp_types) < 0)
        return -1;
    return cuda_add_functions(module);
}

static PyMethodDef module_methods[] = {CORE_GET_DEVICE_LIST_METHOD, CORE_FORK_METHODS, {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

struct PyModuleDef core_module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ibverbs._ibverbs",
    .m_doc = "The C part of ibverbs: classes, functions and constants over libibverbs.",
    .m_size = sizeof(struct core_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = core_module_traverse,
    .m_free = core_module_free,
};

PyMODINIT_FUNC PyInit__ibverbs(void)
{
    return PyModuleDef_Init(&core_module_def);
}
