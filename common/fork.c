/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs' protection against fork. See fork.h. */
#include "fork.h"

#include <errno.h>

#include "error.h"
#include "state.h"
#include "verbs.h"

PyObject *core_fork_init(PyObject *module, PyObject *ignored)
{
    struct core_state *state = core_state_of_module(module);
    int err;

    (void)ignored;
    if (!state)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    err = verbs_errno(verbs.fork_init());
    Py_END_ALLOW_THREADS
    if (err)
        return core_raise(state, err, "ibv_fork_init",
                          err == EINVAL ? "it comes too late: memory is registered already" : NULL);
    Py_RETURN_NONE;
}

PyObject *core_fork_status(PyObject *module, PyObject *ignored)
{
    struct core_state *state = core_state_of_module(module);

    (void)ignored;
    if (!state)
        return NULL;
    if (!verbs.is_fork_initialized)
        return core_raise_unsupported(state, &verbs_library, "ibv_is_fork_initialized");
    return PyLong_FromLong((long)verbs.is_fork_initialized());
}
