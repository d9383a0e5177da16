/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.VerbsError */
#include "error.h"

#include "classes.h"

static PyType_Slot error_slots[] = {
    {Py_tp_doc, "VerbsError" CORE_VERBS_ERROR_DOC},
    CORE_VERBS_ERROR_SLOTS,
    {0, NULL},
};

const PyType_Spec ibverbs_error_spec = {
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = error_slots,
};
