/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of binding (the kernel's cma_check_port) and the search for a listener. */
#include "port.h"

#include <sys/random.h>

#include "../config.h"
#include "../fabric/discovery.h"
#include "../fabric/peer.h"
#include "../lock.h"
#include "../nic.h"
#include "address.h"
#include "file.h"
#include "id.h"

#define FIRST_PORT 32768 /* of those that are given when none is asked for */
#define LAST_PORT 60999

/* What a port is asked for with. */
struct claim {
    const struct region *r; /* whose identifier it is; it does not stand in its own way */
    uint32_t id;
    uint32_t ps;
    bool reuse, af_only;
    union cm_addr addr;
};

static int conflict(struct region *r, const struct cm_id *other, const struct claim *c)
{
    if (other->port != cm_addr_port(&c->addr) || other->ps != c->ps)
        return 0;
    if (r == c->r && cm_id_number(r, other) == c->id)
        return 0;
    if (c->reuse && other->reuse && other->state != CM_LISTEN)
        return 0;
    if (c->af_only && other->af_only && c->addr.sa.sa_family != other->src.sa.sa_family)
        return 0;
    if (!cm_file_is_held(r, other->file)) /* nobody has told it that it is dead */
        return 0;
    if (cm_addr_is_any(&c->addr) || cm_addr_is_any(&other->src))
        return EADDRNOTAVAIL;
    return cm_addr_same_host(&c->addr, &other->src) ? EADDRINUSE : 0;
}

/* The caller holds r's cm.lock. */
static int check_region(struct region *r, const struct claim *c)
{
    int err = 0;

    for (uint32_t n = cm_id_next(r, 0); n != NONE && !err; n = cm_id_next(r, n + 1))
        err = conflict(r, &r->cm.id[n], c);
    return err;
}

/* In the other regions. */
static int check_others(const struct region *mine, const struct claim *c)
{
    int err = 0;

    for (uint32_t slot = 0; slot < FABRIC_SLOTS && !err; slot++) {
        struct region *r = slot == mine->slot ? NULL : peer_get(slot);

        if (!r)
            continue;
        lock_take(&r->cm.lock);
        err = check_region(r, c);
        lock_give(&r->cm.lock);
        peer_put(r);
    }
    return err;
}

static int pick_port(struct region *r, struct claim *c)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint16_t random;

        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
            random = (uint16_t)now_ns();
        cm_addr_set_port(&c->addr, (uint16_t)(FIRST_PORT + random % (LAST_PORT - FIRST_PORT + 1)));
        if (check_region(r, c) == 0)
            return 0;
    }
    return EADDRNOTAVAIL;
}

/* What the address itself says; *ret_device: -1 where it is no NIC's. */
static int check_address(struct region *r, const union cm_addr *a, int *ret_device)
{
    *ret_device = -1;
    if (!cm_addr_size(a))
        return EAFNOSUPPORT;
    if (a->sa.sa_family == CM_AF_IB)
        return config.cm_old_dialect ? EINVAL : 0;
    if (cm_addr_lacks_scope(a))
        return EINVAL;
    if (cm_addr_is_any(a))
        return 0;
    *ret_device = cm_addr_device(r, a);
    if (*ret_device < 0)
        return EADDRNOTAVAIL;
    return nic_is_removed(r, (uint32_t)*ret_device) ? ENODEV : 0;
}

/* Looks at the other regions, where it is necessary, and takes the last step here; none of them changes in between. */
static int claim_port(struct region *r, uint32_t file, struct claim *c, bool look,
                      int (*step)(struct region *r, struct cm_id *id, struct claim *c, int value), int value)
{
    struct cm_id *id;
    int err = 0;

    if (look) {
        fabric_lock();
        err = check_others(r, c);
    }
    if (!err) {
        lock_take(&r->cm.lock);
        err = cm_id_find(r, file, c->id, &id);
        if (!err)
            err = step(r, id, c, value);
        lock_give(&r->cm.lock);
    }
    if (look)
        fabric_unlock();
    return err;
}

/* The last step, under the lock. A port that is asked for was found free in the other regions. */
static int bind_here(struct region *r, struct cm_id *id, struct claim *c, int device)
{
    int err;

    if (id->state != CM_IDLE)
        return EINVAL;
    c->id = cm_id_number(r, id);
    c->reuse = id->reuse;
    c->ps = id->ps;
    c->af_only = id->af_only || c->addr.sa.sa_family == AF_INET;
    err = cm_addr_port(&c->addr) ? check_region(r, c) : pick_port(r, c);
    if (err)
        return err;
    id->src = c->addr;
    id->port = cm_addr_port(&c->addr);
    id->device = device;
    id->af_only = c->af_only;
    id->state = CM_BOUND;
    return 0;
}

int cm_port_bind(struct region *r, uint32_t file, uint32_t number, const union cm_addr *addr)
{
    struct claim c = {.r = r, .id = number, .addr = *addr};
    bool asked = cm_addr_size(addr) && cm_addr_port(addr) != 0;
    struct cm_id *id;
    int device, err;

    lock_take(&r->cm.lock);
    err = cm_id_find(r, file, number, &id);
    if (!err && id->state == CM_REMOVED)
        err = ENXIO;
    if (!err && id->state != CM_IDLE)
        err = EINVAL;
    if (!err) {
        err = check_address(r, addr, &device);
        c.ps = id->ps;
        c.reuse = id->reuse;
        c.af_only = id->af_only || addr->sa.sa_family == AF_INET;
    }
    lock_give(&r->cm.lock);
    if (err)
        return err;
    return claim_port(r, file, &c, asked, bind_here, device);
}

static int listen_here(struct region *r, struct cm_id *id, struct claim *c, int backlog)
{
    if (id->state == CM_REMOVED)
        return ENXIO;
    if (id->state != CM_BOUND)
        return EINVAL;
    if (id->reuse) {
        int err = check_region(r, c);

        if (err)
            return err;
    }
    id->backlog = backlog > 0 && backlog < CM_MAX_BACKLOG ? backlog : CM_MAX_BACKLOG;
    id->state = CM_LISTEN;
    id->link = id->device >= 0 ? LINK_LISTEN : LINK_NONE;
    atomic_fetch_add(&r->cm.nlisteners, 1);
    return 0;
}

/* Those that share a port may not listen: here at last it counts who has it. */
int cm_port_listen(struct region *r, uint32_t file, uint32_t number, int32_t backlog)
{
    const union cm_addr any = {.in = {.sin_family = AF_INET}};
    struct claim c = {.r = r, .id = number};
    bool shared = false, idle = false;
    struct cm_id *id;
    int err;

    lock_take(&r->cm.lock);
    err = cm_id_find(r, file, number, &id);
    if (!err) {
        idle = id->state == CM_IDLE;
        shared = id->reuse && id->state == CM_BOUND;
        c.ps = id->ps;
        c.af_only = id->af_only;
        c.addr = id->src;
    }
    lock_give(&r->cm.lock);
    if (!err && idle)
        err = cm_port_bind(r, file, number, &any);
    if (err)
        return err;
    return claim_port(r, file, &c, shared, listen_here, backlog);
}

static bool is_meant(struct region *r, const struct cm_id *l, const struct cm_message *m)
{
    if (l->state != CM_LISTEN || l->ps != m->ps || l->port != cm_addr_port(&m->dst))
        return false;
    if (l->device >= 0 && l->device != m->device)
        return false;
    if (l->src.sa.sa_family != m->dst.sa.sa_family &&
        (l->src.sa.sa_family != AF_INET6 || !cm_addr_is_zero(&l->src) || l->af_only))
        return false;
    if (!cm_addr_is_any(&l->src) && !cm_addr_same_host(&l->src, &m->dst))
        return false;
    return cm_file_is_held(r, l->file);
}

struct cm_id *cm_port_listener(struct region *r, const struct cm_message *m)
{
    for (uint32_t n = cm_id_next(r, 0); n != NONE; n = cm_id_next(r, n + 1)) {
        if (is_meant(r, &r->cm.id[n], m))
            return &r->cm.id[n];
    }
    return NULL;
}
