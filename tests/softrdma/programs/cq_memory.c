/* SPDX-License-Identifier: BSD-3-Clause */
/* A completion queue of the EFA device in memory that the program brings by a descriptor: a message to itself, through
 * the library's polling. Needs rdma-core 59; declares what the headers of older ones lack. */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/efadv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);        \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

struct cq_attr { /* efadv_cq_init_attr, as of rdma-core 59 */
    uint64_t comp_mask, wc_flags, flags;
    struct {
        uint8_t *buffer;
        uint64_t length, offset;
        uint32_t fd;
        uint8_t reserved[4];
    } memory;
};

enum { SIZE = 1 << 16, OFFSET = 4096, DEPTH = 16, QKEY = 7, ROUNDS = 100 };

static struct ibv_cq *make_cq(struct ibv_context *ctx, uint64_t length)
{
    struct ibv_cq_init_attr_ex init = {.cqe = DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct cq_attr attr = {.flags = 1};
    struct ibv_cq_ex *(*create)(struct ibv_context *, struct ibv_cq_init_attr_ex *, void *, uint32_t);
    struct ibv_cq_ex *cq;
    int fd = memfd_create("queue", 0);

    *(void **)&create = dlsym(RTLD_DEFAULT, "efadv_create_cq");
    CHECK(create && fd >= 0 && ftruncate(fd, SIZE) == 0);
    attr.memory.buffer = (uint8_t *)mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0) + OFFSET;
    attr.memory.fd = (uint32_t)fd;
    attr.memory.offset = OFFSET;
    attr.memory.length = length;
    cq = create(ctx, &init, &attr, sizeof(attr));
    close(fd);
    return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_DRIVER,
                                    .sq_sig_all = 1};
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
    struct ibv_qp *qp = efadv_create_driver_qp(pd, &init, EFADV_QP_DRIVER_TYPE_SRD);

    CHECK(qp && ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    a.qp_state = IBV_QPS_RTR;
    CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
    a.qp_state = IBV_QPS_RTS;
    CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    return qp;
}

int main(void)
{
    static uint8_t memory[64];
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *ctx = ibv_open_device(list[0]);
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    struct ibv_cq *cq = make_cq(ctx, SIZE - OFFSET);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};
    struct ibv_qp *qp;
    struct ibv_ah *ah;

    CHECK(ctx && pd && cq && mr);
    CHECK(!make_cq(ctx, 64) && errno == EINVAL); /* too small */
    qp = make_qp(pd, cq);
    CHECK(ibv_query_gid(ctx, 1, 0, &to.grh.dgid) == 0);
    ah = ibv_create_ah(pd, &to);
    CHECK(ah);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey}, into = {(uintptr_t)memory + 8, 8, mr->lkey};
        struct ibv_send_wr send = {.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
        struct ibv_recv_wr recv = {.wr_id = ~i, .sg_list = &into, .num_sge = 1}, *bad_recv;
        struct ibv_wc wc[2] = {0};
        int n = 0;

        memcpy(memory, &i, sizeof(i));
        send.wr.ud.ah = ah;
        send.wr.ud.remote_qpn = qp->qp_num;
        send.wr.ud.remote_qkey = QKEY;
        CHECK(ibv_post_recv(qp, &recv, &bad_recv) == 0 && ibv_post_send(qp, &send, &bad_send) == 0);
        while (n < 2)
            n += ibv_poll_cq(cq, 2 - n, wc + n);
        CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
        CHECK((wc[0].wr_id == i || wc[1].wr_id == i) && (wc[0].wr_id == ~i || wc[1].wr_id == ~i));
        CHECK(memcmp(memory + 8, &i, sizeof(i)) == 0);
    }
    CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
    printf("%d rounds\n", ROUNDS);
    return 0;
}
