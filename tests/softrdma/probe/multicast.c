/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast: attach and detach, who hears a datagram to the group, what is refused. */
#include "probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ff12::1234 as a GID: link-local scope, so it needs no route. */
static const union ibv_gid group = {.raw = {0xff, 0x12, [14] = 0x12, [15] = 0x34}};

/* Soft-RoCE hears a group only where the host's IP layer is a member of it too (librdmacm sees to that in
 * real life); a host without that network interface is not asked. Returns a socket that holds the membership,
 * or -1. */
static int host_joins(struct ibv_context *ctx)
{
    struct ibv_gid_entry entry;
    struct ipv6_mreq member = {.ipv6mr_interface = 0};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    if (!ibv_query_gid_ex(ctx, 1, 0, &entry, 0))
        member.ipv6mr_interface = entry.ndev_ifindex;
    memcpy(&member.ipv6mr_multiaddr, &group, sizeof(group));
    if (fd >= 0)
        setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &member, sizeof(member));
    return fd;
}

static struct work to_group(struct pair *p, struct ibv_ah *ah)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_SEND, 8, 1);
    memset(&w.wr.wr, 0, sizeof(w.wr.wr));
    w.wr.wr.ud.ah = ah;
    w.wr.wr.ud.remote_qpn = 0xffffff;
    w.wr.wr.ud.remote_qkey = QKEY;
    return w;
}

static void ask_attach(struct pair *p)
{
    fact_errno("multicast", "attach", ERRNO_OF_INT(ibv_attach_mcast(p->b.qp, &group, 0)));
    fact_errno("multicast", "attach twice", ERRNO_OF_INT(ibv_attach_mcast(p->b.qp, &group, 0)));
    fact_errno("multicast", "destroy_qp while attached", ERRNO_OF_INT(ibv_destroy_qp(p->b.qp)));
    fact_errno("multicast", "detach", ERRNO_OF_INT(ibv_detach_mcast(p->b.qp, &group, 0)));
    fact_errno("multicast", "detach again", ERRNO_OF_INT(ibv_detach_mcast(p->b.qp, &group, 0)));
    fact_errno("multicast", "attach to a unicast GID", ERRNO_OF_INT(ibv_attach_mcast(p->b.qp, &p->b.gid, 0)));
    union ibv_gid v4 = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2, [15] = 3}};
    fact_errno("multicast", "attach to an IPv4 group", ERRNO_OF_INT(ibv_attach_mcast(p->b.qp, &v4, 0)));
    ibv_detach_mcast(p->b.qp, &v4, 0);
    ibv_detach_mcast(p->b.qp, &p->b.gid, 0);
}

static void ask_delivery(struct pair *p)
{
    struct ibv_ah_attr attr = {
        .port_num = 1, .is_global = 1, .grh = {.dgid = group, .sgid_index = 0, .hop_limit = 1}};
    errno = 0;
    struct ibv_ah *ah = ibv_create_ah(pds[0], &attr);
    fact_errno("multicast", "create_ah of a group", ah ? 0 : errno);
    if (!ah)
        return;
    struct work w = to_group(p, ah);
    recv_post(&p->b, 101, 4096);
    recv_post(&p->a, 201, 4096);
    fact_begin("multicast", "nobody attached");
    work_post(&p->a, &w);
    pair_watch(p, 1, 0, 60);
    fact_end();
    ibv_attach_mcast(p->b.qp, &group, 0);
    fact_begin("multicast", "the peer attached");
    work_post(&p->a, &w);
    pair_watch(p, 1, 1, 200);
    fact_end();
    recv_post(&p->b, 102, 4096);
    ibv_attach_mcast(p->a.qp, &group, 0);
    fact_begin("multicast", "sender and peer attached");
    work_post(&p->a, &w);
    pair_watch(p, 1, 1, 200);
    fact_end();
    w.wr.wr.ud.remote_qkey = 0x999;
    recv_post(&p->b, 103, 4096);
    fact_begin("multicast", "another Q_Key");
    work_post(&p->a, &w);
    pair_watch(p, 1, 0, 60);
    fact_end();
    ibv_detach_mcast(p->a.qp, &group, 0);
    ibv_detach_mcast(p->b.qp, &group, 0);
    w.wr.wr.ud.remote_qkey = QKEY;
    fact_begin("multicast", "after detach");
    work_post(&p->a, &w);
    pair_watch(p, 1, 0, 60);
    fact_end();
    ibv_destroy_ah(ah);
}

void ask_multicast(void)
{
    struct pair p;
    struct setup how = usual;
    how.type = IBV_QPT_UD;
    int members[2] = {host_joins(contexts[0]), host_joins(contexts[1])};
    pair_open(&p, &how);
    ask_attach(&p);
    ask_delivery(&p);
    pair_close(&p);
    close(members[0]);
    close(members[1]);

    how = usual;
    how.unconnected = true;
    pair_open(&p, &how);
    fact_errno("multicast", "attach an RC QP", ERRNO_OF_INT(ibv_attach_mcast(p.b.qp, &group, 0)));
    ibv_detach_mcast(p.b.qp, &group, 0);
    pair_close(&p);
}
