/* SPDX-License-Identifier: BSD-3-Clause */
/* Address resolution. Whoever exists is a neighbour and known; the rest of a NIC's network answers nothing, and what is
 * on no network has no route. */
#include "resolve.h"

#include "../device.h"
#include "../lock.h"
#include "../nic.h"
#include "address.h"
#include "event.h"
#include "id.h"
#include "port.h"
#include "timer.h"

static bool is_multicast(const union cm_addr *a)
{
    uint8_t gid[16];

    cm_addr_gid(a, gid);
    return gid_is_multicast(gid);
}

/* The first NIC that serves, whose networks carry what is for this host itself. */
static int first_device(struct region *r)
{
    for (int d = 0; d < device_count(); d++) {
        if (device_at(d)->model->has_cm && !nic_is_removed(r, (uint32_t)d))
            return d;
    }
    return -1;
}

static int succeed(struct region *r, struct cm_id *id, int device)
{
    if (device < 0 || nic_is_removed(r, (uint32_t)device)) {
        cm_event_say(r, id, EVENT_ADDR_ERROR, -ENODEV);
        return 0;
    }
    id->device = device;
    id->state = CM_ADDR_RESOLVED;
    cm_event_say(r, id, EVENT_ADDR_RESOLVED, 0);
    return 0;
}

static int wait_in_vain(struct region *r, struct cm_id *id, uint32_t timeout_ms)
{
    id->state = CM_ADDR_QUERY;
    cm_timer_set_exactly(r, id, TIMER_ADDR, timeout_ms);
    return 0;
}

/* The host's own addresses lead to themselves. */
static int resolve_self(struct region *r, struct cm_id *id)
{
    if (cm_addr_is_zero(&id->src))
        cm_addr_set_loopback(&id->src);
    return succeed(r, id, id->device >= 0 ? id->device : first_device(r));
}

/* The NIC's own address becomes the source. A neighbour is reached from any NIC of its network; the kernel's routes
 * send the packets to an address of this host through the NIC that has it. */
static int resolve_from_anywhere(struct region *r, struct cm_id *id, uint32_t timeout_ms)
{
    int device = cm_addr_device(r, &id->dst), network = cm_addr_network(r, &id->dst);
    uint8_t gid[16];

    if (device >= 0) {
        cm_addr_gid(&id->dst, gid);
        cm_addr_set_gid(&id->src, gid);
        if (id->src.sa.sa_family == AF_INET6)
            id->src.in6.sin6_scope_id = id->dst.in6.sin6_scope_id;
        return succeed(r, id, device);
    }
    if (network < 0 || is_multicast(&id->dst))
        return ENETUNREACH;
    if (!cm_addr_is_broadcast(&id->dst))
        return wait_in_vain(r, id, timeout_ms);
    cm_addr_wire_gid(r, &(union cm_addr){.in = {.sin_family = AF_INET}}, network, gid);
    cm_addr_set_gid(&id->src, gid);
    return succeed(r, id, network);
}

static bool is_reached(struct region *r, const struct cm_id *id)
{
    if (nic_link_is_down(r, (uint32_t)id->device))
        return false;
    return cm_addr_device(r, &id->dst) >= 0 || is_multicast(&id->dst) ||
           (cm_addr_is_broadcast(&id->dst) && cm_addr_network(r, &id->dst) >= 0);
}

static int resolve(struct region *r, struct cm_id *id, const union cm_addr *dst, uint32_t timeout_ms)
{
    if (id->state == CM_REMOVED)
        return ENXIO;
    if (id->state != CM_BOUND)
        return EINVAL;
    id->dst = *dst;
    if (id->src.sa.sa_family != dst->sa.sa_family)
        return EINVAL;
    if (dst->sa.sa_family == CM_AF_IB)
        return ENODEV; /* a NIC of InfiniBand's own is not here */
    if (cm_addr_is_any(dst))
        return resolve_self(r, id);
    if (cm_addr_lacks_scope(dst))
        return EADDRNOTAVAIL;
    if (cm_addr_is_any(&id->src))
        return resolve_from_anywhere(r, id, timeout_ms);
    return is_reached(r, id) ? succeed(r, id, id->device) : wait_in_vain(r, id, timeout_ms);
}

/* A second try finds the identifier bound by the first, and takes no notice of its source. */
int cm_resolve_addr(struct region *r, uint32_t file, uint32_t number, const union cm_addr *src,
                    const union cm_addr *dst, uint32_t timeout_ms)
{
    union cm_addr any = {.sa = {.sa_family = dst->sa.sa_family}};
    struct cm_id *id;
    bool bound = false;
    int err;

    if (!cm_addr_size(dst))
        return EINVAL;
    lock_take(&r->cm.lock);
    err = cm_id_find(r, file, number, &id);
    if (!err)
        bound = id->state == CM_BOUND;
    lock_give(&r->cm.lock);
    if (!err && !bound)
        err = cm_port_bind(r, file, number, src->sa.sa_family ? src : &any);
    if (err)
        return err;
    lock_take(&r->cm.lock);
    err = cm_id_find(r, file, number, &id);
    if (!err)
        err = resolve(r, id, dst, timeout_ms);
    lock_give(&r->cm.lock);
    return err;
}

int cm_resolve_route(struct region *r, struct cm_id *id, uint32_t timeout_ms)
{
    if (id->device < 0 || !timeout_ms || id->state != CM_ADDR_RESOLVED)
        return EINVAL;
    id->state = CM_ROUTE_RESOLVED;
    id->has_route = 1;
    cm_event_say(r, id, EVENT_ROUTE_RESOLVED, 0);
    return 0;
}
