/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion counters of the EFA device: what they count, and what they refuse. Needs rdma-core 65; declares what the
 * headers of older ones lack. */
#include "efa_self.h"

struct init {
    uint32_t comp_mask, type, flags;
};

struct attach {
    uint32_t comp_mask, kinds;
};

enum { SEND = 1, RECV = 2, READ = 4 };

static void *(*create)(struct ibv_context *, struct init *);
static int (*destroy)(void *), (*attach)(struct ibv_qp *, void *, struct attach *);
static int (*set)(void *, uint64_t), (*inc_err)(void *, uint64_t);
static int (*read_comp)(void *, uint64_t *), (*read_err)(void *, uint64_t *);

static void *find(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);

    CHECK(function);
    return function;
}

static bool holds(void *counter, uint64_t completed, uint64_t failed)
{
    uint64_t c, f;

    return read_comp(counter, &c) == 0 && read_err(counter, &f) == 0 && c == completed && f == failed;
}

int main(void)
{
    struct init how = {0};
    struct attach sends = {0, SEND}, receives = {0, RECV}, reads = {0, READ};
    void *sent, *received;
    struct ibv_wc wc[2];
    struct self s = {0};

    *(void **)&create = find("ibv_create_comp_cntr");
    *(void **)&destroy = find("ibv_destroy_comp_cntr");
    *(void **)&attach = find("ibv_qp_attach_comp_cntr");
    *(void **)&set = find("ibv_set_comp_cntr");
    *(void **)&inc_err = find("ibv_inc_err_comp_cntr");
    *(void **)&read_comp = find("ibv_read_comp_cntr");
    *(void **)&read_err = find("ibv_read_err_comp_cntr");
    self_open(&s);
    CHECK(s.cq = ibv_create_cq(s.ctx, 16, NULL, NULL, 0));
    self_make(&s);
    CHECK((sent = create(s.ctx, &how)) && (received = create(s.ctx, &how)));
    CHECK(attach(s.qp, sent, &sends) == 0 && attach(s.qp, received, &receives) == 0);
    CHECK(attach(s.qp, received, &sends) == EBUSY);
    self_ready(&s);
    CHECK(attach(s.qp, received, &reads) == EINVAL); /* only before RTR */
    for (uint64_t i = 0; i < 5; i++) {
        self_recv(&s, i);
        self_send(&s, i, s.qp->qp_num);
        self_poll(&s, wc, 2);
    }
    CHECK(holds(sent, 5, 0) && holds(received, 5, 0));
    self_send(&s, 9, s.qp->qp_num ^ 0x40);
    self_poll(&s, wc, 1);
    CHECK(wc[0].status != IBV_WC_SUCCESS && holds(sent, 5, 1));
    CHECK(set(received, 100) == 0 && inc_err(received, 3) == 0 && holds(received, 100, 3));
    CHECK(destroy(sent) == EBUSY);
    CHECK(ibv_destroy_qp(s.qp) == 0 && destroy(sent) == 0 && destroy(received) == 0);
    printf("counted\n");
    return 0;
}
