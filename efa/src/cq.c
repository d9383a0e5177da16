/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.CQ, the base class of all completion queues of this package, and Context.create_cq() */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attrs.h"
#include "classes.h"
#include "efa_cq.h"
#include "error.h"
#include "makers.h"
#include "verbs.h"

/* ---- polling --------------------------------------------------------------------------------------------------------- */

/*
 * From rdma-core 59 on the provider says EINVAL of each completion whose queue pair is gone, and goes on behind it with
 * the next call; nobody waits for those.
 */
static int reap_library(struct core_cq *self, uint32_t at, uint32_t most, uint32_t *ret_found)
{
    int err;

    for (uint32_t tries = 0; tries <= (uint32_t)core_cq_handle(self)->cqe; tries++) {
        err = core_cq_reap(self, at, most, ret_found);
        if (err != EINVAL || !__atomic_load_n(&self->lost_qps, __ATOMIC_RELAXED))
            return err;
    }
    return err;
}

/* What was taken early comes first. */
static int reap(struct core_cq *op, uint32_t at, uint32_t most, uint32_t *ret_found)
{
    struct efa_cq *self = (struct efa_cq *)op;

    if (efa_spill_has_any(&self->spill)) {
        *ret_found = efa_spill_take(&self->spill, &op->ready[at], NULL, most);
        if (*ret_found)
            return 0;
    }
    return reap_library(op, at, most, ret_found);
}

void efa_cq_spill(struct efa_cq *self, efa_reap reap, const struct efa_wc_extra *extra)
{
    struct ibv_wc *ready = &self->core.ready[CORE_CQ_LEAVE_AT];
    int64_t left = 2 * (int64_t)core_cq_handle(&self->core)->cqe; /* more may come all the time */
    uint32_t found;
    int err = 0;

    pthread_mutex_lock(&self->spill.lock);
    __atomic_store_n(&self->spill.filling, true, __ATOMIC_SEQ_CST);
    while (!err && left > 0 && efa_spill_reserve(&self->spill, CORE_CQ_LEAVE)) {
        found = 0;
        err = reap(&self->core, CORE_CQ_LEAVE_AT, CORE_CQ_LEAVE, &found);
        for (uint32_t i = 0; !err && i < found; i++)
            efa_spill_put(&self->spill, &ready[i], extra ? &extra[CORE_CQ_LEAVE_AT + i] : NULL);
        memset(ready, 0, CORE_CQ_LEAVE * sizeof *ready);
        left = found ? left - found : 0;
    }
    __atomic_store_n(&self->spill.filling, false, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&self->spill.lock);
}

static void leave(struct core_cq *op, uint32_t qp_num, bool gone)
{
    struct efa_cq *self = (struct efa_cq *)op;

    efa_cq_spill(self, reap_library, NULL); /* once more when it is gone: what came late is passed over then */
    if (gone)
        efa_spill_drop(&self->spill, qp_num);
}

static void add(struct core_cq *self, uint32_t at, PyObject *wc)
{
    (void)self;
    (void)at;
    memset(&((struct efa_wc *)wc)->extra, 0, sizeof(struct efa_wc_extra));
}

static const struct core_cq_source source = {"ibv_poll_cq", reap, add, true, leave};

PyObject *efa_context_create_cq(PyObject *context, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_context_create_cq(context, args, nargs, kwnames, EFA_TYPE_CQ_PLAIN, &source);
}

void efa_cq_dealloc(PyObject *op)
{
    struct efa_spilled *entries = ((struct efa_cq *)op)->spill.entries;

    core_object_dealloc(op);
    free(entries);
}

/* ---- the classes ------------------------------------------------------------------------------------------------------ */

PyObject *efa_cq_query(PyObject *op, PyObject *ignored)
{
    struct core_object *self = (struct core_object *)op;
    struct dv_cq_attr attr = {0};
    int err;

    (void)ignored;
    if (core_check_open(self, "query_efa") < 0)
        return NULL;
    if (!efadv.query_cq)
        return core_raise_unsupported(self->state, &efadv_library, "efadv_query_cq");
    err = verbs_errno(efadv.query_cq(self->handle, &attr, sizeof attr)); /* asks nobody but the library */
    return err ? core_raise(self->state, err, "efadv_query_cq", NULL) : efa_cq_attr_new(self->state, &attr);
}

static PyMethodDef base_methods[] = {CORE_LIFETIME_METHODS, CORE_CQ_METHODS, EFA_CQ_QUERY_METHOD, {NULL, NULL, 0, NULL}};

static PyGetSetDef base_getset[] = {CORE_LIFETIME_GETSET, CORE_CQ_GETSET, {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef base_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot base_slots[] = {
    {Py_tp_doc, "_CQBase()\n--\n\nWhat CQ and CQEx have in common."},
    {Py_tp_new, core_cq_no_constructor},
    {Py_tp_traverse, core_object_traverse},
    {Py_tp_dealloc, efa_cq_dealloc},
    {Py_tp_repr, core_object_repr},
    {Py_tp_methods, base_methods},
    {Py_tp_getset, base_getset},
    {Py_tp_members, base_members},
    {0, NULL},
};

const PyType_Spec efa_cq_base_spec = {
    .basicsize = sizeof(struct efa_cq),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = base_slots,
};

static PyType_Slot cq_slots[] = {
    {Py_tp_doc, "CQ()\n--\n\nA completion queue; Context.create_cq() makes one."},
    {Py_tp_new, core_cq_no_constructor},
    {Py_tp_traverse, core_object_traverse},
    {Py_tp_dealloc, efa_cq_dealloc},
    {0, NULL},
};

const PyType_Spec efa_cq_spec = {
    .basicsize = sizeof(struct efa_cq),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = cq_slots,
};
