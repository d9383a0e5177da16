/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs objects: their methods for the front, and what destroys each. Generic rules live in the object's
 * own file (what may be destroyed while what exists, keys, handles, event counts); what a model adds is in
 * its hooks. */
#ifndef SOFTRDMA_OBJECT_H
#define SOFTRDMA_OBJECT_H

#include "fabric/copy.h"
#include "region.h"
#include "uverbs.h"

/* Frees an object and drops its references; the caller holds region.lock and has checked that nothing needs
 * it. */
void object_free(struct region *r, enum object_type type, uint32_t index);
void pd_free(struct region *r, uint32_t index);
void mr_free(struct region *r, uint32_t index);
void mw_free(struct region *r, uint32_t index);
void cq_free(struct region *r, uint32_t index);
void qp_free(struct region *r, uint32_t index);
void srq_free(struct region *r, uint32_t index);
void ah_free(struct region *r, uint32_t index);
void counter_free(struct region *r, uint32_t index);

/* Waits until no data path uses what this PD's keys name any more: after a key was taken away, before its
 * memory goes. */
void pd_quiesce(struct region *r, uint32_t pd);

/* Finds a PD by its handle; NONE if there is none. */
uint32_t pd_find(const struct call *c, uint64_t handle);

int pd_alloc(struct call *c);
int pd_destroy(struct call *c);

int mr_reg(struct call *c);
int mr_reg_dmabuf(struct call *c);
int mr_destroy(struct call *c);
/* The region a key names for this PD, or NULL; shift: device_model.key_shift. */
struct mr *mr_find(struct region *r, uint32_t pd, uint32_t key, uint32_t shift);

static inline bool mr_covers(const struct mr *m, uint64_t addr, uint64_t length)
{
    return addr >= m->iova && length <= m->length && addr - m->iova <= m->length - length;
}

/* A part that it covers, as the thread that asks reaches it. */
struct segment mr_segment(struct region *r, const struct mr *m, uint64_t addr, uint64_t length);

int mw_alloc(struct call *c);
int mw_destroy(struct call *c);
/* Is it a window's key? Windows have the indices above those of regions. */
#define MW_FIRST_INDEX 0x80001u
static inline bool mw_is_key(uint32_t key)
{
    return key >> 8 >= MW_FIRST_INDEX;
}
/* The caller holds region.mw_lock. */
struct mw *mw_find(struct region *r, uint32_t pd, uint32_t key);
void mw_unbind(struct region *r, struct mw *w);
/* Windows of type 2 live no longer than the QP they were bound through. */
void mw_unbind_qp(struct region *r, uint32_t qp);

int channel_create(struct call *c);
int async_event_alloc(struct call *c);

int cq_create(struct call *c);
/* Does the caller bring the memory of the queue? */
bool cq_has_memory(const struct call *c);
int cq_resize(struct call *c);
int cq_req_notify(struct call *c);
int cq_destroy(struct call *c);

int qp_create(struct call *c);
int qp_modify(struct call *c);
int qp_query(struct call *c);
int qp_destroy(struct call *c);
/* Takes the QP's two locks in their order, and gives them back. */
void qp_lock_both(struct qp *qp);
void qp_unlock_both(struct qp *qp);
/* Is there a living process that made it or holds its context? Messages to one that has none are lost. */
bool qp_is_served(struct region *r, const struct qp *qp);
/* Is it in a state in which messages reach it? */
static inline bool qp_listens(const struct qp *qp)
{
    uint32_t state = atomic_load_explicit(&qp->state, memory_order_relaxed);

    return state == QPS_RTR || state == QPS_RTS || state == QPS_SQD;
}

int srq_create(struct call *c);
int srq_modify(struct call *c);
int srq_query(struct call *c);
int srq_destroy(struct call *c);

int ah_create(struct call *c);
int ah_destroy(struct call *c);

int mcast_attach(struct call *c);
int mcast_detach(struct call *c);
/* The QPs of a device that are in a group, one after another: pass -1 first; -1 when there are no more. */
int mcast_next(struct region *r, const uint8_t *gid, int after, uint32_t *ret_qp);
void mcast_forget_qp(struct region *r, uint32_t qp);

#endif
