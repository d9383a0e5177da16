/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.Context */
#include "context.h"

#include "channel.h"
#include "classes.h"
#include "cq.h"
#include "makers.h"
#include "pd.h"

static const struct core_params query_port_params = {"Context.query_port", 1, 1, {CORE_NAME_port_num}};
static const struct core_params query_gid_params = {"Context.query_gid", 2, 2, {CORE_NAME_port_num, CORE_NAME_index}};
static const struct core_params query_gid_table_params = {"Context.query_gid_table", 1, 1, {CORE_NAME_port}};

static PyObject *context_query_port(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_context_query_port(self, args, nargs, kwnames, &query_port_params);
}

static PyObject *context_query_gid(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_context_query_gid(self, args, nargs, kwnames, &query_gid_params);
}

static PyObject *context_query_gid_table(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_context_query_gid_table(self, args, nargs, kwnames, &query_gid_table_params);
}

static PyMethodDef context_methods[] = {
    CORE_LIFETIME_METHODS,
    CORE_CONTEXT_METHODS,
    CORE_METHOD("query_port", context_query_port,
                "query_port($self, port_num)\n--\n\n"
                "Return a port's state and properties as a PortAttr; ports count from 1. ibv_query_port."),
    CORE_METHOD("query_gid", context_query_gid,
                "query_gid($self, port_num, index)\n--\n\n"
                "Return one entry of a port's GID table; all zero where it is empty. ibv_query_gid."),
    CORE_METHOD("query_gid_table", context_query_gid_table,
                "query_gid_table($self, port)\n--\n\n"
                "Return a GidEntry for every entry of a port's GID table that is not empty. ibv_query_gid_table."),
    CORE_ALLOC_PD_METHOD,
    CORE_CREATE_COMP_CHANNEL_METHOD,
    CORE_CREATE_CQ_METHOD(ibverbs_context_create_cq),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef context_getset[] = {CORE_LIFETIME_GETSET, CORE_CONTEXT_GETSET, {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef context_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot context_slots[] = {
    {Py_tp_doc, "Context()\n--\n\nAn open device; Device.open() makes one."},
    {Py_tp_new, core_context_no_constructor},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, core_context_repr},
    {Py_tp_methods, context_methods},
    {Py_tp_getset, context_getset},
    {Py_tp_members, context_members},
    {0, NULL},
};

const PyType_Spec ibverbs_context_spec = {
    .basicsize = sizeof(struct core_context),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = context_slots,
};
