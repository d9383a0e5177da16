/* SPDX-License-Identifier: BSD-3-Clause */
/* What libibverbs would ask the kernel's network for: netlink, and neighbours. There is no wire here. */
#include "preload.h"

#include <linux/netlink.h>
#include <sys/socket.h>

/* libibverbs asks the kernel's RDMA netlink first and the files second. We have files. */
EXPORT int socket(int domain, int type, int protocol)
{
    if (domain == AF_NETLINK && protocol == NETLINK_RDMA)
        return fail(EPROTONOSUPPORT);
    return libc_get()->socket(domain, type, protocol);
}

/* The rxe provider before rdma-core 39 asks the host's neighbour table for a peer's MAC. Any will do. */
struct ibv_context;
struct ibv_ah_attr;
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx, struct ibv_ah_attr *attr, uint8_t mac[6],
                                       uint16_t *vid);
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx, struct ibv_ah_attr *attr, uint8_t mac[6],
                                       uint16_t *vid)
{
    (void)ctx;
    (void)attr;
    memcpy(mac, (const uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
    if (vid)
        *vid = 0xffff;
    return 0;
}
