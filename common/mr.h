/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MR: a registered memory region. Holds the object that owns the memory, where it was told of one, for as long as the
 * registration lives; so it can be part of a cycle. The collector clears the objects of a cycle in any order, the owner
 * perhaps first, and what that held would be freed while the device may write there. So the registration ends in the
 * finalizer, which comes before anything is cleared; where it cannot be ended, the owner with all that it holds is kept
 * for good. What a __del__ brings back from such a cycle finds the region closed.
 */
#ifndef CORE_MR_H
#define CORE_MR_H

#include <infiniband/verbs.h>

#include "object.h"

struct core_mr {
    struct core_object base;
    /*
     * What is kept as long as the registration: the owner of the memory, and an export that keeps the memory in its
     * place, or None for each. NULL where there is neither, or when closed. A tuple, because regions that own one another
     * may be a long chain, and the end of a tuple does not recurse without end.
     */
    PyObject *kept;
    uint64_t addr; /* where requests find it: for a dma-buf the iova, not what the library keeps */
    uint64_t length;
};

static inline struct ibv_mr *core_mr_handle(const struct core_mr *self)
{
    return self->base.handle;
}

struct cause;

/* What a package knows of why its devices refuse a registration with that access, added to `cause`. Without the GIL. */
void core_mr_explain(struct cause *cause, struct ibv_context *context, uint32_t access, int err);

/* A range of a region that was asked for by offset and length: whether it lies inside. Raises RangeError if not. */
int core_mr_check_range(struct core_state *state, uint64_t region, uint64_t offset, uint64_t length);

/* PD.reg_mr and PD.reg_dmabuf_mr */
PyObject *core_pd_method_reg_mr(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_pd_method_reg_dmabuf_mr(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

#define CORE_REG_MR_METHODS                                                                                            \
    CORE_METHOD("reg_mr", core_pd_method_reg_mr,                                                                       \
                "reg_mr($self, addr, length, access, owner=None, hold=None)\n--\n\n"                                   \
                "Register memory at an address and return its MR, which keeps owner and hold. ibv_reg_mr."),           \
        CORE_METHOD("reg_dmabuf_mr", core_pd_method_reg_dmabuf_mr,                                                     \
                    "reg_dmabuf_mr($self, offset, length, iova, fd, access, owner=None)\n--\n\n"                       \
                    "Register a range of a dma-buf and return its MR. ibv_reg_dmabuf_mr.")

/* ---- rows and slots for the module's class ---------------------------------------------------------------------- */

PyObject *core_mr_method_sge(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_mr_method_keep(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_mr_get_addr(PyObject *self, void *ignored);
PyObject *core_mr_get_length(PyObject *self, void *ignored);
PyObject *core_mr_get_lkey(PyObject *self, void *ignored);
PyObject *core_mr_get_rkey(PyObject *self, void *ignored);
PyObject *core_mr_get_handle(PyObject *self, void *ignored);
PyObject *core_mr_get_owner(PyObject *self, void *ignored);
int core_mr_traverse(PyObject *self, visitproc visit, void *arg);
void core_mr_finalize(PyObject *self);
int core_mr_clear(PyObject *self);
PyObject *core_mr_repr(PyObject *self);
PyObject *core_mr_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs);

#define CORE_MR_METHODS                                                                                                \
    CORE_METHOD("sge", core_mr_method_sge,                                                                             \
                "sge($self, length=None, offset=0)\n--\n\n"                                                            \
                "Return an SGE for a part of the region; without a length, to its end."),                              \
        CORE_METHOD("_keep", core_mr_method_keep,                                                                      \
                    "_keep($self, owner, hold)\n--\n\n"                                                               \
                    "Keep owner and hold as reg_mr() does, for a helper whose PD could not be told; False where it was.")

#define CORE_MR_GETSET                                                                                                 \
    {"addr", core_mr_get_addr, NULL, "The address that requests name the region's start by.", NULL},                   \
        {"length", core_mr_get_length, NULL, "The length in bytes.", NULL},                                            \
        {"lkey", core_mr_get_lkey, NULL, "The key for local access.", NULL},                                           \
        {"rkey", core_mr_get_rkey, NULL, "The key that a peer needs.", NULL},                                          \
        {"handle", core_mr_get_handle, NULL, "The kernel's number for the region.", NULL},                             \
        {"owner", core_mr_get_owner, NULL, "The object that owns the memory; None if unknown, or when closed.", NULL}, \
        {"pd", core_object_get_parent, NULL, "The PD it belongs to.", NULL}

#endif
