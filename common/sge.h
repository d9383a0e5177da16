/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SGE: one piece of memory of a request: the C structure, and the region that it was cut from, which it keeps alive.
 */
#ifndef CORE_SGE_H
#define CORE_SGE_H

#include <infiniband/verbs.h>

#include "mr.h"
#include "state.h"

struct core_sge {
    PyObject_HEAD
    struct ibv_sge sge;
    PyObject *owner;    /* what it was made from: an MR or what serves as one; NULL for a plain address */
    struct core_mr *mr; /* the region behind the owner, held by it or by us; NULL where there is none of ours */
};

extern const PyType_Spec core_sge_spec;

/* An SGE for a range of a region that has been checked. */
PyObject *core_sge_new(struct core_state *state, struct core_mr *mr, uint64_t addr, uint32_t length);

/*
 * A request's list, as the request keeps it: a list; or, until somebody asks for that, the only SGE of it; or NULL, for
 * none. Nearly all requests have one entry, and making and freeing a list for it costs more than posting it.
 */

/* Fills the slot from any iterable of SGEs (None: none), which is copied, or with a list that is taken as it is. 0 or -1. */
int core_sg_list_copy(struct core_state *state, PyObject **slot, PyObject *value);
int core_sg_list_set(PyObject **slot, PyObject *value);

/* The list for the request's attribute, which the slot then holds: a new reference. */
PyObject *core_sg_list_get(PyObject **slot);

/* Whether there is one, kept without a list. Asked this way, since a program may change the class of an SGE. */
static inline bool core_sg_list_is_one(PyObject *kept)
{
    return !PyList_CheckExact(kept) && !PyList_Check(kept);
}

/* How many entries there are. */
static inline Py_ssize_t core_sg_list_size(struct core_state *state, PyObject *kept)
{
    if (!kept)
        return 0;
    return Py_TYPE(kept) == state->types[CORE_TYPE_SGE] || core_sg_list_is_one(kept) ? 1 : PyList_Size(kept);
}

/*
 * Copies the entries of a request's list to `sge`, which has room for the list's size. Runs no code of the caller's.
 * Returns how many; -1 with an exception for an entry that is no SGE or whose region is closed (EBADF), which says
 * for which `method` of `self` and in which request.
 */
Py_ssize_t core_sge_copy_any(struct core_object *self, PyObject *kept, struct ibv_sge *sge, const char *method,
                             Py_ssize_t request);

/* The same; here the request that has one entry and no list costs next to nothing. */
static inline Py_ssize_t core_sge_copy_list(struct core_object *self, PyObject *kept, struct ibv_sge *sge,
                                            const char *method, Py_ssize_t request)
{
    const struct core_sge *one = (struct core_sge *)kept;

    if (!kept)
        return 0;
    if (Py_TYPE(kept) != self->state->types[CORE_TYPE_SGE] || (one->mr && one->mr->base.open_in != core_generation))
        return core_sge_copy_any(self, kept, sge, method, request);
    *sge = one->sge;
    return 1;
}

#endif
