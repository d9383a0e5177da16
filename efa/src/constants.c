/* SPDX-License-Identifier: BSD-3-Clause */
/* The constants of this package, those of verbs.h checked against the header. See efa_constants.h. */
#include "efa_constants.h"

#include <infiniband/verbs.h>

#define CHECK(name, value) _Static_assert((int)(name) == (value), #name);
EFA_VERBS_CONSTANTS(CHECK)
#undef CHECK

#define ROW(name, value) {#name, value},
const struct core_constant efa_constants[] = {EFA_VERBS_CONSTANTS(ROW) EFA_CONSTANTS(ROW)};
#undef ROW
const size_t efa_constant_count = sizeof efa_constants / sizeof *efa_constants;
