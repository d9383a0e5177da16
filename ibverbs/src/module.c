/* SPDX-License-Identifier: BSD-3-Clause */
/* The extension module ibverbs._ibverbs: its classes, its function, its constants. */
#include <errno.h>
#include <string.h>

#include "async_event.h"
#include "channel.h"
#include "classes.h"
#include "constants.h"
#include "device.h"
#include "device_attr.h"
#include "error.h"
#include "flags.h"
#include "gid.h"
#include "object.h"
#include "port_attr.h"
#include "qp_cap.h"
#include "recv_wr.h"
#include "sge.h"
#include "state.h"
#include "verbs.h"

#define NO_BASE (-1)

/* A base comes before what derives from it. */
static const struct core_class classes[] = {
    {CORE_TYPE_VERBS_ERROR, "ibverbs.VerbsError", &ibverbs_error_spec, NO_BASE, {&PyExc_OSError}},
    {CORE_TYPE_UNSUPPORTED_ERROR, "ibverbs.UnsupportedError", &core_unsupported_error_spec, CORE_TYPE_VERBS_ERROR,
     {&PyExc_RuntimeError}},
    {CORE_TYPE_RANGE_ERROR, "ibverbs.RangeError", &core_range_error_spec, NO_BASE,
     {&PyExc_OverflowError, &PyExc_ValueError}},
    {CORE_TYPE_COMPLETION_ERROR, "ibverbs.CompletionError", &core_completion_error_spec, CORE_TYPE_VERBS_ERROR, {NULL}},
    {CORE_TYPE_FLAG_OPS, "ibverbs.FlagOps", &core_flag_ops_spec, NO_BASE, {NULL}},
    {CORE_TYPE_GID, "ibverbs.Gid", &core_gid_spec, NO_BASE, {NULL}},
    {CORE_TYPE_DEVICE, "ibverbs.Device", &core_device_spec, NO_BASE, {NULL}},
    {CORE_TYPE_DEVICE_ATTR, "ibverbs.DeviceAttr", &core_device_attr_spec, NO_BASE, {NULL}},
    {CORE_TYPE_PORT_ATTR, "ibverbs.PortAttr", &core_port_attr_spec, NO_BASE, {NULL}},
    {CORE_TYPE_QP_CAP, "ibverbs.QPCap", &core_qp_cap_spec, NO_BASE, {NULL}},
    {CORE_TYPE_AH_ATTR, "ibverbs.AHAttr", &ibverbs_ah_attr_spec, NO_BASE, {NULL}},
    {CORE_TYPE_QP_INIT_ATTR, "ibverbs.QPInitAttr", &ibverbs_qp_init_attr_spec, NO_BASE, {NULL}},
    {CORE_TYPE_CONTEXT, "ibverbs.Context", &ibverbs_context_spec, NO_BASE, {NULL}},
    {CORE_TYPE_ASYNC_EVENT, "ibverbs.AsyncEvent", &core_async_event_spec, NO_BASE, {NULL}},
    {CORE_TYPE_PD, "ibverbs.PD", &ibverbs_pd_spec, NO_BASE, {NULL}},
    {CORE_TYPE_MR, "ibverbs.MR", &ibverbs_mr_spec, NO_BASE, {NULL}},
    {CORE_TYPE_CHANNEL, "ibverbs.CompChannel", &core_channel_spec, NO_BASE, {NULL}},
    {CORE_TYPE_CQ, "ibverbs.CQ", &ibverbs_cq_spec, NO_BASE, {NULL}},
    {CORE_TYPE_SRQ, "ibverbs.SRQ", &ibverbs_srq_spec, NO_BASE, {NULL}},
    {CORE_TYPE_QP, "ibverbs.QP", &ibverbs_qp_spec, NO_BASE, {NULL}},
    {CORE_TYPE_AH, "ibverbs.AH", &ibverbs_ah_spec, NO_BASE, {NULL}},
    {CORE_TYPE_SGE, "ibverbs.SGE", &core_sge_spec, NO_BASE, {NULL}},
    {CORE_TYPE_SEND_WR, "ibverbs.SendWR", &ibverbs_send_wr_spec, NO_BASE, {NULL}},
    {CORE_TYPE_RECV_WR, "ibverbs.RecvWR", &core_recv_wr_spec, NO_BASE, {NULL}},
    {CORE_TYPE_WC, "ibverbs.WC", &ibverbs_wc_spec, NO_BASE, {NULL}},
};

static const char missing_library[] =
    "%s\nibverbs needs libibverbs: install libibverbs1 and ibverbs-providers (Debian, Ubuntu), libibverbs (Fedora, "
    "RHEL), rdma-core (Arch, Alpine) or libibverbs1 (SUSE)";

static int module_exec(PyObject *module)
{
    struct core_state *state = PyModule_GetState(module);
    char reason[1024];
    int err;

    if (verbs_load(reason, sizeof reason) < 0) {
        PyErr_Format(PyExc_ImportError, missing_library, reason);
        return -1;
    }
    err = core_watch_forks();
    if (err) {
        errno = err;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (core_state_init(state) < 0)
        return -1;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (core_add_class(module, state, &classes[i]) < 0)
            return -1;
    return core_add_constants(module);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct core_state *state = PyModule_GetState(module);

    return state ? core_state_traverse(state, visit, arg) : 0;
}

static void module_free(void *module)
{
    struct core_state *state = PyModule_GetState(module);

    if (state)
        core_state_free(state);
}

static PyMethodDef module_methods[] = {CORE_GET_DEVICE_LIST_METHOD, {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

struct PyModuleDef core_module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ibverbs._ibverbs",
    .m_doc = "The C part of ibverbs: classes, functions and constants over libibverbs.",
    .m_size = sizeof(struct core_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__ibverbs(void)
{
    return PyModuleDef_Init(&core_module_def);
}
