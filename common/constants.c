/* SPDX-License-Identifier: BSD-3-Clause */
/* Constants as Python sees them, checked against the header. See constants.h. */
#include "constants.h"

#include <infiniband/verbs.h>

#define CHECK(name, value) _Static_assert((int)(name) == (value), #name);
#define SKIP(name, value)
CORE_CONSTANTS(CHECK, SKIP)
#undef SKIP
#undef CHECK

#ifdef HAVE_IBV_ACCESS_FLUSH_GLOBAL
_Static_assert(IBV_ACCESS_FLUSH_GLOBAL == 1 << 8, "IBV_ACCESS_FLUSH_GLOBAL");
#endif
#ifdef HAVE_IBV_ACCESS_FLUSH_PERSISTENT
_Static_assert(IBV_ACCESS_FLUSH_PERSISTENT == 1 << 9, "IBV_ACCESS_FLUSH_PERSISTENT");
#endif

int core_add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
#define ROW(name, value) {#name, value},
        CORE_CONSTANTS(ROW, ROW)
#undef ROW
    };

    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
            return -1;
    return 0;
}
