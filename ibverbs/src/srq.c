/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.SRQ and PD.create_srq() */
#include <errno.h>
#include <stdio.h>

#include "args.h"
#include "cause.h"
#include "classes.h"
#include "context.h"
#include "error.h"
#include "object.h"
#include "makers.h"
#include "post.h"
#include "verbs.h"

struct srq {
    struct core_object base;
    struct wr_limits limits; /* as granted */
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int srq_destroy(struct core_object *self)
{
    struct core_context *context = core_context_of(self);
    int err;

    core_events_hold(&context->async);
    err = verbs_errno(verbs.destroy_srq(self->handle));
    core_events_release(&context->async);
    return err;
}

static void srq_release(struct core_object *self, void *handle)
{
    if (handle)
        core_context_remove(core_context_of(self), core_pointer_key(handle), self);
}

static const struct core_kind srq_kind = {CORE_KIND_SRQ, "ibv_destroy_srq", srq_destroy, NULL, srq_release};

static PyObject *srq_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "PD.create_srq()");
}

static PyObject *raise_not_created(struct core_context *context, int err, const char *verb,
                                   const struct ibv_srq_attr *attr)
{
    struct ibv_device_attr limits;
    struct cause cause = {0};

    if (core_context_limits(context, &limits))
        cause_of_srq_sizes(&cause, &limits, attr);
    if (!cause.used)
        cause_add(&cause, "max_wr=%u, max_sge=%u, srq_limit=%u", attr->max_wr, attr->max_sge, attr->srq_limit);
    if (err == ENOMEM)
        cause_of_locked_memory(&cause);
    return core_raise(context->base.state, err, verb, cause.text);
}

/*
 * Arms the limit, which ibv_create_srq itself may ignore, as its man page says. The event may come before this returns:
 * the queue is in the context's map by then. Returns 0 or a positive errno.
 */
static int arm(struct core_object *self, uint32_t srq_limit)
{
    struct ibv_srq_attr attr = {.srq_limit = srq_limit};
    int err;

    if (!core_try_enter(self)) /* somebody found it by way of the collector, and closed it */
        return EBADF;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    err = verbs_errno(verbs.modify_srq(self->handle, &attr, IBV_SRQ_LIMIT));
    Py_END_ALLOW_THREADS
    core_exit(self);
    return err;
}

static const struct core_params create_srq_params = {
    "PD.create_srq", 3, 0, {CORE_NAME_max_wr, CORE_NAME_max_sge, CORE_NAME_srq_limit}};

PyObject *ibverbs_pd_create_srq(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_object *pd = (struct core_object *)op;
    struct core_context *context = core_context_of(pd);
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 128, .max_sge = 1}};
    PyObject *values[3], *result;
    struct ibv_srq *srq;
    uint32_t srq_limit;
    struct srq *self;
    int err;

    if (core_parse(pd->state, &create_srq_params, args, nargs, kwnames, values) < 0 ||
        (values[0] && core_u32(pd->state, values[0], "max_wr", &init.attr.max_wr) < 0) ||
        (values[1] && core_u32(pd->state, values[1], "max_sge", &init.attr.max_sge) < 0) ||
        (values[2] && core_u32(pd->state, values[2], "srq_limit", &init.attr.srq_limit) < 0) ||
        core_check_open(pd, "create_srq") < 0)
        return NULL;

    self = (struct srq *)core_object_new(pd->state, pd->module, CORE_TYPE_SRQ, &srq_kind);
    if (!self)
        return NULL;
    core_object_add_parent(&self->base, pd);
    if (core_object_begin(&self->base, "create_srq") < 0)
        return NULL;
    if (core_context_reserve(context, 1) < 0)
        return core_object_finish(&self->base, NULL);

    srq_limit = init.attr.srq_limit;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    srq = verbs.create_srq(pd->handle, &init);
    err = srq ? 0 : verbs_last_errno();
    Py_END_ALLOW_THREADS
    init.attr.srq_limit = srq_limit; /* the library may have written here */
    self->limits.max_recv_wr = init.attr.max_wr;
    self->limits.max_recv_sge = init.attr.max_sge;
    result = core_object_finish(&self->base, srq);
    if (!result) {
        core_context_unreserve(context, 1);
        return raise_not_created(context, err, "ibv_create_srq", &init.attr);
    }
    core_context_put(context, core_pointer_key(srq), &self->base);

    err = srq_limit ? arm(&self->base, srq_limit) : 0;
    if (!err)
        return result;
    Py_DECREF(result);
    return raise_not_created(context, err, "ibv_modify_srq", &init.attr);
}

/* ---- use --------------------------------------------------------------------------------------------------------- */

static void explain_recv(struct core_object *self, int err, char *text, size_t size)
{
    if (err == ENOMEM)
        snprintf(text, size, ": the queue is full; it was granted max_wr=%u", ((struct srq *)self)->limits.max_recv_wr);
}

static int submit_recv(struct core_object *self, void *chain, Py_ssize_t count, void **ret_bad_wr)
{
    struct ibv_recv_wr *bad_wr = NULL;
    int err = ibv_post_srq_recv(self->handle, chain, &bad_wr);

    (void)count;
    *ret_bad_wr = bad_wr;
    return err;
}

static const struct core_params post_recv_params = {"SRQ.post_recv", 1, 1, {CORE_NAME_wrs}};
static const struct core_post_queue recv_queue = {"post_recv",     "ibv_post_srq_recv", &core_post_receives,
                                             false,           submit_recv,         explain_recv};

static PyObject *srq_post_recv(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct srq *self = (struct srq *)op;
    PyObject *wrs;

    if (core_parse(self->base.state, &post_recv_params, args, nargs, kwnames, &wrs) < 0 ||
        core_post(&self->base, &self->limits, wrs, &recv_queue) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static const struct core_params modify_params = {"SRQ.modify", 2, 0, {CORE_NAME_max_wr, CORE_NAME_srq_limit}};

static PyObject *raise_not_modified(struct srq *self, int err, const struct ibv_srq_attr *attr, int mask)
{
    struct ibv_srq_attr asked = *attr;
    struct ibv_device_attr limits;
    struct cause cause = {0};

    if (!(mask & IBV_SRQ_MAX_WR))
        asked.max_wr = self->limits.max_recv_wr;
    if (core_context_limits(core_context_of(&self->base), &limits))
        cause_of_srq_sizes(&cause, &limits, &asked);
    if (!cause.used)
        cause_add(&cause, "max_wr=%u, srq_limit=%u (0: not asked for)", attr->max_wr, attr->srq_limit);
    return core_raise(self->base.state, err, "ibv_modify_srq", cause.text);
}

static PyObject *srq_modify(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct srq *self = (struct srq *)op;
    struct ibv_srq_attr attr = {0};
    PyObject *values[2];
    int mask = 0, err;

    if (core_parse(self->base.state, &modify_params, args, nargs, kwnames, values) < 0)
        return NULL;
    if (values[0] && values[0] != Py_None) {
        if (core_u32(self->base.state, values[0], "max_wr", &attr.max_wr) < 0)
            return NULL;
        mask |= IBV_SRQ_MAX_WR;
    }
    if (values[1] && values[1] != Py_None) {
        if (core_u32(self->base.state, values[1], "srq_limit", &attr.srq_limit) < 0)
            return NULL;
        mask |= IBV_SRQ_LIMIT;
    }
    if (core_enter(&self->base, "modify") < 0)
        return NULL;
    if (!mask) {
        core_exit(&self->base);
        Py_RETURN_NONE;
    }

    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    err = verbs_errno(verbs.modify_srq(self->base.handle, &attr, mask));
    Py_END_ALLOW_THREADS
    if (!err && (mask & IBV_SRQ_MAX_WR))
        self->limits.max_recv_wr = attr.max_wr;
    core_exit(&self->base);
    if (err)
        return raise_not_modified(self, err, &attr, mask);
    Py_RETURN_NONE;
}

static PyObject *srq_query(PyObject *op, PyObject *ignored)
{
    struct srq *self = (struct srq *)op;
    struct ibv_srq_attr attr = {0};
    int err;

    (void)ignored;
    if (core_enter(&self->base, "query") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    err = verbs_errno(verbs.query_srq(self->base.handle, &attr));
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    if (err)
        return core_raise(self->base.state, err, "ibv_query_srq", NULL);
    return Py_BuildValue("{s:I,s:I,s:I}", "max_wr", attr.max_wr, "max_sge", attr.max_sge, "srq_limit", attr.srq_limit);
}

/* ---- the class --------------------------------------------------------------------------------------------------- */

static PyMethodDef srq_methods[] = {
    CORE_LIFETIME_METHODS,
    CORE_METHOD("post_recv", srq_post_recv,
                "post_recv($self, wrs)\n--\n\n"
                "Post one RecvWR, or every one of an iterable, to the queue. ibv_post_srq_recv."),
    CORE_METHOD("modify", srq_modify,
                "modify($self, max_wr=None, srq_limit=None)\n--\n\n"
                "Change the queue's depth, or arm its limit event. ibv_modify_srq."),
    {"query", srq_query, METH_NOARGS,
     "query($self)\n--\n\nReturn a dict with max_wr, max_sge and srq_limit. ibv_query_srq."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef srq_getset[] = {
    CORE_LIFETIME_GETSET,
    {"pd", core_object_get_parent, NULL, "The PD it belongs to.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef srq_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot srq_slots[] = {
    {Py_tp_doc, "SRQ()\n--\n\nA receive queue that several QPs share; PD.create_srq() makes one."},
    {Py_tp_new, srq_no_constructor},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, core_object_repr},
    {Py_tp_methods, srq_methods},
    {Py_tp_getset, srq_getset},
    {Py_tp_members, srq_members},
    {0, NULL},
};

const PyType_Spec ibverbs_srq_spec = {
    .basicsize = sizeof(struct srq),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = srq_slots,
};
