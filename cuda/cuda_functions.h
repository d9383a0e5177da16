/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver as the Python of `.cuda` calls it: functions, all by position, in an inner module `_cuda` of the extension.
 * They give the GIL up while the driver works. None raises for what the driver said: each returns (operation, code,
 * value), and the Python side raises, in one place.
 */
#ifndef CUDA_FUNCTIONS_H
#define CUDA_FUNCTIONS_H

#include "pyapi.h"

/* Adds the inner module. Returns 0, or -1 with an exception. */
int cuda_add_functions(PyObject *module);

#endif
