/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only place that includes Python.h.
 *
 * The floor is the Limited API of CPython 3.9: one build serves 3.9 and everything newer. 3.9 is the first version
 * with module state for classes (PyType_FromModuleAndSpec), which this core rests on.
 */
#ifndef CORE_PYAPI_H
#define CORE_PYAPI_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

/*
 * The stable ABI names this flag from 3.10 on; its value and the calling convention are those of 3.8 and everything
 * since. tests/isolated/fast_calls.py calls such methods, on every interpreter at hand.
 */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

/* A method that takes its arguments as an array, with the names of those given by keyword at its end. */
typedef PyObject *(*core_fastcall)(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* The row of a method table for such a method; `doc` begins with the signature line. */
#define CORE_METHOD(name, function, doc)                                                                               \
    {name, (PyCFunction)(void (*)(void))(core_fastcall)(function), METH_FASTCALL | METH_KEYWORDS, doc}

#endif
