/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Context: an open device. Keeps its asynchronous events, and a map from the library's pointers to the live Python
 * objects of its CQs, QPs and SRQs (the library's own back pointer is not set by every way of making a CQ), and from
 * QP numbers to QPs. The map holds no references and is touched with the GIL only.
 */
#ifndef CORE_CONTEXT_H
#define CORE_CONTEXT_H

#include <infiniband/verbs.h>

#include "args.h"
#include "object.h"
#include "table.h"
#include "wait.h"

struct core_context {
    struct core_object base;
    struct core_events async;
    struct table objects; /* by the library's pointer; QPs also by their number */
    char name[IBV_SYSFS_NAME_MAX];
};

/* An object without a device. */
PyObject *core_context_new(struct core_state *state, PyObject *module);

/* Gives it one; on failure closes the device. Returns 0 or -1. */
int core_context_attach(PyObject *self, struct ibv_context *context);

static inline struct ibv_context *core_context_handle(const struct core_context *self)
{
    return self->base.handle;
}

/* The context that any handle belongs to. */
struct core_context *core_context_of(struct core_object *object);

/* Keys of the map. No pointer of a process has its top bit set. */
static inline uint64_t core_pointer_key(const void *pointer)
{
    return (uintptr_t)pointer;
}

static inline uint64_t core_qp_num_key(uint32_t qp_num)
{
    return UINT64_C(1) << 63 | qp_num;
}

/*
 * Keeps room in the map for `keys` more entries; before the verb, so that nothing can fail after it. Then each is put,
 * or given up. Returns 0, or -1 with MemoryError.
 */
int core_context_reserve(struct core_context *self, int keys);
void core_context_unreserve(struct core_context *self, int keys);
void core_context_put(struct core_context *self, uint64_t key, struct core_object *object);

/* Takes an object out from under a key, unless another has come in its place. */
void core_context_remove(struct core_context *self, uint64_t key, struct core_object *object);

/* The open object under a key, borrowed; NULL if it is not ours or is being closed. */
struct core_object *core_context_find(const struct core_context *self, uint64_t key);

/* The device's limits, for messages; false where it does not answer. Gives up the GIL. */
bool core_context_limits(struct core_context *self, struct ibv_device_attr *ret_attr);

/*
 * query_port(port_num), query_gid(port_num, index) and query_gid_table(port). Which of them must be given is the
 * package's to say, in `params`; those that were not are 1 and 0.
 */
PyObject *core_context_query_port(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                                  const struct core_params *params);
PyObject *core_context_query_gid(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                                 const struct core_params *params);
PyObject *core_context_query_gid_table(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                                       const struct core_params *params);

/* ---- rows for the module's class ------------------------------------------------------------------------------- */

PyObject *core_context_method_query_device(PyObject *self, PyObject *ignored);
PyObject *core_context_method_get_async_event(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_context_method_ack_async_event(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_context_get_name(PyObject *self, void *ignored);
PyObject *core_context_get_async_fd(PyObject *self, void *ignored);
PyObject *core_context_get_num_comp_vectors(PyObject *self, void *ignored);
PyObject *core_context_repr(PyObject *self);
PyObject *core_context_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs);

#define CORE_CONTEXT_METHODS                                                                                           \
    {"query_device", core_context_method_query_device, METH_NOARGS,                                                    \
     "query_device($self)\n--\n\nReturn the device's limits and identity as a DeviceAttr. ibv_query_device."},         \
        CORE_METHOD("get_async_event", core_context_method_get_async_event,                                            \
                    "get_async_event($self, timeout=None)\n--\n\n"                                                     \
                    "Wait for an asynchronous event and return it; None when the time is over. ibv_get_async_event."), \
        CORE_METHOD("ack_async_event", core_context_method_ack_async_event,                                            \
                    "ack_async_event($self, ev)\n--\n\n"                                                               \
                    "Say that an event was dealt with; the library was told when it was read.")

#define CORE_CONTEXT_GETSET                                                                                            \
    {"name", core_context_get_name, NULL, "The device's name.", NULL},                                                 \
        {"async_fd", core_context_get_async_fd, NULL,                                                                  \
         "The descriptor of asynchronous events: readable while one is there; non-blocking.", NULL},                   \
        {"num_comp_vectors", core_context_get_num_comp_vectors, NULL, "How many completion vectors there are.", NULL}

#endif
