/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.MR */
#include "mr.h"

#include <errno.h>

#include "attrs.h"
#include "cause.h"
#include "classes.h"
#include "error.h"
#include "verbs.h"

#define OPTIONAL_ACCESS 0x3ff00000u /* bits that a device may ignore */
#define EFA_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

void core_mr_explain(struct cause *cause, struct ibv_context *context, uint32_t access, int err)
{
    struct dv_device_attr attr = {0};
    const char *name = context->device->name;

    if (err != EOPNOTSUPP || efadv.query_device(context, &attr, sizeof attr))
        return;
    if (access & IBV_ACCESS_REMOTE_WRITE && !(attr.device_caps & DV_CAP_RDMA_WRITE) && efadv_is_of(46) == 1)
        cause_add(cause, "REMOTE_WRITE is for RDMA write, which device %s does not have", name);
    if (access & IBV_ACCESS_REMOTE_READ && !(attr.device_caps & DV_CAP_RDMA_READ))
        cause_add(cause, "REMOTE_READ is for RDMA read, which device %s does not have", name);
    if (access & ~(EFA_ACCESS | OPTIONAL_ACCESS))
        cause_add(cause, "EFA has LOCAL_WRITE, REMOTE_READ and REMOTE_WRITE, but not 0x%x",
                  access & ~(EFA_ACCESS | OPTIONAL_ACCESS));
}

static PyObject *mr_query_efa(PyObject *op, PyObject *ignored)
{
    struct core_object *self = (struct core_object *)op;
    struct dv_mr_attr attr = {0};
    int err;

    (void)ignored;
    if (core_check_open(self, "query_efa") < 0)
        return NULL;
    if (!efadv.query_mr)
        return core_raise_unsupported(self->state, &efadv_library, "efadv_query_mr");
    if (core_enter(self, "query_efa") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = verbs_errno(efadv.query_mr(self->handle, &attr, sizeof attr));
    Py_END_ALLOW_THREADS
    core_exit(self);
    return err ? core_raise(self->state, err, "efadv_query_mr", NULL) : efa_mr_attr_new(self->state, &attr);
}

static PyMethodDef mr_methods[] = {
    CORE_LIFETIME_METHODS,
    CORE_MR_METHODS,
    {"query_efa", mr_query_efa, METH_NOARGS,
     "query_efa($self)\n--\n\nReturn which interconnects reach the region, as an MRAttr. efadv_query_mr."},
    {NULL, NULL, 0, NULL},
};

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

const PyType_Spec efa_mr_spec = {
    .basicsize = sizeof(struct core_mr),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = mr_slots,
};
