/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.Context */
#include <errno.h>

#include "args.h"
#include "attrs.h"
#include "channel.h"
#include "classes.h"
#include "cq.h"
#include "efa_context.h"
#include "error.h"
#include "makers.h"
#include "pd.h"
#include "verbs.h"

/* ---- what device it is ----------------------------------------------------------------------------------------------- */

static int query(struct efa_context *self, const char *method, struct dv_device_attr *ret_attr)
{
    int err;

    memset(ret_attr, 0, sizeof *ret_attr);
    if (core_enter(&self->core.base, method) < 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS
    err = verbs_errno(efadv.query_device(self->core.base.handle, ret_attr, sizeof *ret_attr));
    Py_END_ALLOW_THREADS
    core_exit(&self->core.base);
    if (!err && !ret_attr->inline_buf_size_ex) /* a library that does not know of more */
        ret_attr->inline_buf_size_ex = ret_attr->inline_buf_size;
    return err;
}

int efa_context_ask(struct efa_context *self, const char *method, const struct dv_device_attr **ret_attr)
{
    struct dv_device_attr attr;
    int err;

    if (self->is_efa == EFA_UNASKED) {
        err = query(self, method, &attr);
        if (err < 0)
            return -1;
        if (err && err != EOPNOTSUPP) {
            core_raise_format(self->core.base.state, err, "efadv_query_device", "device %s", self->core.name);
            return -1;
        }
        self->attr = attr;
        self->is_efa = err ? EFA_NO : EFA_YES;
    } else if (core_check_open(&self->core.base, method) < 0) {
        return -1;
    }
    *ret_attr = self->is_efa == EFA_YES ? &self->attr : NULL;
    return 0;
}

int efa_raise_unavailable(const struct efa_context *self, const char *verb, const char *what, unsigned since)
{
    struct core_state *state = self->core.base.state;

    switch (efadv_is_of(since)) {
    case 0:
        core_raise_unsupported_format(state, verb, "%s: the installed libefa does not know it; rdma-core %u brings it",
                                      what, since);
        break;
    case 1:
        core_raise_unsupported_format(state, verb, "%s: device %s does not have it", what, self->core.name);
        break;
    default:
        core_raise_unsupported_format(state, verb,
                                      "%s: device %s or the installed libefa does not have it; rdma-core %u brings it",
                                      what, self->core.name, since);
    }
    return -1;
}

static PyObject *context_is_efa(PyObject *self, PyObject *ignored)
{
    const struct dv_device_attr *attr;

    (void)ignored;
    return efa_context_ask((struct efa_context *)self, "is_efa", &attr) < 0 ? NULL : PyBool_FromLong(attr != NULL);
}

static PyObject *context_query_efa_device(PyObject *op, PyObject *ignored)
{
    struct efa_context *self = (struct efa_context *)op;
    struct dv_device_attr attr;
    int err;

    (void)ignored;
    err = query(self, "query_efa_device", &attr);
    if (err < 0)
        return NULL;
    if (err)
        return core_raise_format(self->core.base.state, err, "efadv_query_device",
                                 err == EOPNOTSUPP ? "%s is not an EFA device" : "device %s", self->core.name);
    return efa_device_attr_new(self->core.base.state, &attr);
}

/* ---- the class ------------------------------------------------------------------------------------------------------- */

static const struct core_params query_port_params = {"Context.query_port", 1, 0, {CORE_NAME_port_num}};
static const struct core_params query_gid_params = {"Context.query_gid", 2, 0, {CORE_NAME_port_num, CORE_NAME_index}};
static const struct core_params query_gid_table_params = {"Context.query_gid_table", 1, 0, {CORE_NAME_port}};

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
                "query_port($self, port_num=1)\n--\n\n"
                "Return the port's state and properties as a PortAttr. ibv_query_port."),
    CORE_METHOD("query_gid", context_query_gid,
                "query_gid($self, port_num=1, index=0)\n--\n\n"
                "Return an entry of the port's GID table; the first is the device's network address. ibv_query_gid."),
    CORE_METHOD("query_gid_table", context_query_gid_table,
                "query_gid_table($self, port=1)\n--\n\n"
                "Return a GidEntry for every entry of the port's GID table that is not empty. ibv_query_gid_table."),
    {"is_efa", context_is_efa, METH_NOARGS,
     "is_efa($self)\n--\n\nReturn whether the device is EFA's. efadv_query_device."},
    {"query_efa_device", context_query_efa_device, METH_NOARGS,
     "query_efa_device($self)\n--\n\n"
     "Return the limits and capabilities of an EFA device as an EfaDeviceAttr. efadv_query_device."},
    CORE_ALLOC_PD_METHOD,
    CORE_CREATE_COMP_CHANNEL_METHOD,
    CORE_CREATE_CQ_METHOD(efa_context_create_cq),
    CORE_METHOD("create_cq_ex", efa_context_create_cq_ex,
                "create_cq_ex($self, cqe, channel=None, comp_vector=0, wc_flags=None, sgid=False, unsolicited=False, "
                "dmabuf_fd=None, dmabuf_offset=0, dmabuf_length=0, buffer=0)\n--\n\n"
                "Return an extended completion queue, whose completions tell more. efadv_create_cq."),
    CORE_METHOD("create_comp_cntr", efa_context_create_comp_cntr,
                "create_comp_cntr($self, count_bytes=False, comp_memory=None, err_memory=None)\n--\n\n"
                "Return a counter of what completes, for queue pairs to be attached to. efadv_create_comp_cntr."),
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

const PyType_Spec efa_context_spec = {
    .basicsize = sizeof(struct efa_context),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = context_slots,
};
