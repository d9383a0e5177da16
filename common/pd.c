/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains. See pd.h. */
#include "pd.h"

#include <errno.h>

#include "args.h"
#include "context.h"
#include "error.h"
#include "verbs.h"

static int pd_destroy(struct core_object *self)
{
    return verbs_errno(verbs.dealloc_pd(self->handle));
}

static const struct core_kind pd_kind = {CORE_KIND_PD, "ibv_dealloc_pd", pd_destroy, NULL, NULL};

PyObject *core_pd_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "Context.alloc_pd()");
}

PyObject *core_context_method_alloc_pd(PyObject *op, PyObject *ignored)
{
    struct core_object *context = (struct core_object *)op, *self;
    struct ibv_pd *pd;
    PyObject *result;
    int err;

    (void)ignored;
    if (core_check_open(context, "alloc_pd") < 0)
        return NULL;
    self = core_object_new(context->state, context->module, CORE_TYPE_PD, &pd_kind);
    if (!self)
        return NULL;
    core_object_add_parent(self, context);
    if (core_object_begin(self, "alloc_pd") < 0)
        return NULL;

    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    pd = verbs.alloc_pd(context->handle);
    err = pd ? 0 : verbs_last_errno();
    Py_END_ALLOW_THREADS
    result = core_object_finish(self, pd);
    return err ? core_raise(context->state, err, "ibv_alloc_pd", NULL) : result;
}
