/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.CQ and efa.CQEx, which have a base class in common: either may be a queue pair's. */
#ifndef EFA_EFA_CQ_H
#define EFA_EFA_CQ_H

#include "cq.h"
#include "efa_wc.h"
#include "efadv.h"

struct efa_cq_ex {
    struct core_cq core;
    struct dv_cq *dv; /* the library's, behind the queue */
    uint64_t wc_flags; /* IBV_WC_EX_WITH_ bits: what may be read */
    bool sgid;
    bool unsolicited;
    bool tells_more; /* either of them: `extra` is in use */
    bool unreadable; /* its ring lies where this process does not see it */
    struct efa_wc_extra extra[CORE_CQ_ROOM]; /* beside `ready` */
};

/* query_efa(), the same for both. */
PyObject *efa_cq_query(PyObject *self, PyObject *ignored);

#define EFA_CQ_QUERY_METHOD                                                                                            \
    {"query_efa", efa_cq_query, METH_NOARGS,                                                                           \
     "query_efa($self)\n--\n\nReturn the ring behind the queue, as a CQAttr. efadv_query_cq."}

#endif
