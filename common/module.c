/* SPDX-License-Identifier: BSD-3-Clause */
/* The import of a module, and its end. See module.h. */
#include "module.h"

#include <errno.h>

#include "object.h"

static int load(const struct core_library *library)
{
    char reason[1024];

    if (library->load(reason, sizeof reason) == 0)
        return 0;
    PyErr_Format(PyExc_ImportError, "%s\n%s", reason, library->advice);
    return -1;
}

int core_module_exec(PyObject *module, const struct core_library *libraries, size_t library_count,
                     const struct core_class *classes, size_t class_count)
{
    struct core_state *state = PyModule_GetState(module);
    int err;

    for (size_t i = 0; i < library_count; i++)
        if (load(&libraries[i]) < 0)
            return -1;
    err = core_watch_forks();
    if (err) {
        errno = err;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (core_state_init(state) < 0)
        return -1;
    for (size_t i = 0; i < class_count; i++)
        if (core_add_class(module, state, &classes[i]) < 0)
            return -1;
    return core_add_constants(module, core_verbs_constants, core_verbs_constant_count);
}

int core_module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct core_state *state = PyModule_GetState(module);

    return state ? core_state_traverse(state, visit, arg) : 0;
}

void core_module_free(void *module)
{
    struct core_state *state = PyModule_GetState(module);

    if (state)
        core_state_free(state);
}
