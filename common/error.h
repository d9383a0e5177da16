/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exceptions of a module, and the one place that raises for a failed verb.
 *
 * VerbsError(operation, err, detail), which the module names, is an OSError; UnsupportedError one of its kind and a RuntimeError; RangeError
 * an OverflowError and a ValueError; CompletionError(wc) a VerbsError. All of this needs the GIL.
 */
#ifndef CORE_ERROR_H
#define CORE_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#include "loader.h"
#include "state.h"

extern const PyType_Spec core_unsupported_error_spec;
extern const PyType_Spec core_range_error_spec;
extern const PyType_Spec core_completion_error_spec;

/* What the module's own class for failed verbs, which goes by its name, is made of. */
int core_verbs_error_init(PyObject *self, PyObject *args, PyObject *kwargs);
extern PyGetSetDef core_verbs_error_getset[];
extern PyMethodDef core_verbs_error_methods[];

#define CORE_VERBS_ERROR_DOC                                                                                           \
    "(operation, err, detail=None)\n--\n\n"                                                                            \
    "A verb failed. `errno` and `strerror` say how, `operation` which one, `detail` why where that is known."
#define CORE_VERBS_ERROR_SLOTS                                                                                         \
    {Py_tp_init, core_verbs_error_init}, {Py_tp_getset, core_verbs_error_getset},                                      \
        {Py_tp_methods, core_verbs_error_methods}

/*
 * Raises VerbsError for `operation` ("ibv_reg_mr", or "PD.reg_mr" where no verb was called) with a positive errno
 * and, unless `detail` is NULL, the cause. Always returns NULL.
 */
PyObject *core_raise(struct core_state *state, int err, const char *operation, const char *detail);

/* The same with a detail made as PyUnicode_FromFormat makes it. */
PyObject *core_raise_format(struct core_state *state, int err, const char *operation, const char *format, ...);
PyObject *core_raise_format_v(struct core_state *state, int err, const char *operation, const char *format,
                              va_list values);

/* Raises UnsupportedError for a function that the installed library lacks. */
PyObject *core_raise_unsupported(struct core_state *state, const struct loader_library *library, const char *function);

/* The same for what a device or the library's provider does not have, in words of the caller's. */
PyObject *core_raise_unsupported_format(struct core_state *state, const char *operation, const char *format, ...);

/* Raises RangeError for a value that its field does not hold. Always returns NULL. */
PyObject *core_raise_range(struct core_state *state, const char *field, PyObject *value, int64_t least, uint64_t most);

/* Raises RangeError with a message of its own, made as PyUnicode_FromFormat makes it. */
PyObject *core_raise_range_format(struct core_state *state, const char *format, ...);

/*
 * Says on the exception that is set which request of a post it is about, and how many went before it; an unknown
 * number (-1) becomes None.
 */
void core_error_set_index(struct core_state *state, Py_ssize_t index, Py_ssize_t posted);

/* Reports a handle whose destruction failed where nobody can be told, and clears the exception that was made. */
void core_unraisable(const char *operation, int err, const char *what);

#endif
