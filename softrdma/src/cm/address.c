/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds of addresses, and the NICs they belong to. */
#include "address.h"

#include "../device.h"
#include "../nic.h"

uint32_t cm_addr_size(const union cm_addr *a)
{
    switch (a->sa.sa_family) {
    case AF_INET:
        return sizeof(struct sockaddr_in);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    case CM_AF_IB:
        return 48;
    }
    return 0;
}

/* The service ID of an AF_IB address ends with the port. */
uint16_t cm_addr_port(const union cm_addr *a)
{
    if (a->sa.sa_family == CM_AF_IB)
        return (uint16_t)(a->raw[30] << 8 | a->raw[31]);
    return ntohs(a->in.sin_port);
}

void cm_addr_set_port(union cm_addr *a, uint16_t port)
{
    if (a->sa.sa_family == CM_AF_IB) {
        a->raw[30] = (uint8_t)(port >> 8);
        a->raw[31] = (uint8_t)port;
    } else {
        a->in.sin_port = htons(port);
    }
}

void cm_addr_gid(const union cm_addr *a, uint8_t ret_gid[16])
{
    if (a->sa.sa_family == AF_INET6) {
        memcpy(ret_gid, &a->in6.sin6_addr, 16);
    } else {
        memset(ret_gid, 0, 16);
        ret_gid[10] = ret_gid[11] = 0xff;
        memcpy(ret_gid + 12, &a->in.sin_addr, 4);
    }
}

void cm_addr_set_gid(union cm_addr *a, const uint8_t gid[16])
{
    if (a->sa.sa_family == AF_INET6)
        memcpy(&a->in6.sin6_addr, gid, 16);
    else
        memcpy(&a->in.sin_addr, gid + 12, 4);
}

bool cm_addr_same_host(const union cm_addr *a, const union cm_addr *b)
{
    uint8_t x[16], y[16];

    cm_addr_gid(a, x);
    cm_addr_gid(b, y);
    return a->sa.sa_family == b->sa.sa_family && memcmp(x, y, 16) == 0;
}

bool cm_addr_is_zero(const union cm_addr *a)
{
    if (a->sa.sa_family == AF_INET6)
        return memcmp(&a->in6.sin6_addr, &in6addr_any, 16) == 0;
    return a->sa.sa_family == CM_AF_IB || a->in.sin_addr.s_addr == 0;
}

static bool is_loopback(const union cm_addr *a)
{
    if (a->sa.sa_family == AF_INET)
        return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
    return a->sa.sa_family == AF_INET6 && memcmp(&a->in6.sin6_addr, &in6addr_loopback, 16) == 0;
}

bool cm_addr_is_any(const union cm_addr *a)
{
    return cm_addr_is_zero(a) || is_loopback(a);
}

void cm_addr_set_loopback(union cm_addr *a)
{
    if (a->sa.sa_family == AF_INET)
        a->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (a->sa.sa_family == AF_INET6)
        a->in6.sin6_addr = in6addr_loopback;
}

bool cm_addr_lacks_scope(const union cm_addr *a)
{
    return a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr) && !a->in6.sin6_scope_id;
}

int cm_addr_device(struct region *r, const union cm_addr *a)
{
    uint8_t gid[16];
    int device;

    if (a->sa.sa_family == CM_AF_IB)
        return -1;
    cm_addr_gid(a, gid);
    device = nic_by_gid(r, gid);
    return device >= 0 && device_at(device)->model->has_cm ? device : -1;
}

int cm_addr_network(struct region *r, const union cm_addr *a)
{
    uint8_t gid[16], mine[16];

    if (a->sa.sa_family != AF_INET)
        return -1;
    cm_addr_gid(a, gid);
    for (int d = 0; d < device_count(); d++) {
        for (uint32_t i = 0; device_at(d)->model->has_cm && i < NIC_GIDS; i++) {
            if (nic_gid(r, (uint32_t)d, i, mine) && memcmp(mine, gid, 15) == 0)
                return d;
        }
    }
    return -1;
}

bool cm_addr_is_broadcast(const union cm_addr *a)
{
    return a->sa.sa_family == AF_INET && (ntohl(a->in.sin_addr.s_addr) & 0xff) == 0xff;
}

/* The first address that is of an IP network: entry 0 is the link's own. */
static bool first_address(struct region *r, int device, bool ipv4, uint8_t ret_gid[16])
{
    for (uint32_t i = 0; i < NIC_GIDS; i++) {
        if (nic_gid(r, (uint32_t)device, i, ret_gid) && gid_is_ipv4(ret_gid) == ipv4)
            return true;
    }
    return false;
}

void cm_addr_wire_gid(struct region *r, const union cm_addr *a, int device, uint8_t ret_gid[16])
{
    if (!cm_addr_is_any(a))
        cm_addr_gid(a, ret_gid);
    else if (!first_address(r, device < 0 ? 0 : device, true, ret_gid))
        memset(ret_gid, 0, 16);
}
