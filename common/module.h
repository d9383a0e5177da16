/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the modules of all packages do when they are imported and when they go. Each defines `core_module_def` and calls
 * these from its slots.
 */
#ifndef CORE_MODULE_H
#define CORE_MODULE_H

#include <stddef.h>

#include "async_event.h"
#include "channel.h"
#include "constants.h"
#include "device.h"
#include "device_attr.h"
#include "error.h"
#include "flags.h"
#include "gid.h"
#include "gid_entry.h"
#include "port_attr.h"
#include "qp_cap.h"
#include "recv_wr.h"
#include "sge.h"
#include "state.h"
#include "waiter.h"

#define CORE_NO_BASE (-1)

/*
 * The classes that are the same in every package, as rows of a `struct core_class` array, under the package's name.
 * They come after the module's own class for failed verbs, which some derive from.
 */
#define CORE_SHARED_CLASSES(package)                                                                                   \
    {CORE_TYPE_UNSUPPORTED_ERROR,                                                                                      \
     package ".UnsupportedError",                                                                                      \
     &core_unsupported_error_spec,                                                                                     \
     CORE_TYPE_VERBS_ERROR,                                                                                            \
     {&PyExc_RuntimeError}},                                                                                           \
        {CORE_TYPE_RANGE_ERROR,                                                                                        \
         package ".RangeError",                                                                                        \
         &core_range_error_spec,                                                                                       \
         CORE_NO_BASE,                                                                                                 \
         {&PyExc_OverflowError, &PyExc_ValueError}},                                                                   \
        {CORE_TYPE_COMPLETION_ERROR,                                                                                   \
         package ".CompletionError",                                                                                   \
         &core_completion_error_spec,                                                                                  \
         CORE_TYPE_VERBS_ERROR,                                                                                        \
         {NULL}},                                                                                                      \
        {CORE_TYPE_FLAG_OPS, package ".FlagOps", &core_flag_ops_spec, CORE_NO_BASE, {NULL}},                           \
        {CORE_TYPE_GID, package ".Gid", &core_gid_spec, CORE_NO_BASE, {NULL}},                                         \
        {CORE_TYPE_GID_ENTRY, package ".GidEntry", &core_gid_entry_spec, CORE_NO_BASE, {NULL}},                        \
        {CORE_TYPE_DEVICE, package ".Device", &core_device_spec, CORE_NO_BASE, {NULL}},                                \
        {CORE_TYPE_DEVICE_ATTR, package ".DeviceAttr", &core_device_attr_spec, CORE_NO_BASE, {NULL}},                  \
        {CORE_TYPE_PORT_ATTR, package ".PortAttr", &core_port_attr_spec, CORE_NO_BASE, {NULL}},                        \
        {CORE_TYPE_QP_CAP, package ".QPCap", &core_qp_cap_spec, CORE_NO_BASE, {NULL}},                                 \
        {CORE_TYPE_ASYNC_EVENT, package ".AsyncEvent", &core_async_event_spec, CORE_NO_BASE, {NULL}},                  \
        {CORE_TYPE_CHANNEL, package ".CompChannel", &core_channel_spec, CORE_NO_BASE, {NULL}},                         \
        {CORE_TYPE_SGE, package ".SGE", &core_sge_spec, CORE_NO_BASE, {NULL}},                                         \
        {CORE_TYPE_RECV_WR, package ".RecvWR", &core_recv_wr_spec, CORE_NO_BASE, {NULL}},                              \
        {CORE_TYPE_WAITER, package ".Waiter", &core_waiter_spec, CORE_NO_BASE, {NULL}}

/* One library that a module needs: how it is opened, and what to say where it cannot be. */
struct core_library {
    int (*load)(char *reason, size_t reason_size); /* 0, or -1 with the reason in words */
    const char *advice;                            /* the packages to install, after the reason */
};

/* The one that every module needs. */
#define CORE_LIBIBVERBS_ADVICE                                                                                         \
    "libibverbs1 and ibverbs-providers (Debian, Ubuntu), libibverbs (Fedora, RHEL), rdma-core (Arch, Alpine) or "      \
    "libibverbs1 (SUSE)"

/*
 * Opens the libraries in order, then makes the state, the classes (a base comes before what derives from it) and the
 * constants of verbs.h. Returns 0 or -1 with an exception.
 */
int core_module_exec(PyObject *module, const struct core_library *libraries, size_t library_count,
                     const struct core_class *classes, size_t class_count);

/* m_traverse and m_free. */
int core_module_traverse(PyObject *module, visitproc visit, void *arg);
void core_module_free(void *module);

#endif
