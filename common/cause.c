/* SPDX-License-Identifier: BSD-3-Clause */
/* Causes in words. See cause.h. */
#include "cause.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "qp_rules.h"
#include "verbs.h"

void cause_add(struct cause *self, const char *format, ...)
{
    va_list values;

    if (self->used && self->used < sizeof self->text)
        self->used += (size_t)snprintf(self->text + self->used, sizeof self->text - self->used, "; ");
    if (self->used >= sizeof self->text)
        return;
    va_start(values, format);
    self->used += (size_t)vsnprintf(self->text + self->used, sizeof self->text - self->used, format, values);
    va_end(values);
}

/* ---- limits -------------------------------------------------------------------------------------------------------- */

/* A limit of this process as a person writes it. */
static const char *limit_text(rlim_t limit, char *text, size_t size)
{
    if (limit == RLIM_INFINITY)
        return "unlimited";
    snprintf(text, size, "%llu bytes", (unsigned long long)limit);
    return text;
}

void cause_of_locked_memory(struct cause *self)
{
    struct rlimit limit;
    char soft[40], hard[40];

    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
        cause_add(self, "RLIMIT_MEMLOCK (ulimit -l), which bounds what is locked in all, is %s (soft), %s (hard)",
                  limit_text(limit.rlim_cur, soft, sizeof soft), limit_text(limit.rlim_max, hard, sizeof hard));
}

void cause_of_excess(struct cause *self, const char *name, uint32_t asked, const char *limit_name, int64_t limit)
{
    if (limit >= 0 && asked > limit)
        cause_add(self, "%s=%u is over the device's %s=%lld", name, asked, limit_name, (long long)limit);
}

void cause_of_qp_sizes(struct cause *self, const struct ibv_device_attr *limits, const struct ibv_qp_cap *cap)
{
    cause_of_excess(self, "max_send_wr", cap->max_send_wr, "max_qp_wr", limits->max_qp_wr);
    cause_of_excess(self, "max_recv_wr", cap->max_recv_wr, "max_qp_wr", limits->max_qp_wr);
    cause_of_excess(self, "max_send_sge", cap->max_send_sge, "max_sge", limits->max_sge);
    cause_of_excess(self, "max_recv_sge", cap->max_recv_sge, "max_sge", limits->max_sge);
}

void cause_of_cq_size(struct cause *self, const struct ibv_device_attr *limits, uint32_t cqe)
{
    cause_of_excess(self, "cqe", cqe, "max_cqe", limits->max_cqe);
}

void cause_of_srq_sizes(struct cause *self, const struct ibv_device_attr *limits, const struct ibv_srq_attr *attr)
{
    cause_of_excess(self, "max_wr", attr->max_wr, "max_srq_wr", limits->max_srq_wr);
    cause_of_excess(self, "max_sge", attr->max_sge, "max_srq_sge", limits->max_srq_sge);
    if (attr->srq_limit > attr->max_wr)
        cause_add(self, "srq_limit=%u is over max_wr=%u", attr->srq_limit, attr->max_wr);
}

/* ---- memory --------------------------------------------------------------------------------------------------------- */

/*
 * Whether CUDA, where this process has it loaded, says that an address is a GPU's. Never loads it: a process that has
 * no libcuda has no such addresses.
 */
static bool is_cuda_memory(uint64_t addr)
{
    enum { ATTRIBUTE_MEMORY_TYPE = 2, MEMORY_TYPE_DEVICE = 2 };
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*get_attribute)(void *, int, unsigned long long);
    uint64_t type = 0;

    if (!library)
        return false;
    get_attribute = (int (*)(void *, int, unsigned long long))dlsym(library, "cuPointerGetAttribute");
    if (get_attribute && get_attribute(&type, ATTRIBUTE_MEMORY_TYPE, addr) != 0)
        type = 0;
    dlclose(library); /* takes back the count of RTLD_NOLOAD, no more */
    return (uint32_t)type == MEMORY_TYPE_DEVICE;
}

void cause_of_region(struct cause *self, struct ibv_context *context, uint64_t addr, uint64_t length, uint32_t access,
                     int err)
{
    struct ibv_device_attr limits = {0};

    if (err == ENOMEM)
        cause_of_locked_memory(self);
    if (err == EFAULT && is_cuda_memory(addr))
        cause_add(self, "this is CUDA device memory, which needs either a dma-buf export (.cuda.register_tensor does it, "
                        "or PD.reg_dmabuf_mr with a descriptor) or the kernel module nvidia_peermem");
    else if (err == EFAULT)
        cause_add(self, "not all of it is memory of this process that allows the access");
    if (err == EINVAL && access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
        !(access & IBV_ACCESS_LOCAL_WRITE))
        cause_add(self, "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too");
    if (err == EINVAL && !length)
        cause_add(self, "the length is 0");
    if (verbs.query_device(context, &limits) == 0 && limits.max_mr_size && length > limits.max_mr_size)
        cause_add(self, "length %llu is over the device's max_mr_size=%llu", (unsigned long long)length,
                  (unsigned long long)limits.max_mr_size);
}

/* ---- addresses ------------------------------------------------------------------------------------------------------- */

static bool is_empty(const union ibv_gid *gid)
{
    static const union ibv_gid none;

    return memcmp(gid, &none, sizeof none) == 0;
}

static bool is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid->raw, mapped, sizeof mapped) == 0;
}

/* Whether a device has a port; where not, that is a finding. */
static bool has_port(struct cause *self, const struct ibv_device_attr *limits, uint8_t port_num)
{
    if (port_num && port_num <= limits->phys_port_cnt)
        return true;
    cause_add(self, "port_num=%d is none of the device's: it has %d, counted from 1", port_num, limits->phys_port_cnt);
    return false;
}

/* The same for an entry of a port's GID table, which a parameter names. */
static bool has_gid_index(struct cause *self, const char *name, int64_t index, const struct ibv_port_attr *port,
                          uint8_t port_num)
{
    if (index < port->gid_tbl_len)
        return true;
    cause_add(self, "%s=%lld is outside of the GID table of port %d, which has %d entries", name, (long long)index,
              port_num, port->gid_tbl_len);
    return false;
}

void cause_of_port(struct cause *self, struct ibv_context *context, uint8_t port_num, int64_t gid_index)
{
    struct ibv_device_attr limits = {0};
    struct ibv_port_attr port;

    if (!verbs.query_device(context, &limits) && has_port(self, &limits, port_num) &&
        !verbs_query_port(context, port_num, &port))
        has_gid_index(self, "index", gid_index, &port, port_num);
}

/* The local GID that an address vector names; false, with the finding, where there is none. */
static bool find_sgid(struct cause *self, struct ibv_context *context, const struct ibv_ah_attr *attr,
                      const struct ibv_port_attr *port, uint8_t port_num, union ibv_gid *ret_gid)
{
    int index = attr->grh.sgid_index;

    if (!has_gid_index(self, "sgid_index", index, port, port_num))
        return false;
    if (verbs.query_gid(context, port_num, index, ret_gid))
        return false;
    if (is_empty(ret_gid)) {
        cause_add(self, "sgid_index=%d is an empty entry of the GID table of port %d: query_gid_table() lists those in "
                        "use, select_gid() picks one", index, port_num);
        return false;
    }
    return true;
}

static bool did_not_resolve(int err)
{
    return err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH || err == EADDRNOTAVAIL;
}

void cause_of_address(struct cause *self, struct ibv_context *context, const struct ibv_ah_attr *attr, uint8_t port_num,
                      int err)
{
    char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];
    struct ibv_port_attr port;
    union ibv_gid gid;

    if (verbs_query_port(context, port_num, &port))
        return;
    if (!attr->is_global) {
        if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
            cause_add(self, "is_global=0, but port %d is Ethernet, which needs a global route", port_num);
        return;
    }
    if (!find_sgid(self, context, attr, &port, port_num, &gid) || !inet_ntop(AF_INET6, &gid, from, sizeof from) ||
        !inet_ntop(AF_INET6, &attr->grh.dgid, to, sizeof to))
        return;
    if (port.link_layer == IBV_LINK_LAYER_ETHERNET && is_ipv4(&gid) != is_ipv4(&attr->grh.dgid))
        cause_add(self, "sgid_index=%d is %s, and the peer's address %s is of another family", attr->grh.sgid_index, from,
                  to);
    else if (did_not_resolve(err))
        cause_add(self, "the peer's address %s was not found from sgid_index=%d, which is %s", to, attr->grh.sgid_index,
                  from);
}

/* ---- moves of a queue pair -------------------------------------------------------------------------------------------- */

static void explain_move(struct cause *self, uint32_t qp_type, uint32_t from, const struct ibv_qp_attr *attr,
                         uint32_t mask)
{
    uint32_t to = mask & IBV_QP_STATE ? attr->qp_state : from, asked = mask & ~(uint32_t)IBV_QP_STATE;
    struct qp_move move;
    char text[320];

    if (!qp_rules_known(qp_type))
        return;
    if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from)
        cause_add(self, "cur_qp_state says %s", qp_state_name(attr->cur_qp_state));
    if (!qp_move_find(qp_type, from, to, &move)) {
        qp_ways_text(qp_type, from, text, sizeof text);
        cause_add(self, "from %s it can go to %s", qp_state_name(from), text);
        return;
    }
    if (move.need & ~asked) {
        qp_mask_text(move.need & ~asked, text, sizeof text);
        cause_add(self, "attr_mask lacks %s", text);
    }
    if (asked & ~(move.need | move.may)) {
        qp_mask_text(asked & ~(move.need | move.may), text, sizeof text);
        cause_add(self, "%s cannot be set in this step", text);
    }
}

static void explain_values(struct cause *self, struct ibv_context *context, const struct ibv_qp_attr *attr,
                           uint32_t mask, uint8_t port_num)
{
    struct ibv_device_attr limits = {0};
    struct ibv_port_attr port;

    if (verbs.query_device(context, &limits))
        return;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        cause_of_excess(self, "max_dest_rd_atomic", attr->max_dest_rd_atomic, "max_qp_rd_atom", limits.max_qp_rd_atom);
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        cause_of_excess(self, "max_rd_atomic", attr->max_rd_atomic, "max_qp_init_rd_atom", limits.max_qp_init_rd_atom);
    if (mask & IBV_QP_PORT && !has_port(self, &limits, port_num))
        return;
    if (!port_num || verbs_query_port(context, port_num, &port))
        return;
    if (mask & IBV_QP_PKEY_INDEX && attr->pkey_index >= port.pkey_tbl_len)
        cause_add(self, "pkey_index=%d is outside of the table of port %d, which has %d entries", attr->pkey_index,
                  port_num, port.pkey_tbl_len);
    if (mask & IBV_QP_PATH_MTU && attr->path_mtu > port.active_mtu)
        cause_add(self, "path_mtu=%d is over the active_mtu=%d of port %d", (int)attr->path_mtu, (int)port.active_mtu,
                  port_num);
    if (port.state != IBV_PORT_ACTIVE && mask & IBV_QP_AV)
        cause_add(self, "port %d is not active", port_num);
}

void cause_of_modify(struct cause *self, struct ibv_context *context, uint32_t qp_type, uint32_t from,
                     const struct ibv_qp_attr *attr, uint32_t mask, uint8_t port_num, int err)
{
    explain_move(self, qp_type, from, attr, mask);
    if (mask & IBV_QP_PORT)
        port_num = attr->port_num;
    else if (mask & IBV_QP_AV && attr->ah_attr.port_num)
        port_num = attr->ah_attr.port_num;
    explain_values(self, context, attr, mask, port_num);
    if (mask & IBV_QP_AV)
        cause_of_address(self, context, &attr->ah_attr, port_num, err);
}

uint32_t cause_qp_state(struct ibv_qp *qp, uint32_t otherwise)
{
    struct ibv_qp_init_attr init = {0};
    struct ibv_qp_attr attr = {0};

    return verbs.query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 ? (uint32_t)attr.qp_state : otherwise;
}
