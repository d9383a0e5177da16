/* SPDX-License-Identifier: BSD-3-Clause */
/* CompCntr: a counter that the device keeps of what completes on queue pairs. */
#ifndef EFA_COMP_CNTR_H
#define EFA_COMP_CNTR_H

#include "efadv.h"
#include "object.h"

/*
 * Has a queue pair's completions counted: attach_comp_cntr(cntr, ops) of `qp`, whose list of counters is kept in `kept`
 * and keeps them alive. Returns None, or NULL with an exception.
 */
PyObject *efa_comp_cntr_attach(struct core_object *qp, PyObject **kept, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames);

#endif
