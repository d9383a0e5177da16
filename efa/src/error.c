/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.EfaError */
#include "error.h"

#include "classes.h"

static PyType_Slot error_slots[] = {
    {Py_tp_doc, "EfaError" CORE_VERBS_ERROR_DOC},
    CORE_VERBS_ERROR_SLOTS,
    {0, NULL},
};

const PyType_Spec efa_error_spec = {
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = error_slots,
};
