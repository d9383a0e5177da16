/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys to memory: what a region or a window lets a request touch. */
#include "../lock.h"
#include "../object.h"
#include "rxe.h"

int rxe_local_segments(struct region *r, uint32_t pd, const struct rxe_sge *sge, uint32_t n, bool writable,
                       uint64_t want, struct segment *out, uint64_t *ret_total)
{
    uint64_t total = 0;
    int count = 0;

    for (uint32_t i = 0; i < n && total < want; i++) {
        uint64_t length = min_u64(sge[i].length, want - total);
        struct mr *m;

        if (!length)
            continue;
        m = mr_find(r, pd, sge[i].lkey, RXE_KEY_SHIFT);
        if (!m || (writable && !(m->access & IB_UVERBS_ACCESS_LOCAL_WRITE)) ||
            !mr_covers(m, sge[i].addr, length))
            return -1;
        out[count++] = mr_segment(r, m, sge[i].addr, length);
        total += length;
    }
    *ret_total = total;
    return count;
}

/* A window's range is its own, not its region's: the kernel's rxe looks at the region only. */
static struct mr *through_window(struct region *r, uint32_t qp, uint32_t key, uint64_t *addr, uint64_t length,
                                 uint32_t access)
{
    struct mr *m = NULL;
    struct mw *w;

    lock_take(&r->mw_lock);
    w = mw_find(r, r->qp[qp].pd, key);
    if (w && w->bound && w->mr != NONE && (w->access & access) == access && (w->type == 1 || w->qp == qp)) {
        if (w->access & IB_UVERBS_ACCESS_ZERO_BASED)
            *addr += w->addr;
        if (*addr >= w->addr && length <= w->length && *addr - w->addr <= w->length - length)
            m = &r->mr[w->mr];
    }
    lock_give(&r->mw_lock);
    return m;
}

bool rxe_remote_segment(struct region *r, uint32_t qp, uint32_t key, uint64_t addr, uint64_t length,
                        uint32_t access, bool whole_region, struct segment *out)
{
    struct mr *m;

    if (mw_is_key(key)) {
        m = through_window(r, qp, key, &addr, length, access);
    } else {
        m = mr_find(r, r->qp[qp].pd, key, RXE_KEY_SHIFT);
        if (m && (m->access & access) != access)
            m = NULL;
    }
    if (!m)
        return false;
    if (whole_region)
        return true;
    if (!mr_covers(m, addr, length))
        return false;
    *out = mr_segment(r, m, addr, length);
    return true;
}

static bool may_bind(const struct mw *w, const struct mr *m, const struct rxe_send_wr *wr)
{
    uint64_t addr = wr->wr.mw.addr, length = wr->wr.mw.length;
    uint32_t access = wr->wr.mw.access;

    if (w->type == 1 && (access & IB_UVERBS_ACCESS_ZERO_BASED))
        return false;
    if (w->type == 2 && (w->bound || !m))
        return false;
    if (!m)
        return true; /* type 1, length 0: takes the binding away */
    if (!(m->access & IB_UVERBS_ACCESS_MW_BIND))
        return false;
    if ((access & (IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC)) &&
        !(m->access & IB_UVERBS_ACCESS_LOCAL_WRITE))
        return false;
    return mr_covers(m, addr, length);
}

bool rxe_bind(struct region *r, uint32_t qp, const struct rxe_send_wr *wr)
{
    struct mr *m = NULL;
    struct mw *w;
    bool ok;

    lock_take(&r->mw_lock);
    w = mw_find(r, r->qp[qp].pd, wr->wr.mw.mw_rkey);
    if (wr->wr.mw.length)
        m = mr_find(r, r->qp[qp].pd, wr->wr.mw.mr_lkey, RXE_KEY_SHIFT);
    ok = w && (m || !wr->wr.mw.length) && may_bind(w, m, wr);
    if (ok) {
        mw_unbind(r, w);
        w->key = (w->key & ~0xffu) | (wr->wr.mw.rkey & 0xff);
        w->access = wr->wr.mw.access;
        w->addr = wr->wr.mw.addr;
        w->length = wr->wr.mw.length;
        w->bound = 1;
        if (m) {
            w->mr = (uint32_t)(m - r->mr);
            m->windows++;
        }
        if (w->type == 2)
            w->qp = qp;
    }
    lock_give(&r->mw_lock);
    return ok;
}

/* Regions that user space registered cannot be invalidated, windows of type 1 neither. */
bool rxe_invalidate(struct region *r, uint32_t pd, uint32_t key)
{
    struct mw *w;
    bool ok;

    lock_take(&r->mw_lock);
    w = mw_find(r, pd, key);
    ok = w && w->type == 2;
    if (ok)
        mw_unbind(r, w);
    lock_give(&r->mw_lock);
    return ok;
}
