/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.CQ and efa.CQEx, which have a base class in common: either may be a queue pair's. */
#ifndef EFA_EFA_CQ_H
#define EFA_EFA_CQ_H

#include "cq.h"
#include "efa_wc.h"
#include "efadv.h"
#include "spill.h"

struct efa_cq {
    struct core_cq core;
    struct efa_spill spill; /* comes before what the library has */
};

struct efa_cq_ex {
    struct efa_cq base;
    struct dv_cq *dv; /* the library's, behind the queue */
    uint64_t wc_flags; /* IBV_WC_EX_WITH_ bits: what may be read */
    bool sgid;
    bool unsolicited;
    bool tells_more; /* either of them: `extra` is in use */
    bool unreadable; /* its ring lies where this process does not see it */
    struct efa_wc_extra extra[CORE_CQ_ROOM]; /* beside `ready` */
};

/* A source's reap, of the library alone. */
typedef int (*efa_reap)(struct core_cq *self, uint32_t at, uint32_t most, uint32_t *ret_found);

/*
 * Takes everything off the library's queue, before a queue pair is destroyed. `reap` has to tell qp_num, and what it
 * tells beside `ready` stands in `extra` from CORE_CQ_LEAVE_AT on, or nowhere (NULL).
 */
void efa_cq_spill(struct efa_cq *self, efa_reap reap, const struct efa_wc_extra *extra);

/* tp_dealloc of both. */
void efa_cq_dealloc(PyObject *self);

/* query_efa(), the same for both. */
PyObject *efa_cq_query(PyObject *self, PyObject *ignored);

#define EFA_CQ_QUERY_METHOD                                                                                            \
    {"query_efa", efa_cq_query, METH_NOARGS,                                                                           \
     "query_efa($self)\n--\n\nReturn the ring behind the queue, as a CQAttr. efadv_query_cq."}

#endif
