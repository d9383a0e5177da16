/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: a datagram to a group reaches its members in other processes, those that came after the
 * sender's first datagram too, and nobody who has left. */
#include "pair.h"

static union ibv_gid group;

static void make_group(void)
{
    memset(&group, 0, sizeof(group));
    group.raw[10] = group.raw[11] = 0xff;
    group.raw[12] = 239;
    group.raw[15] = 7;
}

static int member(int in, int out)
{
    struct end e = end_make(open_device(1), IBV_QPT_UD, 4096);
    struct ibv_wc wc;
    char c;

    end_connect(&e, &e.self);
    CHECK(post_recv(&e, 1, 0, 1024) == 0 && post_recv(&e, 2, 1024, 1024) == 0);
    CHECK(ibv_attach_mcast(e.qp, &group, 0) == 0);
    CHECK(write(out, "a", 1) == 1);
    wc = wait_wc(e.cq, 5000);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 40 + 64 && e.buf[40] == 11);
    CHECK(ibv_destroy_qp(e.qp) == EBUSY);
    CHECK(ibv_detach_mcast(e.qp, &group, 0) == 0);
    CHECK(write(out, "d", 1) == 1 && read(in, &c, 1) == 1);
    CHECK(ibv_poll_cq(e.cq, 1, &wc) == 0);
    end_free(&e);
    return PASS;
}

static void send_to_group(struct end *e, struct ibv_ah *ah)
{
    struct ibv_sge sge = {(uintptr_t)e->buf, 64, e->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = 0xffffff;
    wr.wr.ud.remote_qkey = 0x1234;
    memset(e->buf, 11, 64);
    CHECK(ibv_post_send(e->qp, &wr, &bad) == 0);
    CHECK(wait_wc(e->cq, 2000).status == IBV_WC_SUCCESS);
}

int main(void)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 1}};
    int to[2], from[2], status;
    struct ibv_ah *ah;
    pid_t pid[2];
    struct end e;
    char c;

    make_group();
    attr.grh.dgid = group;
    pid[0] = spawn(member, &to[0], &from[0]);
    e = end_make(open_device(0), IBV_QPT_UD, 4096);
    end_connect(&e, &e.self);
    CHECK(ah = ibv_create_ah(e.pd, &attr));
    for (int i = 0; i < 2; i++) {
        if (i)
            pid[i] = spawn(member, &to[i], &from[i]); /* a relative: it shares this process's region */
        CHECK(read(from[i], &c, 1) == 1 && c == 'a');
        send_to_group(&e, ah);
        CHECK(read(from[i], &c, 1) == 1 && c == 'd');
        send_to_group(&e, ah);
        CHECK(write(to[i], "x", 1) == 1);
        CHECK(waitpid(pid[i], &status, 0) == pid[i] && status == 0);
    }
    CHECK(ibv_destroy_ah(ah) == 0);
    end_free(&e);
    return PASS;
}
