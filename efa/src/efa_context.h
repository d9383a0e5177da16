/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.Context: an open device, and what efadv_query_device said of it. */
#ifndef EFA_EFA_CONTEXT_H
#define EFA_EFA_CONTEXT_H

#include "context.h"
#include "efadv.h"

struct efa_context {
    struct core_context core;
    enum { EFA_UNASKED, EFA_YES, EFA_NO } is_efa;
    struct dv_device_attr attr;
};

/*
 * Asks whether the device is EFA's, the first time. `ret_attr` is NULL where it is not. Returns 0, or -1 with an
 * exception for `method` of a context that is closed, or for a query that failed. Gives up the GIL.
 */
int efa_context_ask(struct efa_context *self, const char *method, const struct dv_device_attr **ret_attr);

/*
 * Raises UnsupportedError for `what` of a device that has it not as far as the library knows, which needs rdma-core
 * `since` to know: says which of the two it is, where that can be told. Always returns -1.
 */
int efa_raise_unavailable(const struct efa_context *self, const char *verb, const char *what, unsigned since);

/* The context of a handle of this package. */
static inline struct efa_context *efa_context_of(struct core_object *object)
{
    return (struct efa_context *)core_context_of(object);
}

#endif
