/* SPDX-License-Identifier: BSD-3-Clause */
/* What the device says of itself, and what is granted for what is asked: CQs, QPs, SRQs. */
#include "probe.h"

#include <errno.h>
#include <string.h>

static void ask_device(void)
{
    struct ibv_device_attr_ex x;
    memset(&x, 0, sizeof(x));
    fact_errno("limits", "query_device_ex", ibv_query_device_ex(contexts[0], NULL, &x));
    const struct ibv_device_attr *d = &x.orig_attr;
    fact("limits", "device identity", "fw '%s' vendor 0x%x part %u hw 0x%x ports %u", d->fw_ver, d->vendor_id,
         d->vendor_part_id, d->hw_ver, d->phys_port_cnt);
    fact("limits", "device objects", "qp %d cq %d mr %d pd %d mw %d ah %d srq %d", d->max_qp, d->max_cq,
         d->max_mr, d->max_pd, d->max_mw, d->max_ah, d->max_srq);
    fact("limits", "device queues", "qp_wr %d sge %d sge_rd %d cqe %d srq_wr %d srq_sge %d", d->max_qp_wr,
         d->max_sge, d->max_sge_rd, d->max_cqe, d->max_srq_wr, d->max_srq_sge);
    fact("limits", "device atomics", "qp_rd %d qp_init_rd %d res_rd %d ee_rd %d cap %d", d->max_qp_rd_atom,
         d->max_qp_init_rd_atom, d->max_res_rd_atom, d->max_ee_rd_atom, d->atomic_cap);
    fact("limits", "device memory", "max_mr_size 0x%llx page_sizes 0x%llx fmr %d map_per_fmr %d",
         (unsigned long long)d->max_mr_size, (unsigned long long)d->page_size_cap, d->max_fmr,
         d->max_map_per_fmr);
    fact("limits", "device multicast", "groups %d qps per group %d attached %d", d->max_mcast_grp,
         d->max_mcast_qp_attach, d->max_total_mcast_qp_attach);
    fact("limits", "device rest",
         "pkeys %d ca_ack_delay %d caps 0x%x caps_ex 0x%llx raw_qp %d raw_ethy %d rdd %d ee %d", d->max_pkeys,
         d->local_ca_ack_delay, d->device_cap_flags, (unsigned long long)x.device_cap_flags_ex,
         d->max_raw_ipv6_qp, d->max_raw_ethy_qp, d->max_rdd, d->max_ee);
    fact("limits", "device odp", "general 0x%llx rc 0x%x uc 0x%x ud 0x%x",
         (unsigned long long)x.odp_caps.general_caps, x.odp_caps.per_transport_caps.rc_odp_caps,
         x.odp_caps.per_transport_caps.uc_odp_caps, x.odp_caps.per_transport_caps.ud_odp_caps);
    fact("limits", "device extras",
         "timestamp_mask 0x%llx core_clock %llu tso %u rss %u wq %u raw_caps 0x%x dm %llu",
         (unsigned long long)x.completion_timestamp_mask, (unsigned long long)x.hca_core_clock,
         x.tso_caps.max_tso, x.rss_caps.max_rwq_indirection_tables, x.max_wq_type_rq, x.raw_packet_caps,
         (unsigned long long)x.max_dm_size);
}

static void ask_port(void)
{
    struct ibv_port_attr p;
    fact_errno("limits", "query_port", ibv_query_port(contexts[0], 1, &p));
    fact("limits", "port", "state %d phys %d max_mtu %d active_mtu %d lid %u sm_lid %u lmc %u link_layer %u",
         p.state, p.phys_state, p.max_mtu, p.active_mtu, p.lid, p.sm_lid, p.lmc, p.link_layer);
    fact("limits", "port tables",
         "gids %d pkeys %u max_msg 0x%x caps 0x%x caps2 0x%x flags 0x%x width %u speed %u vls %u",
         p.gid_tbl_len, p.pkey_tbl_len, p.max_msg_sz, p.port_cap_flags, p.port_cap_flags2, p.flags,
         p.active_width, p.active_speed, p.max_vl_num);

    struct ibv_gid_entry e;
    for (int i = 0; i < 2; i++) {
        fact_begin("limits", "gid %d", i);
        fact_add(" %s", errno_name(ERRNO_OF_INT(ibv_query_gid_ex(contexts[0], 1, i, &e, 0))));
        fact_add(" index %u port %u type %u kind %s", e.gid_index, e.port_num, e.gid_type,
                 e.gid.raw[0] == 0xfe ? "link-local" : "IPv4-mapped");
        fact_end();
    }
    struct ibv_gid_entry table[16];
    fact("limits", "gid table", "%zd entries", ibv_query_gid_table(contexts[0], table, 16, 0));
    fact("limits", "gid table with room for one", "%zd", ibv_query_gid_table(contexts[0], table, 1, 0));
    uint16_t pkey;
    fact_errno("limits", "pkey 0", ERRNO_OF_INT(ibv_query_pkey(contexts[0], 1, 0, &pkey)));
    fact("limits", "pkey 0 value", "0x%x", pkey);
}

static void ask_cq(void)
{
    static const int sizes[] = {0, -1, 1, 2, 3, 4, 10, 64, 511, 512, 32767, 32768};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        errno = 0;
        struct ibv_cq *cq = ibv_create_cq(contexts[0], sizes[i], NULL, NULL, 0);
        fact_begin("limits", "create_cq of %d", sizes[i]);
        if (cq)
            fact_add(" granted %d", cq->cqe);
        else
            fact_add(" %s", errno_name(errno));
        fact_end();
        if (cq)
            ibv_destroy_cq(cq);
    }
    struct ibv_cq *cq = ibv_create_cq(contexts[0], 10, NULL, NULL, 0);
    static const int resizes[] = {0, -1, 1, 15, 16, 100, 32767, 32768};
    for (size_t i = 0; i < sizeof(resizes) / sizeof(*resizes); i++) {
        int err = ERRNO_OF_INT(ibv_resize_cq(cq, resizes[i]));
        fact_begin("limits", "resize_cq to %d", resizes[i]);
        fact_add(" %s, now %d", errno_name(err), cq->cqe);
        fact_end();
    }
    ibv_destroy_cq(cq);
    fact_errno("limits", "create_cq on vector 999",
               ERRNO_OF_POINTER(ibv_create_cq(contexts[0], 1, NULL, NULL, 999)));
    fact_errno("limits", "create_cq on vector -1",
               ERRNO_OF_POINTER(ibv_create_cq(contexts[0], 1, NULL, NULL, -1)));
}

static void cap_show(const struct ibv_qp_cap *c)
{
    fact_add(" %u/%u wr %u/%u sge %u inline", c->max_send_wr, c->max_recv_wr, c->max_send_sge,
             c->max_recv_sge, c->max_inline_data);
}

static void ask_qp(void)
{
    static const struct {
        enum ibv_qp_type type;
        struct ibv_qp_cap cap;
    } wishes[] = {
        {IBV_QPT_RC, {1, 1, 1, 1, 0}},
        {IBV_QPT_RC, {0, 0, 0, 0, 0}},
        {IBV_QPT_RC, {0, 1, 1, 1, 0}},
        {IBV_QPT_RC, {10, 10, 1, 1, 0}},
        {IBV_QPT_RC, {15, 16, 3, 3, 17}},
        {IBV_QPT_RC, {1, 1, 32, 32, 512}},
        {IBV_QPT_RC, {1, 1, 33, 1, 0}},
        {IBV_QPT_RC, {1, 1, 1, 33, 0}},
        {IBV_QPT_RC, {1, 1, 1, 1, 512}},
        {IBV_QPT_RC, {1, 1, 1, 1, 513}},
        {IBV_QPT_RC, {1 << 14, 1, 0, 1, 0}},
        {IBV_QPT_RC, {(1 << 20) + 1, 1, 1, 1, 0}},
        {IBV_QPT_RC, {1, (1 << 20) + 1, 1, 1, 0}},
        {IBV_QPT_UD, {1, 1, 2, 1, 100}},
        {IBV_QPT_UC, {7, 8, 4, 5, 64}},
        {IBV_QPT_RAW_PACKET, {1, 1, 1, 1, 0}},
        {IBV_QPT_XRC_SEND, {1, 1, 1, 1, 0}},
        {IBV_QPT_XRC_RECV, {1, 1, 1, 1, 0}},
        {IBV_QPT_DRIVER, {1, 1, 1, 1, 0}},
        {77, {1, 1, 1, 1, 0}},
    };
    struct ibv_cq *cq = ibv_create_cq(contexts[0], 10, NULL, NULL, 0);
    for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = cq, .recv_cq = cq, .cap = wishes[i].cap, .qp_type = wishes[i].type};
        const struct ibv_qp_cap *wish = &wishes[i].cap;
        fact_begin("limits", "create_qp type %d %u/%u wr %u/%u sge %u inline", wishes[i].type,
                   wish->max_send_wr, wish->max_recv_wr, wish->max_send_sge, wish->max_recv_sge,
                   wish->max_inline_data);
        errno = 0;
        struct ibv_qp *qp = ibv_create_qp(pds[0], &init);
        if (qp) {
            struct ibv_qp_attr attr;
            struct ibv_qp_init_attr seen;
            memset(&seen, 0, sizeof(seen));
            cap_show(&init.cap);
            fact_add(", query");
            ibv_query_qp(qp, &attr, IBV_QP_CAP, &seen);
            cap_show(&seen.cap);
            ibv_destroy_qp(qp);
        } else {
            fact_add(" %s", errno_name(errno));
        }
        fact_end();
    }
    ibv_destroy_cq(cq);
}

static void ask_srq_sizes(void)
{
    static const struct ibv_srq_attr wishes[] = {
        {0, 1, 0},   {1, 1, 0}, {10, 2, 0},      {100, 27, 50},
        {1, 28, 0},  {1, 0, 0}, {1 << 14, 1, 0}, {(1 << 20) + 1, 1, 0},
        {10, 1, 99},
    };
    for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++) {
        struct ibv_srq_init_attr init = {.attr = wishes[i]};
        errno = 0;
        struct ibv_srq *srq = ibv_create_srq(pds[0], &init);
        fact_begin("limits", "create_srq %u wr %u sge limit %u", wishes[i].max_wr, wishes[i].max_sge,
                   wishes[i].srq_limit);
        if (srq) {
            struct ibv_srq_attr seen = {0};
            int err = ibv_query_srq(srq, &seen);
            fact_add(" %u wr %u sge, query %s %u wr %u sge limit %u", init.attr.max_wr, init.attr.max_sge,
                     errno_name(err), seen.max_wr, seen.max_sge, seen.srq_limit);
            ibv_destroy_srq(srq);
        } else {
            fact_add(" %s", errno_name(errno));
        }
        fact_end();
    }
}

static void ask_names(void)
{
    struct ibv_cq *cq = ibv_create_cq(contexts[0], 10, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct ibv_qp *one = ibv_create_qp(pds[0], &init), *two = ibv_create_qp(pds[0], &init);
    fact("limits", "QP numbers of two QPs", "%s, %s", one->qp_num == two->qp_num ? "the same" : "distinct",
         one->qp_num > 1 && one->qp_num < 1 << 24 && two->qp_num < 1 << 24 ? "24 bits" : "out of range");
    uint32_t old = one->qp_num;
    ibv_destroy_qp(one);
    one = ibv_create_qp(pds[0], &init);
    fact("limits", "QP number after destroy and create", "%s",
         one->qp_num == old ? "used again at once" : "a new one");
    ibv_destroy_qp(one);
    ibv_destroy_qp(two);
    ibv_destroy_cq(cq);
}

void ask_limits(void)
{
    ask_device();
    ask_port();
    ask_cq();
    ask_qp();
    ask_srq_sizes();
    ask_names();
}
