/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining and leaving. RoCE has nobody to ask: joining succeeds at once. */
#include "group.h"

#include "address.h"
#include "attr.h"
#include "datagram.h"
#include "event.h"
#include "id.h"
#include "iwarp.h"

#define NOT_SUPPORTED 524 /* the kernel's ENOTSUPP, which it lets out */

static uint32_t take(struct region *r)
{
    for (uint32_t g = 0; g < CM_GROUPS; g++) {
        if (!r->cm.group[g].used)
            return g;
    }
    return NONE;
}

int cm_group_join(struct region *r, struct cm_id *id, uint64_t uid, const union cm_addr *addr, uint32_t *ret_group)
{
    uint32_t g = take(r);
    struct rdma_ucm_ud_param *u;
    struct cm_event *e;

    if (!cm_addr_size(addr) || id->device < 0 || (id->state != CM_BOUND && id->state != CM_ADDR_RESOLVED) ||
        id->qp_type != IB_UVERBS_QPT_UD)
        return EINVAL;
    if (cm_is_iwarp(id))
        return ENOSYS;
    if (addr->sa.sa_family != AF_INET)
        return NOT_SUPPORTED;
    e = g == NONE ? NULL : cm_event_new(r, id, EVENT_MULTICAST_JOIN, 0);
    if (!e)
        return ENOMEM;
    r->cm.group[g] = (struct cm_group){.used = 1, .id = cm_id_number(r, id), .uid = uid};
    e->group = g;
    e->resp.uid = uid;
    e->resp.id = g;
    u = &e->resp.param.ud;
    u->qp_num = 0xffffff;
    u->qkey = CM_QKEY;
    cm_attr_path(r, id, &u->ah_attr);
    u->ah_attr.grh.flow_label = 0;
    memset(u->ah_attr.grh.dgid, 0, sizeof(u->ah_attr.grh.dgid));
    if (!cm_addr_is_zero(addr))
        cm_addr_gid(addr, u->ah_attr.grh.dgid);
    *ret_group = g;
    cm_event_post(r, e);
    return 0;
}

int cm_group_leave(struct region *r, uint32_t file, uint32_t group, uint32_t *ret_reported)
{
    struct cm_group *g = &r->cm.group[group % CM_GROUPS];
    struct cm_id *id;

    if (group >= CM_GROUPS || !g->used)
        return ENOENT;
    id = &r->cm.id[g->id];
    if (id->file != file)
        return EINVAL;
    g->used = 0;
    cm_event_drop(r, id, group, NULL, NULL);
    *ret_reported = g->reported;
    return 0;
}
