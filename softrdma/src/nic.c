/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and changing the state of NICs. */
#include "nic.h"

#include "cm/cm.h"
#include "device.h"
#include "event.h"
#include "service.h"
#include "sysfs.h"

/* In two halves: readers take no lock, and half of one address and half of another reaches nobody. */
static void store_gid(struct nic *n, uint32_t index, const uint8_t *gid)
{
    uint64_t half[2] = {0, 0};

    if (gid)
        memcpy(half, gid, sizeof(half));
    atomic_store(&n->gid[index][0], half[0]);
    atomic_store(&n->gid[index][1], half[1]);
}

static void set_first_state(struct region *r, uint32_t device)
{
    const struct device *d = device_at((int)device);
    struct nic *n = &r->nic[device];

    for (uint32_t i = 0; i < NIC_GIDS; i++)
        store_gid(n, i, i < DEVICE_GIDS ? d->gid[i] : NULL);
    atomic_store(&n->link_down, 0);
    atomic_store(&n->link_told, 0);
    atomic_store(&n->fatal, 0);
    atomic_store(&n->removed, 0);
    atomic_store(&n->disturbed, 0);
}

void nic_init(struct region *r)
{
    for (int i = 0; i < device_count(); i++)
        set_first_state(r, (uint32_t)i);
}

bool nic_link_is_down(struct region *r, uint32_t device)
{
    return atomic_load(&r->nic[device].link_down);
}

bool nic_is_removed(struct region *r, uint32_t device)
{
    return r && atomic_load(&r->nic[device].removed);
}

bool nic_works(struct region *r, uint32_t device)
{
    return !atomic_load(&r->nic[device].fatal) && !atomic_load(&r->nic[device].removed);
}

bool nic_gid(struct region *r, uint32_t device, uint32_t index, uint8_t ret_gid[16])
{
    uint64_t half[2];

    if (index >= NIC_GIDS)
        return false;
    half[0] = atomic_load(&r->nic[device].gid[index][0]);
    half[1] = atomic_load(&r->nic[device].gid[index][1]);
    memcpy(ret_gid, half, sizeof(half));
    return !gid_is_empty(ret_gid);
}

static bool has_gid(struct region *r, uint32_t device, const uint8_t *gid)
{
    uint8_t mine[16];

    for (uint32_t i = 0; i < NIC_GIDS; i++) {
        if (nic_gid(r, device, i, mine) && memcmp(mine, gid, sizeof(mine)) == 0)
            return true;
    }
    return false;
}

int nic_by_gid(struct region *r, const uint8_t *gid)
{
    for (int i = 0; i < device_count(); i++) {
        if (has_gid(r, (uint32_t)i, gid))
            return i;
    }
    return -1;
}

bool nic_carries_slowly(struct region *r, uint32_t device, const uint8_t *gid)
{
    return nic_works(r, device) && !nic_link_is_down(r, device) && has_gid(r, device, gid);
}

/* ib_core asks the route and neighbour tables. Here everybody that exists is a neighbour; nobody else
 * answers. */
int nic_resolve(struct region *r, uint32_t device, uint32_t sgid_index, const uint8_t *dgid,
                uint8_t ret_sgid[16])
{
    int peer;

    if (!nic_gid(r, device, sgid_index, ret_sgid))
        return ENODATA;
    if (gid_is_multicast(dgid))
        return 0;
    if (gid_is_ipv4(dgid) != gid_is_ipv4(ret_sgid))
        return EINVAL;
    peer = nic_by_gid(r, dgid);
    return peer >= 0 && device_at(peer)->model == device_at((int)device)->model ? 0 : ETIMEDOUT;
}

void nic_raise(struct region *r, uint32_t device, uint32_t event)
{
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        if (atomic_load(&r->context[i].used) && r->context[i].device == device)
            event_async(r, i, 0, 1, event, NULL); /* of port 1 */
    }
}

void nic_begin_link(struct region *r, uint32_t device, bool up)
{
    atomic_store(&r->nic[device].disturbed, 1);
    atomic_store(&r->nic[device].link_down, !up);
}

void nic_set_link(struct region *r, uint32_t device, bool up)
{
    struct nic *n = &r->nic[device];

    if (atomic_load(&n->link_down) == !up && atomic_load(&n->link_told) == !up)
        return;
    nic_begin_link(r, device, up);
    if (atomic_exchange(&n->link_told, !up) == !up)
        return;
    sysfs_refresh(device);
    nic_raise(r, device, up ? ASYNC_PORT_ACTIVE : ASYNC_PORT_ERR);
}

void nic_set_gid(struct region *r, uint32_t device, uint32_t index, const uint8_t *gid)
{
    uint8_t was[16];
    bool had = nic_gid(r, device, index, was);

    if (gid && gid_is_empty(gid))
        gid = NULL;
    if (had ? gid && memcmp(was, gid, sizeof(was)) == 0 : !gid)
        return;
    atomic_store(&r->nic[device].disturbed, 1);
    store_gid(&r->nic[device], index, gid);
    sysfs_refresh(device);
    nic_raise(r, device, ASYNC_GID_CHANGE);
}

/* Every queue pair of the NIC's in this region. */
static void break_qps(struct region *r, uint32_t device)
{
    for (uint32_t w = 0; w < TABLE_BITS(MAX_QPS); w++) {
        for (uint64_t bits = atomic_load(&r->qp_bits[w]); bits; bits &= bits - 1) {
            struct qp *qp = &r->qp[w * 64 + (uint32_t)__builtin_ctzll(bits)];

            if (qp->device == device)
                device_at((int)device)->model->break_qp(r, qp);
        }
    }
}

void nic_fail(struct region *r, uint32_t device)
{
    struct nic *n = &r->nic[device];

    if (atomic_load(&n->fatal))
        return;
    atomic_store(&n->disturbed, 1);
    atomic_store(&n->fatal, 1);
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        if (atomic_load(&r->context[i].used) && r->context[i].device == device)
            atomic_store(&r->context[i].dead, CONTEXT_FAILED);
    }
    nic_raise(r, device, ASYNC_DEVICE_FATAL);
    break_qps(r, device);
}

/* Waiting for completions ends too: the pipes do, in every process that has them. */
void nic_remove(struct region *r, uint32_t device)
{
    struct nic *n = &r->nic[device];

    if (atomic_load(&n->removed))
        return;
    atomic_store(&n->disturbed, 1);
    atomic_store(&n->removed, 1);
    nic_raise(r, device, ASYNC_DEVICE_FATAL);
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        if (atomic_load(&r->context[i].used) && r->context[i].device == device)
            atomic_store(&r->context[i].dead, CONTEXT_DISASSOCIATED);
    }
    break_qps(r, device);
    cm_device_removed(r, device);
    atomic_fetch_add(&r->ndisassociated, 1);
    sysfs_refresh(device);
    service_wake_all(r);
}

void nic_restore(struct region *r, uint32_t device)
{
    struct nic *n = &r->nic[device];
    bool was_down = atomic_load(&n->link_told);

    if (!atomic_load(&n->disturbed))
        return;
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        if (atomic_load(&r->context[i].dead) == CONTEXT_FAILED && r->context[i].device == device)
            atomic_store(&r->context[i].dead, CONTEXT_ALIVE);
    }
    for (uint32_t i = 0; i < NIC_GIDS; i++)
        nic_set_gid(r, device, i, i < DEVICE_GIDS ? device_at((int)device)->gid[i] : NULL);
    set_first_state(r, device);
    sysfs_refresh(device);
    if (was_down)
        nic_raise(r, device, ASYNC_PORT_ACTIVE);
}
