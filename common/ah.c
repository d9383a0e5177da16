/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles. See ah.h. */
#include "ah.h"

#include <errno.h>

#include "ah_attr.h"
#include "args.h"
#include "cause.h"
#include "error.h"
#include "verbs.h"

static int ah_destroy(struct core_object *self)
{
    return verbs_errno(verbs.destroy_ah(self->handle));
}

static const struct core_kind ah_kind = {CORE_KIND_AH, "ibv_destroy_ah", ah_destroy, NULL, NULL};

PyObject *core_ah_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "PD.create_ah()");
}

PyObject *core_ah_create(struct core_object *pd, struct ibv_ah_attr *attr, const char *method)
{
    struct cause cause = {0};
    struct core_object *self;
    struct ibv_ah *ah;
    PyObject *result;
    int err;

    if (core_ah_attr_check(attr, "attr") < 0 || core_check_open(pd, method) < 0)
        return NULL;
    self = core_object_new(pd->state, pd->module, CORE_TYPE_AH, &ah_kind);
    if (!self)
        return NULL;
    core_object_add_parent(self, pd);
    if (core_object_begin(self, method) < 0)
        return NULL;

    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    ah = verbs.create_ah(pd->handle, attr);
    err = ah ? 0 : verbs_last_errno();
    if (err)
        cause_of_address(&cause, ((struct ibv_pd *)pd->handle)->context, attr, attr->port_num, err);
    Py_END_ALLOW_THREADS
    result = core_object_finish(self, ah);
    return err ? core_raise_format(pd->state, err, "ibv_create_ah", "port_num=%d, sgid_index=%d, is_global=%d%s%s",
                                   attr->port_num, attr->grh.sgid_index, attr->is_global, cause.used ? ": " : "",
                                   cause.text)
               : result;
}
