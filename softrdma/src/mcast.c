/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups: which QPs listen to which. */
#include <time.h>

#include "context.h"
#include "fabric/peer.h"
#include "lock.h"
#include "object.h"

static int find(struct region *r, const uint8_t *gid, uint32_t qp)
{
    for (uint32_t i = 0; i < MAX_GROUPS; i++) {
        if (r->group[i].used && r->group[i].qp == qp && memcmp(r->group[i].gid, gid, 16) == 0)
            return (int)i;
    }
    return -1;
}

int mcast_next(struct region *r, const uint8_t *gid, int after, uint32_t *ret_qp)
{
    if (!atomic_load(&r->ngroups))
        return -1;
    for (int i = after + 1; i < MAX_GROUPS; i++) {
        if (__atomic_load_n(&r->group[i].used, __ATOMIC_ACQUIRE) && memcmp(r->group[i].gid, gid, 16) == 0) {
            *ret_qp = r->group[i].qp;
            return i;
        }
    }
    return -1;
}

static int add(struct region *r, const uint8_t *gid, uint32_t qp)
{
    if (find(r, gid, qp) >= 0)
        return 0;
    for (uint32_t i = 0; i < MAX_GROUPS; i++) {
        struct group *g = &r->group[i];

        if (g->used)
            continue;
        g->qp = qp;
        g->device = r->qp[qp].device;
        memcpy(g->gid, gid, 16);
        __atomic_store_n(&g->used, 1, __ATOMIC_RELEASE);
        r->qp[qp].groups++;
        atomic_fetch_add(&r->ngroups, 1);
        return 0;
    }
    return ENOMEM;
}

static void drop(struct region *r, int i)
{
    __atomic_store_n(&r->group[i].used, 0, __ATOMIC_RELEASE);
    r->qp[r->group[i].qp].groups--;
    atomic_fetch_sub(&r->ngroups, 1);
}

void mcast_forget_qp(struct region *r, uint32_t qp)
{
    for (int i = 0; r->qp[qp].groups && i < MAX_GROUPS; i++) {
        if (r->group[i].used && r->group[i].qp == qp)
            drop(r, i);
    }
}

int mcast_attach(struct call *c)
{
    const struct ib_uverbs_attach_mcast *in = c->in;
    struct region *r = c->r;
    uint32_t qp;
    int err = EINVAL;

    if (!c->device->model->has_multicast)
        return EOPNOTSUPP;
    lock_take(&r->lock);
    qp = handle_find(r, c->context, in->qp_handle, OBJ_QP);
    if (qp != NONE && r->qp[qp].type == IB_UVERBS_QPT_UD && gid_is_multicast(in->gid))
        err = add(r, in->gid, qp);
    lock_give(&r->lock);
    if (!err)
        nanosleep(&(struct timespec){0, PEER_SCAN_NS}, NULL);
    return err;
}

int mcast_detach(struct call *c)
{
    const struct ib_uverbs_attach_mcast *in = c->in; /* the two commands have one layout */
    struct region *r = c->r;
    uint32_t qp;
    int i = -1, err = EINVAL;

    if (!c->device->model->has_multicast)
        return EOPNOTSUPP;
    lock_take(&r->lock);
    qp = handle_find(r, c->context, in->qp_handle, OBJ_QP);
    if (qp != NONE && r->qp[qp].type == IB_UVERBS_QPT_UD)
        i = find(r, in->gid, qp);
    if (i >= 0) {
        drop(r, i);
        err = 0;
    }
    lock_give(&r->lock);
    return err;
}
