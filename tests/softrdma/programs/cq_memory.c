/* SPDX-License-Identifier: BSD-3-Clause */
/* A completion queue of the EFA device in memory that the program brings by a descriptor: messages to itself, through
 * the library's polling. Needs rdma-core 59; declares what the headers of older ones lack. */
#include "efa_self.h"

struct cq_attr { /* efadv_cq_init_attr, as of rdma-core 59 */
    uint64_t comp_mask, wc_flags, flags;
    struct {
        uint8_t *buffer;
        uint64_t length, offset;
        uint32_t fd;
        uint8_t reserved[4];
    } memory;
};

enum { SIZE = 1 << 16, OFFSET = 4096, DEPTH = 16, ROUNDS = 100 };

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

int main(void)
{
    struct self s = {0};

    self_open(&s);
    CHECK(s.cq = make_cq(s.ctx, SIZE - OFFSET));
    CHECK(!make_cq(s.ctx, 64) && errno == EINVAL); /* too small */
    self_start(&s);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct ibv_wc wc[2] = {0};

        memcpy(s.memory, &i, sizeof(i));
        self_recv(&s, ~i);
        self_send(&s, i, s.qp->qp_num);
        self_poll(&s, wc, 2);
        CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
        CHECK((wc[0].wr_id == i || wc[1].wr_id == i) && (wc[0].wr_id == ~i || wc[1].wr_id == ~i));
        CHECK(memcmp(s.memory + 8, &i, sizeof(i)) == 0);
    }
    CHECK(ibv_destroy_qp(s.qp) == 0 && ibv_destroy_cq(s.cq) == 0);
    printf("%d rounds\n", ROUNDS);
    return 0;
}
