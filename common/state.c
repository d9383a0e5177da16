/* SPDX-License-Identifier: BSD-3-Clause */
/* The making and freeing of a module's state, and the ways to it. See state.h. */
#include "state.h"

#include <string.h>

int core_state_init(struct core_state *state)
{
    static const char *const names[] = {
#define CORE_NAME_TEXT(name) #name,
        CORE_NAMES(CORE_NAME_TEXT)
#undef CORE_NAME_TEXT
    };

    for (int i = 0; i < CORE_NAME_COUNT; i++) {
        state->names[i] = PyUnicode_InternFromString(names[i]);
        if (!state->names[i])
            return -1;
    }
    return 0;
}

/* The bases of a class as a tuple; NULL without an exception where it has none but object. */
static PyObject *bases_of(const struct core_state *state, const struct core_class *class)
{
    PyObject *bases[3];
    int count = 0;

    if (class->base >= 0)
        bases[count++] = (PyObject *)state->types[class->base];
    for (int i = 0; i < 2; i++)
        if (class->more[i])
            bases[count++] = *class->more[i];
    switch (count) {
    case 0:
        return NULL;
    case 1:
        return PyTuple_Pack(1, bases[0]);
    default:
        return PyTuple_Pack(2, bases[0], bases[1]);
    }
}

int core_add_class(PyObject *module, struct core_state *state, const struct core_class *class)
{
    PyType_Spec spec = *class->spec;
    PyObject *bases = bases_of(state, class), *type;

    if (!bases && PyErr_Occurred())
        return -1;
    spec.name = class->name;
    type = PyType_FromModuleAndSpec(module, &spec, bases);
    Py_XDECREF(bases);
    if (!type)
        return -1;
    state->types[class->type] = (PyTypeObject *)type;

    return PyObject_SetAttrString(module, strrchr(class->name, '.') + 1, type);
}

int core_state_traverse(struct core_state *state, visitproc visit, void *arg)
{
    for (int i = 0; i < CORE_TYPE_COUNT; i++)
        Py_VISIT(state->types[i]);
    return 0;
}

void core_state_free(struct core_state *state)
{
    for (int i = 0; i < CORE_TYPE_COUNT; i++)
        Py_CLEAR(state->types[i]);
    for (int i = 0; i < CORE_NAME_COUNT; i++)
        Py_CLEAR(state->names[i]);
}

/* The module of a class or of one that it derives from, however many bases there are; NULL without an exception. */
static PyObject *find_module(PyTypeObject *type)
{
    PyObject *module = PyType_GetModule(type), *bases;

    if (module && PyModule_GetDef(module) == &core_module_def)
        return module;
    PyErr_Clear(); /* a subclass written in Python has no module of this kind: a base has */
    module = NULL;
    if (!(PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE)) /* not one of ours, nor derived from any */
        return NULL;
    bases = PyType_GetSlot(type, Py_tp_bases);
    for (Py_ssize_t i = 0; !module && bases && i < PyTuple_Size(bases); i++)
        module = find_module((PyTypeObject *)PyTuple_GetItem(bases, i));
    return module;
}

PyObject *core_module_of(PyTypeObject *type)
{
    PyObject *module = find_module(type);

    if (!module)
        PyErr_SetString(PyExc_SystemError, "the extension module is gone");
    return module;
}

struct core_state *core_state_of_module(PyObject *module)
{
    struct core_state *state = PyModule_GetState(module);

    if (!state)
        PyErr_SetString(PyExc_SystemError, "the extension module is gone");
    return state;
}

struct core_state *core_state_of(PyTypeObject *type)
{
    PyObject *module = core_module_of(type);

    return module ? core_state_of_module(module) : NULL;
}
