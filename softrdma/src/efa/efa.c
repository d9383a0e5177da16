/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's face towards the front: addresses, limits, the driver's private answers, and what a program finds about
 * the PCI device. */
#include "efa.h"

#include "../sysfs.h"
#include "../uverbs_table.h"
#include "counter.h"

#define DRIVER_ID_EFA 17
#define VENDOR_AMAZON 0x1d0f
#define FIRST_PCI_ID 0xefa0
#define NEWEST_MAKE 4
#define MAX_TX_BATCH 64 /* of 64 bytes */

static void describe(struct device *d)
{
    uint8_t n = (uint8_t)(d->index + 1), eui[8] = {0x06, 0, 0, 0xff, 0xfe, 0, 0, n};

    if (d->make < 0)
        d->make = NEWEST_MAKE;
    snprintf(d->name, sizeof(d->name), "efa_%d", d->number);
    memcpy(d->guid, eui, 8);
    memcpy(d->gid[0], (const uint8_t[8]){0xfe, 0x80}, 8);
    memcpy(d->gid[0] + 8, eui, 8);
}

static uint32_t pci_id(const struct device *d)
{
    return FIRST_PCI_ID + (uint32_t)d->make;
}

/* Programs look for the bus address in the name that the link leads to, and for the driver. libibverbs looks at the
 * modalias alone (a kernel would tell it the driver by netlink), and older ones know older makes only: so that file names
 * the first. */
static void put_files(const struct device *d)
{
    char dir[64], text[96];

    snprintf(dir, sizeof(dir), "devices/pci0000:00/0000:00:%02x.0", 6 + d->index);
    snprintf(text, sizeof(text), "pci:v%08Xd%08Xsv%08Xsd%08Xbc02sc00i00", VENDOR_AMAZON, FIRST_PCI_ID, VENDOR_AMAZON,
             FIRST_PCI_ID);
    sysfs_put(text, "%s/modalias", dir);
    sysfs_put("0x1d0f", "%s/vendor", dir);
    sysfs_put("0x1d0f", "%s/subsystem_vendor", dir);
    snprintf(text, sizeof(text), "0x%04x", pci_id(d));
    sysfs_put(text, "%s/device", dir);
    sysfs_put(text, "%s/subsystem_device", dir);
    sysfs_put("0x00", "%s/revision", dir);
    sysfs_put("0x020000", "%s/class", dir);
    sysfs_put("-1", "%s/numa_node", dir);
    sysfs_put("", "bus/pci/drivers/efa/module");
    snprintf(text, sizeof(text), "%s/driver", dir);
    sysfs_link("../../../bus/pci/drivers/efa", text);
    snprintf(text, sizeof(text), "class/infiniband/%s/device", d->name);
    snprintf(dir, sizeof(dir), "../../../devices/pci0000:00/0000:00:%02x.0", 6 + d->index);
    sysfs_link(dir, text);
}

static int alloc_context(struct call *c)
{
    const struct efa_make *m = efa_make_of(c->device);
    struct efa_context_out out = {
        .udata_mask = EFA_UDATA_QUERY_DEVICE | EFA_UDATA_CREATE_AH,
        .sub_cqs_per_cq = EFA_SUB_CQS,
        .inline_buf_size = m->inline_size,
        .inline_buf_size_ex = m->inline_size_ex,
        .max_llq_size = m->max_sq_wr * 64,
        .max_tx_batch = MAX_TX_BATCH,
    };

    return call_respond_driver(c, &out, sizeof(out));
}

static void query_device(const struct device *d, struct ib_uverbs_ex_query_device_resp *out)
{
    const struct efa_make *m = efa_make_of(d);
    struct ib_uverbs_query_device_resp *b = &out->base;

    *b = (struct ib_uverbs_query_device_resp){
        .max_mr_size = UINT64_C(1) << 40,
        .page_size_cap = 0xfffff000,
        .vendor_id = VENDOR_AMAZON,
        .vendor_part_id = pci_id(d),
        .hw_ver = pci_id(d),
        .max_qp = m->max_qp,
        .max_qp_wr = m->max_sq_wr < m->max_rq_wr ? m->max_sq_wr : m->max_rq_wr,
        .max_sge = m->max_sq_sge < m->max_rq_sge ? m->max_sq_sge : m->max_rq_sge,
        .max_sge_rd = m->max_rdma_sge,
        .max_cq = m->max_cq,
        .max_cqe = m->max_cqe,
        .max_mr = m->max_mr,
        .max_pd = m->max_pd,
        .max_ah = m->max_ah,
        .max_pkeys = 1,
        .phys_port_cnt = 1,
    };
    memcpy(&b->node_guid, d->guid, 8);
    memcpy(&b->sys_image_guid, d->guid, 8);
}

static int query_device_driver(struct call *c)
{
    const struct efa_make *m = efa_make_of(c->device);
    struct efa_device_out out = {
        .max_sq_wr = m->max_sq_wr,
        .max_rq_wr = m->max_rq_wr,
        .max_sq_sge = m->max_sq_sge,
        .max_rq_sge = m->max_rq_sge,
        .max_rdma_size = m->max_rdma_size,
        .device_caps = m->caps,
    };

    return call_respond_driver(c, &out, sizeof(out));
}

static void query_port(const struct device *d, struct ib_uverbs_query_port_resp_ex *out)
{
    out->legacy_resp = (struct ib_uverbs_query_port_resp){
        .state = 4, /* ACTIVE */
        .max_mtu = 5,
        .active_mtu = 5,
        .gid_tbl_len = 1,
        .pkey_tbl_len = 1,
        .max_msg_sz = efa_make_of(d)->mtu,
        .lmc = 1,
        .max_vl_num = 1,
        .active_width = 2,
        .active_speed = 32,
        .phys_state = 5, /* LinkUp */
        .link_layer = 0, /* unspecified */
    };
}

static int alloc_pd(struct call *c, uint32_t pd)
{
    struct efa_pd_out out = {.pdn = (uint16_t)pd};

    return call_respond_driver(c, &out, sizeof(out));
}

static int check_access(const struct device *d, uint32_t access)
{
    const struct efa_make *m = efa_make_of(d);
    uint32_t known = IB_UVERBS_ACCESS_LOCAL_WRITE;

    if (m->caps & EFA_CAP_RDMA_READ)
        known |= IB_UVERBS_ACCESS_REMOTE_READ;
    if (m->caps & EFA_CAP_RDMA_WRITE)
        known |= IB_UVERBS_ACCESS_REMOTE_WRITE;
    return access & ~known ? EOPNOTSUPP : 0;
}

static bool has_qp_type(uint32_t type)
{
    return type == IB_UVERBS_QPT_UD || type == EFA_QPT_SRD;
}

enum { /* of the driver's own method of a memory region */
       MR_QUERY = 1 << UVERBS_ID_NS_SHIFT,
       MR_QUERY_HANDLE = 1 << UVERBS_ID_NS_SHIFT,
       MR_QUERY_VALIDITY,
       MR_QUERY_RECV_IC,
       MR_QUERY_READ_IC,
       MR_QUERY_RDMA_RECV_IC,
};

/* Through which interconnect of the device the memory is reached: there is one. */
static int query_mr(struct call *c)
{
    uint16_t all = 7, first = 0;
    int err = 0;

    if (call_object(c, MR_QUERY_HANDLE, OBJ_MR) == NONE)
        return ENOENT;
    for (uint16_t id = MR_QUERY_VALIDITY; id <= MR_QUERY_RDMA_RECV_IC && !err; id++)
        err = call_out(c, id, id == MR_QUERY_VALIDITY ? &all : &first, sizeof(all));
    return err;
}

static const struct uverbs_method methods[] = {
    COUNTER_METHODS,
    DRIVER_METHOD(UVERBS_OBJECT_MR, MR_QUERY, "EFA_MR_QUERY", query_mr, HANDLE(MR_QUERY_HANDLE),
                  OUT(MR_QUERY_VALIDITY, 2), OUT(MR_QUERY_RECV_IC, 2), OUT(MR_QUERY_READ_IC, 2),
                  OUT(MR_QUERY_RDMA_RECV_IC, 2)),
};

const struct device_model efa_model = {
    .name = "efa",
    .driver_id = DRIVER_ID_EFA,
    .abi_version = 1,
    .node_type = "7: <unknown>",
    .link_layer = "Unknown",
    .gid_type_name = "IB/RoCE v1",
    .rate = "100 Gb/sec (4X EDR)",
    .gid_type = IB_UVERBS_GID_TYPE_IB,
    .gid_table = 1,
    .core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS,
    .key_shift = EFA_KEY_SHIFT,
    .has_cq_memory = true,
    .methods = methods,
    .nmethods = NELEM(methods),
    .has_make = efa_has_make,
    .describe = describe,
    .put_files = put_files,
    .alloc_context = alloc_context,
    .query_device = query_device,
    .query_device_driver = query_device_driver,
    .query_port = query_port,
    .alloc_pd = alloc_pd,
    .has_dmabuf = true,
    .check_access = check_access,
    .create_cq = efa_create_cq,
    .destroy_cq = efa_destroy_cq,
    .has_qp_type = has_qp_type,
    .create_qp = efa_create_qp,
    .destroy_qp = efa_destroy_qp,
    .modify_qp = efa_modify_qp,
    .break_qp = efa_break_qp,
    .query_qp = efa_query_qp,
    .check_ah = efa_check_ah,
    .create_ah = efa_create_ah,
    .destroy_ah = efa_destroy_ah,
    .ring_qp = efa_ring_qp,
    .ring_cq = efa_ring_cq,
    .run = efa_run,
};
