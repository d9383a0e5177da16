/* SPDX-License-Identifier: BSD-3-Clause */
/* The installed library and its devices. See library.h. */
#include "library.h"

#include "device.h"
#include "efa_context.h"
#include "efadv.h"
#include "error.h"
#include "state.h"

/* ---- the library ------------------------------------------------------------------------------------------------------- */

static int add_function(void *dict, const char *name, const char *since, bool present)
{
    PyObject *value = Py_BuildValue("(sN)", since, PyBool_FromLong(present));
    int failed = value ? PyDict_SetItemString(dict, name, value) : -1;

    Py_XDECREF(value);
    return failed;
}

PyObject *efa_library(PyObject *module, PyObject *ignored)
{
    PyObject *functions = PyDict_New();

    (void)module;
    (void)ignored;
    if (functions && efadv_each(add_function, functions) == 0)
        return Py_BuildValue("(sIN)", efadv_release.path, efadv_release.release, functions);
    Py_XDECREF(functions);
    return NULL;
}

/* ---- the devices ------------------------------------------------------------------------------------------------------- */

/* Whether a Device is EFA's: 1 or 0, -1 with an exception. One that cannot be opened is not to be had, so it is none. */
static int is_efa(struct core_state *state, PyObject *device)
{
    PyObject *context = PyObject_CallMethod(device, "open", NULL);
    const struct dv_device_attr *attr = NULL;
    int failed;

    if (!context)
        failed = -1;
    else
        failed = efa_context_ask((struct efa_context *)context, "is_efa", &attr);
    if (context && core_close((struct core_object *)context) < 0)
        PyErr_WriteUnraisable(context);
    Py_XDECREF(context);
    if (!failed)
        return attr != NULL;
    if (!PyErr_ExceptionMatches((PyObject *)state->types[CORE_TYPE_VERBS_ERROR]))
        return -1;
    PyErr_Clear();
    return 0;
}

PyObject *efa_get_device_list(PyObject *module, PyObject *ignored)
{
    struct core_state *state = core_state_of_module(module);
    PyObject *all = state ? core_get_device_list(module, ignored) : NULL;
    PyObject *result = all ? PyList_New(0) : NULL;

    for (Py_ssize_t i = 0; result && i < PyList_Size(all); i++) {
        PyObject *device = PyList_GetItem(all, i);
        int efa = is_efa(state, device);

        if (efa < 0 || (efa && PyList_Append(result, device) < 0))
            Py_CLEAR(result);
    }
    Py_XDECREF(all);
    return result;
}
