/* SPDX-License-Identifier: BSD-3-Clause */
/* Constants as Python sees them, checked against the header. See constants.h. */
#include "constants.h"

#include <infiniband/verbs.h>

#define CHECK(name, value) _Static_assert((int)(name) == (value), #name);
#define SKIP(name, value)
CORE_CONSTANTS(CHECK, SKIP)
CORE_QP_TYPES(CHECK)
#undef SKIP
#undef CHECK

#ifdef HAVE_IBV_ACCESS_FLUSH_GLOBAL
_Static_assert(IBV_ACCESS_FLUSH_GLOBAL == 1 << 8, "IBV_ACCESS_FLUSH_GLOBAL");
#endif
#ifdef HAVE_IBV_ACCESS_FLUSH_PERSISTENT
_Static_assert(IBV_ACCESS_FLUSH_PERSISTENT == 1 << 9, "IBV_ACCESS_FLUSH_PERSISTENT");
#endif

const struct core_constant core_verbs_constants[] = {
#define ROW(name, value) {#name, value},
    CORE_CONSTANTS(ROW, ROW)
#undef ROW
};
const size_t core_verbs_constant_count = sizeof core_verbs_constants / sizeof *core_verbs_constants;

int core_add_constants(PyObject *module, const struct core_constant *constants, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
            return -1;
    return 0;
}
