/* SPDX-License-Identifier: BSD-3-Clause */
/* The stub's devices: listing, opening, and what queries of device, port, GID and P_Key answer. */
#include "stub.h"
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port

#define MAX_DEVICES 4
#define MAX_PORTS 2
#define GIDS 8
#define PKEYS 2
#define EFA_DEVICE 2

/* Bytes that the exported ibv_query_port writes: the structure as it was before port_cap_flags2. */
#define COMPAT_PORT_ATTR 48
_Static_assert(offsetof(struct ibv_port_attr, port_cap_flags2) == COMPAT_PORT_ATTR, "ibv_port_attr has another layout");

static struct device {
    struct ibv_device device;     /* first: what the list points to */
    uint64_t guid;                /* network byte order */
    struct ibv_device_attr attr;
    struct ibv_port_attr ports[MAX_PORTS];
    union ibv_gid gids[GIDS];
    struct stub_efa_limits efa;   /* all zero where it is no EFA device */
} devices[MAX_DEVICES];
static int device_count;
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;

static void fill_ports(struct device *dev, bool infiniband)
{
    for (int i = 0; i < dev->attr.phys_port_cnt; i++)
        dev->ports[i] = (struct ibv_port_attr){
            .state = IBV_PORT_ACTIVE, .max_mtu = IBV_MTU_4096, .active_mtu = infiniband ? IBV_MTU_4096 : IBV_MTU_1024,
            .gid_tbl_len = GIDS, .port_cap_flags = 0x04010000, .max_msg_sz = 1u << 30, .bad_pkey_cntr = 3,
            .qkey_viol_cntr = 4, .pkey_tbl_len = PKEYS, .lid = infiniband ? 17 + i : 0, .sm_lid = infiniband ? 1 : 0,
            .lmc = 1, .max_vl_num = 4, .sm_sl = 2, .subnet_timeout = 18, .init_type_reply = 5, .active_width = 2,
            .active_speed = 32, .phys_state = 5, .flags = 6, .port_cap_flags2 = 0x12,
            .link_layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
        };
}

/* What EFA has less of: one port and one GID, no link layer of a name, few entries. */
static void make_efa(struct device *dev)
{
    dev->device.node_type = IBV_NODE_UNSPECIFIED;
    dev->device.transport_type = IBV_TRANSPORT_UNSPECIFIED;
    dev->efa = (struct stub_efa_limits){
        .max_sq_wr = 4096, .max_rq_wr = 32768, .max_sq_sge = 8, .max_rq_sge = 8, .inline_buf_size = 32,
        .inline_buf_size_ex = STUB_RELEASE >= 63 ? 128 : 0, .caps = STUB_EFA_CAPS, .max_rdma_size = 1u << 31,
    };
    dev->attr.max_qp_wr = 32768;
    dev->attr.max_sge = 8;
    dev->attr.max_sge_rd = 1;
    dev->attr.atomic_cap = IBV_ATOMIC_NONE;
    dev->attr.max_srq = dev->attr.max_srq_wr = dev->attr.max_srq_sge = dev->attr.max_mw = 0;
    dev->attr.max_pkeys = 1;
    dev->ports[0].gid_tbl_len = dev->ports[0].pkey_tbl_len = dev->ports[0].lmc = 1;
    dev->ports[0].max_msg_sz = 8928;
    dev->ports[0].active_mtu = IBV_MTU_4096;
    dev->ports[0].link_layer = IBV_LINK_LAYER_UNSPECIFIED;
    memset(dev->gids + 1, 0, sizeof dev->gids - sizeof dev->gids[0]);
}

static void fill_device(struct device *dev, int index)
{
    bool infiniband = index % 2;
    uint64_t eui = 0x0200c0fffe000001ull + (uint64_t)index;
    uint64_t words[2] = {htobe64(0xfe80000000000000ull), htobe64(eui)};

    memset(dev, 0, sizeof *dev);
    dev->device.node_type = IBV_NODE_CA;
    dev->device.transport_type = IBV_TRANSPORT_IB;
    snprintf(dev->device.name, sizeof dev->device.name, "stub%d", index);
    snprintf(dev->device.dev_name, sizeof dev->device.dev_name, "uverbs%d", index);
    snprintf(dev->device.dev_path, sizeof dev->device.dev_path, "/sys/class/infiniband_verbs/uverbs%d", index);
    snprintf(dev->device.ibdev_path, sizeof dev->device.ibdev_path, "/sys/class/infiniband/stub%d", index);
    dev->guid = htobe64(eui);
    dev->attr = (struct ibv_device_attr){
        .fw_ver = "1.2.3", .node_guid = dev->guid, .sys_image_guid = htobe64(eui + 0x100), .max_mr_size = 1ull << 40,
        .page_size_cap = 0xfffff000, .vendor_id = 0x57b, .vendor_part_id = 0x1234, .hw_ver = 7, .max_qp = 1 << 17,
        .max_qp_wr = 16384, .device_cap_flags = 0x1c76, .max_sge = 32, .max_sge_rd = 31, .max_cq = 1 << 17,
        .max_cqe = 1 << 16, .max_mr = 1 << 20, .max_pd = 1 << 16, .max_qp_rd_atom = 16, .max_ee_rd_atom = 9,
        .max_res_rd_atom = 4096, .max_qp_init_rd_atom = 12, .max_ee_init_rd_atom = 11, .atomic_cap = IBV_ATOMIC_HCA,
        .max_ee = 21, .max_rdd = 22, .max_mw = 23, .max_raw_ipv6_qp = 24, .max_raw_ethy_qp = 25, .max_mcast_grp = 26,
        .max_mcast_qp_attach = 27, .max_total_mcast_qp_attach = 28, .max_ah = 1 << 16, .max_fmr = 29,
        .max_map_per_fmr = 30, .max_srq = 1 << 12, .max_srq_wr = 8192, .max_srq_sge = 30, .max_pkeys = PKEYS,
        .local_ca_ack_delay = 15, .phys_port_cnt = infiniband ? 2 : 1,
    };
    fill_ports(dev, infiniband);
    memcpy(dev->gids[0].raw, words, 16);
    if (!infiniband) {
        dev->gids[1].raw[10] = dev->gids[1].raw[11] = 0xff;
        memcpy(dev->gids[1].raw + 12, (uint8_t[]){192, 0, 2, (uint8_t)(index + 1)}, 4);
    }
    if (index == EFA_DEVICE)
        make_efa(dev);
}

static void fill_all(void)
{
    for (int i = 0; i < MAX_DEVICES; i++)
        fill_device(&devices[i], i);
    device_count = 3;
}

void stub_reset_devices(void)
{
    pthread_once(&devices_once, fill_all);
    fill_all();
}

static struct device *device_of(const struct ibv_context *context)
{
    return (struct device *)context->device;
}

const struct ibv_device_attr *stub_limits(const struct ibv_context *context)
{
    return &device_of(context)->attr;
}

const struct stub_efa_limits *stub_efa_limits(const struct ibv_context *context)
{
    const struct device *dev = device_of(context);

    return dev->efa.max_sq_wr ? &dev->efa : NULL;
}

int stub_port_count(const struct ibv_context *context)
{
    return device_of(context)->attr.phys_port_cnt;
}

int stub_gid_count(void)
{
    return GIDS;
}

STUB_EXPORT void stub_set_devices(int count)
{
    pthread_once(&devices_once, fill_all);
    device_count = count < 0 ? 0 : count > MAX_DEVICES ? MAX_DEVICES : count;
}

STUB_EXPORT void stub_set_guid(int device, uint64_t guid)
{
    pthread_once(&devices_once, fill_all);
    devices[device].guid = devices[device].attr.node_guid = guid;
}

STUB_EXPORT void stub_set_port(int device, int link_layer, int state, int active_mtu, int lid)
{
    pthread_once(&devices_once, fill_all);
    for (int i = 0; i < MAX_PORTS; i++) {
        devices[device].ports[i].link_layer = (uint8_t)link_layer;
        devices[device].ports[i].state = (enum ibv_port_state)state;
        devices[device].ports[i].active_mtu = (enum ibv_mtu)active_mtu;
        devices[device].ports[i].lid = (uint16_t)lid;
    }
}

STUB_EXPORT void stub_set_gid(int device, int index, const uint8_t raw[16])
{
    pthread_once(&devices_once, fill_all);
    memcpy(devices[device].gids[index].raw, raw, 16);
}

STUB_EXPORT void stub_set_limits(int device, const struct ibv_device_attr *attr)
{
    pthread_once(&devices_once, fill_all);
    devices[device].attr = *attr;
}

STUB_EXPORT void stub_set_efa_caps(uint32_t caps)
{
    pthread_once(&devices_once, fill_all);
    devices[EFA_DEVICE].efa.caps = caps;
}

/* The list, and before it what stub_delete needs. */
struct device_list {
    struct stub_object object;
    struct ibv_device *entries[MAX_DEVICES + 1];
};

#ifdef RDMA_STATIC_PROVIDERS
#undef ibv_get_device_list
#endif

STUB_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct device_list *list;
    int err;

    pthread_once(&devices_once, fill_all);
    if (num_devices)
        *num_devices = 0;
    if ((err = stub_enter(VERB_get_device_list, NULL)))
        return stub_null(err);
    list = stub_new(KIND_device_list, sizeof *list, offsetof(struct device_list, object), NULL);
    if (list) {
        for (int i = 0; i < device_count; i++)
            list->entries[i] = &devices[i].device;
        if (num_devices)
            *num_devices = device_count;
    }
    stub_leave(VERB_get_device_list, NULL);
    return list ? list->entries : stub_null(ENOMEM);
}

STUB_EXPORT void ibv_free_device_list(struct ibv_device **entries)
{
    struct device_list *list = (struct device_list *)((char *)entries - offsetof(struct device_list, entries));

    if (stub_enter(VERB_free_device_list, NULL))
        return;
    stub_check(&list->object, KIND_device_list, VERB_free_device_list);
    memset(list->entries, 0xa5, sizeof list->entries);
    stub_delete(&list->object);
    stub_leave(VERB_free_device_list, NULL);
}

STUB_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

STUB_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
    return ((struct device *)device)->guid;
}

#if STUB_RELEASE >= 30
STUB_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    return (int)((struct device *)device - devices);
}
#endif

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr, enum stub_verb verb)
{
    struct stub_context *ctx = stub_context_of(context);
    int err;

    stub_check(&ctx->object, KIND_context, verb);
    if ((err = stub_enter(verb, &ctx->object)))
        return stub_positive(err);
    *attr = device_of(context)->attr;
    stub_leave(verb, &ctx->object);
    return 0;
}

STUB_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    return query_device(context, attr, VERB_query_device);
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr basic;
    int err;

    if ((input && input->comp_mask) || size < sizeof attr->orig_attr)
        return EINVAL;
    if ((err = query_device(context, &basic, VERB_query_device_ex)))
        return err;
    memset(attr, 0, size);
    attr->orig_attr = basic;
    if (size >= offsetof(struct ibv_device_attr_ex, phys_port_cnt_ex) + sizeof attr->phys_port_cnt_ex)
        attr->phys_port_cnt_ex = basic.phys_port_cnt;
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, void *attr, size_t size, enum stub_verb verb)
{
    struct stub_context *ctx = stub_context_of(context);
    int err;

    stub_check(&ctx->object, KIND_context, verb);
    if ((err = stub_enter(verb, &ctx->object)))
        return stub_positive(err);
    if (port < 1 || port > stub_port_count(context))
        err = EINVAL;
    else {
        struct ibv_port_attr *from = &device_of(context)->ports[port - 1];

        memset(attr, 0, size);
        memcpy(attr, from, size < sizeof *from ? size : sizeof *from);
    }
    stub_leave(verb, &ctx->object);
    return err;
}

STUB_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    return query_port(context, port, attr, COMPAT_PORT_ATTR, VERB_query_port_compat);
}

#if STUB_RELEASE >= 22
static int query_port_op(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
    return query_port(context, port, attr, size, VERB_query_port);
}
#endif

STUB_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    struct stub_context *ctx = stub_context_of(context);
    int err;

    stub_check(&ctx->object, KIND_context, VERB_query_gid);
    if ((err = stub_enter(VERB_query_gid, &ctx->object)))
        return stub_minus_one(err);
    if (port < 1 || port > stub_port_count(context) || index < 0 || index >= GIDS)
        err = EINVAL;
    else
        *gid = device_of(context)->gids[index];
    stub_leave(VERB_query_gid, &ctx->object);
    return err ? stub_minus_one(err) : 0;
}

STUB_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    struct stub_context *ctx = stub_context_of(context);
    int err;

    stub_check(&ctx->object, KIND_context, VERB_query_pkey);
    if ((err = stub_enter(VERB_query_pkey, &ctx->object)))
        return stub_minus_one(err);
    if (port < 1 || port > stub_port_count(context) || index < 0 || index >= PKEYS)
        err = EINVAL;
    else
        *pkey = htobe16(index ? 0x8001 : 0xffff);
    stub_leave(VERB_query_pkey, &ctx->object);
    return err ? stub_minus_one(err) : 0;
}

#if STUB_RELEASE >= 20
STUB_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    if (stub_enter(VERB_get_pkey_index, &stub_context_of(context)->object))
        return -1;
    stub_leave(VERB_get_pkey_index, &stub_context_of(context)->object);
    if (port < 1 || port > stub_port_count(context))
        return -1;
    return pkey == htobe16(0xffff) ? 0 : pkey == htobe16(0x8001) ? 1 : -1;
}
#endif

#if STUB_RELEASE >= 32
static bool empty_gid(const union ibv_gid *gid)
{
    static const union ibv_gid none;

    return !memcmp(gid, &none, sizeof none);
}

static void fill_gid_entry(struct device *dev, uint32_t port, uint32_t index, void *entry, size_t size)
{
    bool roce = dev->ports[port - 1].link_layer == IBV_LINK_LAYER_ETHERNET;
    struct ibv_gid_entry full = {
        .gid = dev->gids[index], .gid_index = index, .port_num = port,
        .gid_type = roce ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB, .ndev_ifindex = roce ? 1 : 0,
    };

    memset(entry, 0, size);
    memcpy(entry, &full, size < sizeof full ? size : sizeof full);
}

STUB_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                                  struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    struct stub_context *ctx = stub_context_of(context);
    int err;

    stub_check(&ctx->object, KIND_context, VERB_query_gid_ex);
    if ((err = stub_enter(VERB_query_gid_ex, &ctx->object)))
        return stub_positive(err);
    if (flags || port < 1 || port > (uint32_t)stub_port_count(context) || index >= GIDS)
        err = EINVAL;
    else if (empty_gid(&device_of(context)->gids[index]))
        err = ENODATA;
    else
        fill_gid_entry(device_of(context), port, index, entry, size);
    stub_leave(VERB_query_gid_ex, &ctx->object);
    return err;
}

STUB_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t room,
                                         uint32_t flags, size_t size)
{
    struct stub_context *ctx = stub_context_of(context);
    size_t found = 0;
    int err;

    stub_check(&ctx->object, KIND_context, VERB_query_gid_table);
    if ((err = stub_enter(VERB_query_gid_table, &ctx->object)))
        return err == STUB_NO_ERRNO ? -1 : -err;
    if (flags)
        err = EINVAL;
    for (int port = 1; !err && port <= stub_port_count(context); port++)
        for (uint32_t i = 0; i < GIDS && found < room; i++)
            if (!empty_gid(&device_of(context)->gids[i]))
                fill_gid_entry(device_of(context), (uint32_t)port, i, (char *)entries + size * found++, size);
    stub_leave(VERB_query_gid_table, &ctx->object);
    return err ? -err : (ssize_t)found;
}
#endif

static struct ibv_mw *no_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    (void)pd, (void)type;
    return stub_null(EOPNOTSUPP);
}

static int no_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    (void)qp, (void)mw, (void)bind;
    return EOPNOTSUPP;
}

static int no_dealloc_mw(struct ibv_mw *mw)
{
    (void)mw;
    return EOPNOTSUPP;
}

static void fill_ops(struct verbs_context *vctx)
{
#if STUB_RELEASE < 22
    /* The structure of an old library ends here; what lies above is somebody else's memory. */
    memset(vctx, 0x5a, offsetof(struct verbs_context, destroy_rwq_ind_table));
    vctx->sz = sizeof *vctx - offsetof(struct verbs_context, destroy_rwq_ind_table);
#else
    vctx->query_port = query_port_op;
    vctx->sz = sizeof *vctx;
#endif
    vctx->query_device_ex = query_device_ex;
    vctx->create_qp_ex = stub_create_qp_ex;
    vctx->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    vctx->context.ops.alloc_mw = no_alloc_mw;
    vctx->context.ops.bind_mw = no_bind_mw;
    vctx->context.ops.dealloc_mw = no_dealloc_mw;
    vctx->context.ops.poll_cq = stub_poll_cq;
    vctx->context.ops.req_notify_cq = stub_req_notify_cq;
    vctx->context.ops.post_send = stub_post_send;
    vctx->context.ops.post_recv = stub_post_recv;
    vctx->context.ops.post_srq_recv = stub_post_srq_recv;
}

STUB_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct stub_context *ctx;
    struct ibv_context *context;
    int err = stub_enter(VERB_open_device, NULL);

    if (err)
        return stub_null(err);
    ctx = stub_new(KIND_context, sizeof *ctx, offsetof(struct stub_context, object), NULL);
    stub_leave(VERB_open_device, NULL);
    if (!ctx)
        return stub_null(ENOMEM);
    context = &ctx->vctx.context;
    fill_ops(&ctx->vctx);
    ctx->device = (int)((struct device *)device - devices);
    context->device = device;
    context->num_comp_vectors = 3;
    pthread_mutex_init(&context->mutex, NULL);
    context->cmd_fd = eventfd(0, EFD_CLOEXEC);
    if (context->cmd_fd < 0) {
        err = errno;
        goto err_delete;
    }
    if ((err = stub_queue_open(&ctx->events)))
        goto err_close;
    context->async_fd = ctx->events.fd;
    return context;

err_close:
    close(context->cmd_fd);
err_delete:
    stub_delete(&ctx->object);
    return stub_null(err);
}

STUB_EXPORT int ibv_close_device(struct ibv_context *context)
{
    struct stub_context *ctx = stub_context_of(context);
    int err;

    stub_check(&ctx->object, KIND_context, VERB_close_device);
    if ((err = stub_enter(VERB_close_device, &ctx->object)))
        return stub_minus_one(err);
    pthread_mutex_lock(&stub_mutex);
    if (ctx->object.children)
        stub_violation("close_device with %d objects open", ctx->object.children);
    ctx->object.children = 0;
    pthread_mutex_unlock(&stub_mutex);
    stub_queue_close(&ctx->events);
    close(context->cmd_fd);
    stub_leave(VERB_close_device, &ctx->object);
    stub_delete(&ctx->object);
    return 0;
}
