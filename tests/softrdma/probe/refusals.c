/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that are refused, and with which errno: what the device lacks, what does not exist, what is still in
 * use, what does not fit. */
#define _GNU_SOURCE
#include "probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

static void ask_missing(void)
{
    /* looked up, so that the program runs over rdma-core 33 too, which has not got it */
    __typeof__(&ibv_reg_dmabuf_mr) reg_dmabuf_mr = dlsym(RTLD_DEFAULT, "ibv_reg_dmabuf_mr");
    struct ibv_context *c = contexts[0];
    struct ibv_xrcd_init_attr xrcd = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    struct ibv_alloc_dm_attr dm = {.length = 64};
    struct ibv_td_init_attr td = {0};
    struct ibv_parent_domain_init_attr parent = {.pd = pds[0]};
    struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pds[0]};
    static uint8_t bytes[100];
    struct ibv_mr *mr = ibv_reg_mr(pds[0], bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);

    fact_errno("refusals", "open_xrcd", ERRNO_OF_POINTER(ibv_open_xrcd(c, &xrcd)));
    fact_errno("refusals", "alloc_dm", ERRNO_OF_POINTER(ibv_alloc_dm(c, &dm)));
    fact_errno("refusals", "alloc_td", ERRNO_OF_POINTER(ibv_alloc_td(c, &td)));
    fact_errno("refusals", "alloc_parent_domain", ERRNO_OF_POINTER(ibv_alloc_parent_domain(c, &parent)));
    fact_errno("refusals", "create_wq", ERRNO_OF_POINTER(ibv_create_wq(c, &wq)));
    fact_errno("refusals", "alloc_null_mr", ERRNO_OF_POINTER(ibv_alloc_null_mr(pds[0])));
    fact_errno("refusals", "reg_dmabuf_mr",
               !reg_dmabuf_mr ? EOPNOTSUPP : ERRNO_OF_POINTER(reg_dmabuf_mr(pds[0], 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE)));
    fact("refusals", "rereg_mr", "%s",
         (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0)) ? "refused" : "ok");
    fact_errno("refusals", "import_pd", ERRNO_OF_POINTER(ibv_import_pd(c, 0)));
    struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    fact_errno("refusals", "query_rt_values_ex", ERRNO_OF_INT(ibv_query_rt_values_ex(c, &values)));
    struct ibv_sge sge = {(uintptr_t)bytes, sizeof(bytes), mr->lkey};
    fact_errno("refusals", "advise_mr",
               ERRNO_OF_INT(ibv_advise_mr(pds[0], IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1)));
    ibv_dereg_mr(mr);
    fact_errno("refusals", "alloc_mw type 1", ERRNO_OF_POINTER(ibv_alloc_mw(pds[0], IBV_MW_TYPE_1)));
    fact_errno("refusals", "alloc_mw type 2", ERRNO_OF_POINTER(ibv_alloc_mw(pds[0], IBV_MW_TYPE_2)));
    fact_errno("refusals", "alloc_mw type 3", ERRNO_OF_POINTER(ibv_alloc_mw(pds[0], 3)));
    fact_errno("refusals", "alloc_mw type 0", ERRNO_OF_POINTER(ibv_alloc_mw(pds[0], 0)));
}

static void ask_indices(void)
{
    struct ibv_context *c = contexts[0];
    struct ibv_port_attr port;
    struct ibv_gid_entry entry;
    union ibv_gid gid;
    uint16_t pkey;
    fact_errno("refusals", "query_port 0", ERRNO_OF_INT(ibv_query_port(c, 0, &port)));
    fact_errno("refusals", "query_port 2", ERRNO_OF_INT(ibv_query_port(c, 2, &port)));
    fact_errno("refusals", "query_gid of an empty index", ERRNO_OF_INT(ibv_query_gid(c, 1, 500, &gid)));
    fact("refusals", "query_gid of index 5000", "%d", ibv_query_gid(c, 1, 5000, &gid));
    fact_errno("refusals", "query_gid_ex of an empty index",
               ERRNO_OF_INT(ibv_query_gid_ex(c, 1, 500, &entry, 0)));
    fact_errno("refusals", "query_gid_ex of index 5000",
               ERRNO_OF_INT(ibv_query_gid_ex(c, 1, 5000, &entry, 0)));
    fact_errno("refusals", "query_gid_ex of port 2", ERRNO_OF_INT(ibv_query_gid_ex(c, 2, 0, &entry, 0)));
    fact_errno("refusals", "query_gid_ex with a flag", ERRNO_OF_INT(ibv_query_gid_ex(c, 1, 0, &entry, 1)));
    fact("refusals", "query_pkey of index 1", "%d", ibv_query_pkey(c, 1, 1, &pkey));
}

static void ask_one_ah(const char *question, struct ibv_ah_attr attr)
{
    errno = 0;
    struct ibv_ah *ah = ibv_create_ah(pds[0], &attr);
    /* a link-local address that has only just come up resolves nobody for a second or two */
    for (int i = 0; !ah && errno == ETIMEDOUT && attr.grh.sgid_index == 0 && i < 3; i++)
        ah = ibv_create_ah(pds[0], &attr);
    fact_errno("refusals", question, ah ? 0 : errno);
    if (ah)
        ibv_destroy_ah(ah);
}

static void ask_ah(void)
{
    union ibv_gid gid, link_local;
    ibv_query_gid(contexts[1], 1, gid_index, &gid);
    ibv_query_gid(contexts[1], 1, 0, &link_local);
    struct ibv_ah_attr good = {.port_num = 1,
                               .is_global = 1,
                               .grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64}},
                       attr;
    ask_one_ah("create_ah to the peer", good);
    ask_one_ah("create_ah without GRH", (attr = good, attr.is_global = 0, attr));
    ask_one_ah("create_ah port 0", (attr = good, attr.port_num = 0, attr));
    ask_one_ah("create_ah port 2", (attr = good, attr.port_num = 2, attr));
    ask_one_ah("create_ah empty source index", (attr = good, attr.grh.sgid_index = 200, attr));
    ask_one_ah("create_ah hop limit 0", (attr = good, attr.grh.hop_limit = 0, attr));
    ask_one_ah("create_ah GID of the other family", (attr = good, attr.grh.dgid = link_local, attr));
    ask_one_ah("create_ah link-local",
               (attr = good, attr.grh.dgid = link_local, attr.grh.sgid_index = 0, attr));
    ask_one_ah("create_ah to nobody in the network", (attr = good, attr.grh.dgid.raw[15] = 77, attr));
    ask_one_ah("create_ah to no network", (attr = good, attr.grh.dgid.raw[13] = 77, attr));
}

static void ask_busy(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(contexts[0]);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(contexts[0]);
    struct ibv_cq *cq = ibv_create_cq(contexts[0], 4, NULL, channel, 0);
    struct ibv_srq_init_attr srq_attr = {.attr = {4, 1, 0}};
    struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
    struct ibv_qp_init_attr qp_attr = {
        .send_cq = cq, .recv_cq = cq, .srq = srq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(pd, &qp_attr);
    fact_errno("refusals", "destroy_cq under a QP", ERRNO_OF_INT(ibv_destroy_cq(cq)));
    fact_errno("refusals", "destroy_srq under a QP", ERRNO_OF_INT(ibv_destroy_srq(srq)));
    fact_errno("refusals", "dealloc_pd under a QP and an SRQ", ERRNO_OF_INT(ibv_dealloc_pd(pd)));
    fact_errno("refusals", "destroy_comp_channel under a CQ",
               ERRNO_OF_INT(ibv_destroy_comp_channel(channel)));
    fact_errno("refusals", "destroy_qp", ERRNO_OF_INT(ibv_destroy_qp(qp)));
    fact_errno("refusals", "destroy_srq after its QP", ERRNO_OF_INT(ibv_destroy_srq(srq)));
    fact_errno("refusals", "destroy_cq after its QP", ERRNO_OF_INT(ibv_destroy_cq(cq)));
    fact_errno("refusals", "destroy_comp_channel after its CQ",
               ERRNO_OF_INT(ibv_destroy_comp_channel(channel)));

    static uint8_t bytes[100];
    struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
    fact_errno("refusals", "dealloc_pd under an MR", ERRNO_OF_INT(ibv_dealloc_pd(pd)));
    ibv_dereg_mr(mr);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    fact_errno("refusals", "dealloc_pd under an MW", ERRNO_OF_INT(ibv_dealloc_pd(pd)));
    ibv_dealloc_mw(mw);
    union ibv_gid gid;
    ibv_query_gid(contexts[1], 1, gid_index, &gid);
    struct ibv_ah_attr attr = {
        .port_num = 1, .is_global = 1, .grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64}};
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    fact_errno("refusals", "dealloc_pd under an AH", ERRNO_OF_INT(ibv_dealloc_pd(pd)));
    ibv_destroy_ah(ah);
    fact_errno("refusals", "dealloc_pd when empty", ERRNO_OF_INT(ibv_dealloc_pd(pd)));
}

static void ask_posts(void)
{
    struct pair p;
    pair_open(&p, &usual);
    struct ibv_send_wr *bad;
    struct ibv_recv_wr *bad_recv;
    struct work w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    struct ibv_sge three[3] = {w.sge, w.sge, w.sge};
    struct ibv_send_wr wr = w.wr;
    wr.sg_list = three;
    wr.num_sge = 3;
    fact_errno("refusals", "post_send with three SGEs of two", ibv_post_send(p.a.qp, &wr, &bad));
    fact("refusals", "bad_wr of that", "%s", bad == &wr ? "the request" : bad ? "another" : "NULL");
    struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = three, .num_sge = 3};
    fact_errno("refusals", "post_recv with three SGEs of two", ibv_post_recv(p.a.qp, &recv, &bad_recv));

    w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 33, 1);
    w.wr.send_flags |= IBV_SEND_INLINE;
    fact_errno("refusals", "post_send of 33 bytes inline of 32", work_post(&p.a, &w));
    w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 32, 1);
    w.wr.send_flags |= IBV_SEND_INLINE;
    fact_errno("refusals", "post_send of 32 bytes inline of 32", work_post(&p.a, &w));
    w = work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
    w.wr.wr.atomic.remote_addr += 4;
    fact_errno("refusals", "post_send of an atomic on an odd address", work_post(&p.a, &w));
    w = work_atomic(&p.a, &p.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
    w.sge.length = 4;
    fact_errno("refusals", "post_send of an atomic with four bytes", work_post(&p.a, &w));
    pause_ms(10);

    int posted = 0, err;
    while (!(err = recv_post(&p.b, posted, 8)))
        posted++;
    fact("refusals", "post_recv to a full queue of 15", "%s after %d", errno_name(err), posted);
    pair_close(&p);

    /* A send queue fills when the peer does not answer. */
    struct setup how = usual;
    how.timeout = 20;
    pair_open(&p, &how);
    side_to(&p.b, IBV_QPS_RESET);
    posted = 0;
    while (!(err = send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, posted)))
        posted++;
    fact("refusals", "post_send to a full queue of 15", "%s after %d", errno_name(err), posted);
    pair_close(&p);

    how = usual;
    how.b_srq = true;
    pair_open(&p, &how);
    struct ibv_sge sge = {(uintptr_t)p.b.buf, 8, p.b.mr->lkey};
    recv = (struct ibv_recv_wr){.wr_id = 1, .sg_list = &sge, .num_sge = 1};
    fact_errno("refusals", "post_recv to a QP with an SRQ", ibv_post_recv(p.b.qp, &recv, &bad_recv));
    pair_close(&p);
}

void ask_refusals(void)
{
    ask_missing();
    ask_indices();
    ask_ah();
    ask_busy();
    ask_posts();
}
