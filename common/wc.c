/* SPDX-License-Identifier: BSD-3-Clause */
/* What a completion can do. See wc.h. */
#include "wc.h"

#include <arpa/inet.h>

#include "verbs.h"

const struct core_field core_wc_fields[CORE_WC_FIELD_COUNT] = {
#define FIELD(name, doc) CORE_FIELD(core_wc, wc.name, #name),
    CORE_WC_FIELDS(FIELD)
#undef FIELD
};

PyObject *core_wc_new(struct core_state *state, const struct ibv_wc *wc)
{
    struct core_wc *self = PyObject_New(struct core_wc, state->types[CORE_TYPE_WC]); /* all of it is written below */

    if (!self)
        return NULL;
    self->wc = *wc;
    if (wc->wc_flags & IBV_WC_WITH_IMM)
        self->wc.imm_data = ntohl(wc->imm_data);
    return (PyObject *)self;
}

static const char *status_text(const struct ibv_wc *wc)
{
    const char *text = verbs.wc_status_str(wc->status);

    return text ? text : "unknown status";
}

PyObject *core_wc_describe(PyObject *op)
{
    const struct ibv_wc *wc = &((struct core_wc *)op)->wc;

    return PyUnicode_FromFormat("%s (status %d), wr_id=%llu, qp_num=0x%x, vendor_err=0x%x", status_text(wc),
                                (int)wc->status, (unsigned long long)wc->wr_id, wc->qp_num, wc->vendor_err);
}

PyObject *core_wc_get_is_success(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((struct core_wc *)self)->wc.status == IBV_WC_SUCCESS);
}

PyObject *core_wc_get_status_str(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyUnicode_FromString(status_text(&((struct core_wc *)self)->wc));
}

PyObject *core_wc_method_raise_for_status(PyObject *self, PyObject *ignored)
{
    struct core_state *state;
    PyObject *error, *class;

    (void)ignored;
    if (((struct core_wc *)self)->wc.status == IBV_WC_SUCCESS)
        Py_RETURN_NONE;
    state = core_state_of(Py_TYPE(self));
    if (!state)
        return NULL;
    class = (PyObject *)state->types[CORE_TYPE_COMPLETION_ERROR];
    error = PyObject_CallFunctionObjArgs(class, self, NULL);
    if (error)
        PyErr_SetObject(class, error);
    Py_XDECREF(error);
    return NULL;
}
