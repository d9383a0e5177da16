/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams: the 40 bytes in front, the Q_Key, what is dropped and what is refused. */
#include "probe.h"

#include <errno.h>
#include <string.h>

static struct ibv_ah *ah_make(const struct side *to, int index, int hop, int class, int flow)
{
    struct ibv_ah_attr attr = {
        .port_num = 1,
        .is_global = 1,
        .grh = {.dgid = to->gid,
                .sgid_index = index,
                .hop_limit = hop,
                .traffic_class = class,
                .flow_label = flow},
    };
    if (index != gid_index)
        ibv_query_gid(to->ctx, 1, index, &attr.grh.dgid);
    return ibv_create_ah(pds[0], &attr);
}

static struct work datagram(struct pair *p, struct ibv_ah *ah, enum ibv_wr_opcode opcode, uint32_t length,
                            uint32_t qkey)
{
    struct work w = work_make(&p->a, &p->b, opcode, length, 1);
    memset(&w.wr.wr, 0, sizeof(w.wr.wr));
    w.wr.wr.ud.ah = ah;
    w.wr.wr.ud.remote_qpn = p->b.qp->qp_num;
    w.wr.wr.ud.remote_qkey = qkey;
    return w;
}

/* The header that lands before the payload; identification and checksum of IPv4 depend on chance or on the
 * rest. */
static void header_show(const char *question, const struct side *s)
{
    const uint8_t *grh = s->buf + LANDING;
    bool v4 = grh[20] == 0x45;
    fact_begin("ud", "%s", question);
    fact_add(" ");
    uint32_t sum = 0;
    for (int i = 0; i < 40; i++) {
        bool skip = v4 ? i == 24 || i == 25 || i == 30 || i == 31 : i >= 8; /* IPv6: the GIDs hold the MACs */
        if (skip && !v4)
            break;
        fact_add(skip ? "??" : "%02x", grh[i]);
    }
    for (int i = 20; i < 40; i += 2)
        sum += grh[i] << 8 | grh[i + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    if (v4)
        fact_add(" checksum %s", sum == 0xffff ? "right" : "wrong");
    else {
        union ibv_gid from;
        ibv_query_gid(contexts[0], 1, 0, &from);
        fact_add(" source %s", memcmp(grh + 8, &from, 16) ? "other" : "the sender");
    }
    fact_end();
}

static void ask_good(void)
{
    struct pair p;
    struct setup how = usual;
    how.type = IBV_QPT_UD;
    pair_open(&p, &how);
    struct ibv_ah *ah = ah_make(&p.b, gid_index, 64, 0, 0);
    static const struct {
        const char *name;
        enum ibv_wr_opcode opcode;
        uint32_t length;
    } sends[] = {{"SEND of 0", IBV_WR_SEND, 0},
                 {"SEND of 1", IBV_WR_SEND, 1},
                 {"SEND of 8", IBV_WR_SEND, 8},
                 {"SEND_WITH_IMM of 8", IBV_WR_SEND_WITH_IMM, 8},
                 {"SEND of 1024", IBV_WR_SEND, 1024}};
    for (size_t i = 0; i < sizeof(sends) / sizeof(*sends); i++) {
        char question[64];
        struct work w = datagram(&p, ah, sends[i].opcode, sends[i].length, QKEY);
        p.a.buf[0] = 40 + i;
        memset(p.b.buf + LANDING, 0xee, 48);
        recv_post(&p.b, 101, 4096);
        fact_begin("ud", "%s", sends[i].name);
        work_post(&p.a, &w);
        pair_watch(&p, 1, 1, 300);
        fact_add(" byte %d", p.b.buf[LANDING + 40]);
        fact_end();
        strcat(strcpy(question, "header of "), sends[i].name);
        header_show(question, &p.b);
    }
    struct ibv_wc wc;
    recv_post(&p.b, 101, 4096);
    struct work w = datagram(&p, ah, IBV_WR_SEND, 8, QKEY);
    work_post(&p.a, &w);
    pause_ms(20);
    memset(&wc, 0xee, sizeof(wc));
    ibv_poll_cq(p.b.recv_cq, 1, &wc);
    fact("ud", "other fields of a receive completion", "qp_num %s src_qp %s slid %u sl %u path %u pkey %u",
         wc.qp_num == p.b.qp->qp_num ? "own" : "other", wc.src_qp == p.a.qp->qp_num ? "the sender" : "other",
         wc.slid, wc.sl, wc.dlid_path_bits, wc.pkey_index);
    struct ibv_ah_attr back;
    memset(&back, 0, sizeof(back));
    int err =
        ERRNO_OF_INT(ibv_init_ah_from_wc(contexts[1], 1, &wc, (struct ibv_grh *)(p.b.buf + LANDING), &back));
    fact("ud", "init_ah_from_wc", "%s dgid %s hop %d class %d flow %x sgid_index %d", errno_name(err),
         memcmp(&back.grh.dgid, &p.a.gid, 16) ? "other" : "the sender", back.grh.hop_limit,
         back.grh.traffic_class, back.grh.flow_label, back.grh.sgid_index);
    ibv_destroy_ah(ah);
    while (ibv_poll_cq(p.a.send_cq, 1, &wc) > 0)
        ;

    ah = ah_make(&p.b, gid_index, 3, 0x14, 0x12345);
    recv_post(&p.b, 101, 4096);
    w = datagram(&p, ah, IBV_WR_SEND, 8, QKEY);
    work_post(&p.a, &w);
    pause_ms(20);
    header_show("header with hop limit 3, class 0x14, flow label 0x12345", &p.b);
    ibv_destroy_ah(ah);
    while (ibv_poll_cq(p.b.recv_cq, 1, &wc) > 0)
        ;
    if ((ah = ah_make(&p.b, 0, 9, 0x14, 0x12345))) {
        recv_post(&p.b, 101, 4096);
        w = datagram(&p, ah, IBV_WR_SEND_WITH_IMM, 8, QKEY);
        work_post(&p.a, &w);
        pause_ms(20);
        header_show("header over link-local GIDs, hop limit 9, class 0x14, flow label 0x12345", &p.b);
        ibv_destroy_ah(ah);
    }
    pair_close(&p);
}

static void ask_dropped(void)
{
    struct pair p;
    struct setup how = usual;
    how.type = IBV_QPT_UD;
    pair_open(&p, &how);
    struct ibv_ah *ah = ah_make(&p.b, gid_index, 64, 0, 0);
    struct work w = datagram(&p, ah, IBV_WR_SEND, 8, QKEY);
    fact_begin("ud", "SEND without a receive");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 100);
    fact_end();
    recv_post(&p.b, 101, 4096);
    w = datagram(&p, ah, IBV_WR_SEND, 8, 0x9999);
    fact_begin("ud", "SEND with another Q_Key");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 100);
    fact_end();
    w = datagram(&p, ah, IBV_WR_SEND, 8, 0x80000000 | QKEY);
    fact_begin("ud", "SEND with a Q_Key whose top bit is set");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 100);
    fact_end();
    w = datagram(&p, ah, IBV_WR_SEND, 8, QKEY);
    w.wr.wr.ud.remote_qpn = 0xfffff0;
    fact_begin("ud", "SEND to a QP number that nobody has");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 100);
    fact_end();
    w = datagram(&p, ah, IBV_WR_SEND, 5000, QKEY);
    fact_begin("ud", "SEND longer than the port's MTU");
    fact_add(" %s", errno_name(work_post(&p.a, &w)));
    pair_watch(&p, 1, 0, 100);
    fact_end();
    w = datagram(&p, ah, IBV_WR_SEND, 8, QKEY);
    fact_begin("ud", "and the receive is still there");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 1, 200);
    fact_end();

    recv_post(&p.b, 102, 44);
    recv_post(&p.b, 103, 4096);
    fact_begin("ud", "SEND, receive too short");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 1, 60);
    fact_end();
    fact_begin("ud", "and the next, with room enough behind it");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 1, 60);
    fact_end();
    pair_close(&p);

    pair_open(&p, &how);
    w = datagram(&p, ah, IBV_WR_RDMA_WRITE, 8, QKEY);
    fact_begin("ud", "WRITE on UD");
    fact_add(" %s", errno_name(work_post(&p.a, &w)));
    pair_watch(&p, 1, 0, 60);
    fact_end();
    pair_close(&p);

    pair_open(&p, &how);
    w = datagram(&p, ah, IBV_WR_SEND, 8, QKEY);
    w.sge.lkey ^= 0x10000;
    fact_begin("ud", "SEND with an unknown lkey");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 60);
    fact_end();
    pair_close(&p);
    ibv_destroy_ah(ah);

    /* An address handle of another PD. */
    struct ibv_pd *pd = ibv_alloc_pd(contexts[0]);
    pair_open(&p, &how);
    struct ibv_ah_attr attr = {
        .port_num = 1, .is_global = 1, .grh = {.dgid = p.b.gid, .sgid_index = gid_index, .hop_limit = 64}};
    ah = ibv_create_ah(pd, &attr);
    w = datagram(&p, ah, IBV_WR_SEND, 8, QKEY);
    recv_post(&p.b, 101, 4096);
    fact_begin("ud", "SEND by an AH of another PD");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 60);
    fact_end();
    pair_close(&p);
    ibv_destroy_ah(ah);
    ibv_dealloc_pd(pd);

    how.unconnected = true;
    pair_open(&p, &how);
    ah = ah_make(&p.b, gid_index, 64, 0, 0);
    for (struct side *s = &p.a; s; s = s == &p.a ? &p.b : NULL) {
        side_init(s, &how, 0);
        side_rtr(s, &how, s, 0);
    }
    side_rts(&p.a, &how, 0);
    recv_post(&p.b, 101, 4096);
    w = datagram(&p, ah, IBV_WR_SEND, 8, QKEY);
    fact_begin("ud", "SEND to a QP in RTR");
    work_post(&p.a, &w);
    pair_watch(&p, 1, 1, 100);
    fact_end();
    fact_begin("ud", "SEND to itself");
    recv_post(&p.a, 102, 4096);
    struct ibv_ah *self = ah_make(&p.a, gid_index, 64, 0, 0);
    w = datagram(&p, self ? self : ah, IBV_WR_SEND, 8, QKEY);
    w.wr.wr.ud.remote_qpn = p.a.qp->qp_num;
    work_post(&p.a, &w);
    pair_watch(&p, 1, 0, 60);
    fact_end();
    pair_close(&p);
    ibv_destroy_ah(ah);
    if (self)
        ibv_destroy_ah(self);
}

void ask_ud(void)
{
    ask_good();
    ask_dropped();
}
