/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork_init() and fork_status(): libibverbs' own protection of registered memory against fork, which kernels before 5.12
 * need. What a fork means for handles is in object.h.
 */
#ifndef CORE_FORK_H
#define CORE_FORK_H

#include "pyapi.h"

PyObject *core_fork_init(PyObject *module, PyObject *ignored);
PyObject *core_fork_status(PyObject *module, PyObject *ignored);

#define CORE_FORK_METHODS                                                                                              \
    {"fork_init", core_fork_init, METH_NOARGS,                                                                         \
     "fork_init($module, /)\n--\n\n"                                                                                   \
     "Have the library keep registered memory away from forked children. ibv_fork_init."},                             \
    {                                                                                                                  \
        "fork_status", core_fork_status, METH_NOARGS,                                                                  \
            "fork_status($module, /)\n--\n\n"                                                                          \
            "Return whether registered memory is safe across a fork, a ForkStatus value. ibv_is_fork_initialized."     \
    }

#endif
