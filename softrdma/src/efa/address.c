/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers by which the device knows addresses and queue pairs: of 16 bits each. */
#include "../nic.h"
#include "../uverbs.h"
#include "efa.h"

int efa_check_ah(const struct call *c, const struct ib_uverbs_ah_attr *a, uint8_t ret_sgid[16])
{
    if (a->port_num != 1 || !a->is_global || a->grh.sgid_index >= c->device->model->gid_table)
        return EINVAL;
    /* nobody asks whether the address exists */
    return nic_gid(c->r, (uint32_t)c->device->index, a->grh.sgid_index, ret_sgid) ? 0 : ENODATA;
}

/* The record of that GID in that PD, or 0. Those of devices that exist are found at once. */
static uint32_t find(struct region *r, uint32_t pd, const uint8_t *gid)
{
    int device = nic_by_gid(r, gid);

    if (device >= 0) {
        uint32_t i = r->address_of[pd][device];

        return i && memcmp(r->address[i].gid, gid, 16) == 0 ? i : 0;
    }
    for (uint32_t w = 0; w < TABLE_BITS(MAX_AHS); w++) {
        for (uint64_t bits = r->address_bits[w]; bits; bits &= bits - 1) {
            uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(bits);

            if (r->address[i].pd == pd && memcmp(r->address[i].gid, gid, 16) == 0)
                return i;
        }
    }
    return 0;
}

static uint32_t add(struct region *r, uint32_t pd, const uint8_t *gid)
{
    uint32_t i = table_take(&r->addresses, r->address_bits, MAX_AHS, 1);
    int device = nic_by_gid(r, gid);

    if (i == NONE)
        return 0;
    r->address[i].pd = pd;
    memcpy(r->address[i].gid, gid, 16);
    if (device >= 0)
        r->address_of[pd][device] = (uint16_t)i;
    return i;
}

static void release(struct region *r, uint32_t i)
{
    struct address *a = &r->address[i];

    if (--a->refs)
        return;
    for (int d = 0; d < MAX_NICS; d++) {
        if (r->address_of[a->pd][d] == i)
            r->address_of[a->pd][d] = 0;
    }
    table_release(&r->addresses, r->address_bits, i);
}

int efa_create_ah(struct call *c, struct ah *ah, uint32_t index)
{
    struct efa_ah_out out = {0};
    uint32_t i = find(c->r, ah->pd, ah->attr.grh.dgid);
    int err;

    (void)index;
    if (!i)
        i = add(c->r, ah->pd, ah->attr.grh.dgid);
    if (!i)
        return ENOMEM;
    c->r->address[i].refs++;
    ah->number = i;
    out.ahn = (uint16_t)i;
    err = call_respond_driver(c, &out, sizeof(out));
    if (err)
        release(c->r, i);
    return err;
}

void efa_destroy_ah(struct region *r, struct ah *ah)
{
    release(r, ah->number);
}

bool efa_find_gid(struct region *r, uint32_t pd, uint16_t ahn, uint8_t ret_gid[16])
{
    if (ahn >= MAX_AHS || !r->address[ahn].refs || r->address[ahn].pd != pd)
        return false;
    memcpy(ret_gid, r->address[ahn].gid, 16);
    return true;
}

uint16_t efa_find_ahn(struct region *r, uint32_t pd, const uint8_t *gid)
{
    uint32_t i = find(r, pd, gid);

    return i ? (uint16_t)i : EFA_NO_AH;
}

uint32_t efa_take_qpn(struct region *r, uint32_t device, uint32_t qp)
{
    for (uint32_t k = 0; k < SHORT_QPNS; k++) {
        uint32_t n = (r->short_qpn_next[device] + k) % SHORT_QPNS;

        if ((r->slot << 8 | n) == 0 || atomic_load(&r->short_qpn[device][n]))
            continue;
        r->short_qpn_next[device] = n + 1;
        atomic_store(&r->short_qpn[device][n], (uint16_t)(qp + 1));
        return r->slot << 8 | n;
    }
    return NONE;
}

void efa_drop_qpn(struct region *r, uint32_t device, uint32_t qpn)
{
    atomic_store(&r->short_qpn[device][qpn % SHORT_QPNS], 0);
}

uint32_t efa_find_qp(struct region *r, uint32_t device, uint32_t qpn)
{
    uint32_t i = atomic_load(&r->short_qpn[device][qpn % SHORT_QPNS]);

    return i && i <= MAX_QPS ? i - 1 : NONE;
}
