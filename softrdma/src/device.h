/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine's NICs, and what a device model has to provide. */
#ifndef SOFTRDMA_DEVICE_H
#define SOFTRDMA_DEVICE_H

#include "region.h"

#define DEVICE_GIDS 2 /* at the start: link-local, and one IPv4 address (nic.h has what they are now) */
#define DEVICE_GID_TABLE 1024
#define DEVICE_MAJOR 231 /* of /dev/infiniband/uverbsN */
#define DEVICE_MINOR 192

struct call;
struct device_model;

struct device {
    int index;
    const struct device_model *model;
    char name[16];   /* rxe0 */
    char netdev[16]; /* the interface it claims to sit on */
    uint8_t mac[6];
    uint8_t guid[8];
    uint8_t gid[DEVICE_GIDS][16];
};

/* The kernel driver and the hardware under it. Where a hook takes a call, the generic part has checked the
 * handles, holds region.lock, and stores the object only if the hook returns 0; a hook that fails leaves
 * nothing behind. */
struct device_model {
    const char *name;
    uint32_t driver_id;
    uint32_t abi_version;
    const char *node_type; /* as sysfs shows it */
    uint64_t core_support;

    int (*alloc_context)(struct call *c);
    void (*query_device)(const struct device *d, struct ib_uverbs_ex_query_device_resp *out);
    void (*query_port)(const struct device *d, struct ib_uverbs_query_port_resp_ex *out);
    int (*alloc_pd)(struct call *c, uint32_t pd);
    int (*check_access)(uint32_t access);

    int (*create_cq)(struct call *c, struct cq *cq, uint32_t *cqe); /* cqe: asked for, then granted */
    int (*resize_cq)(struct call *c, struct cq *cq, uint32_t *cqe);
    void (*destroy_cq)(struct region *r, struct cq *cq);
    int (*notify_cq)(struct region *r, struct cq *cq, bool solicited_only);

    bool (*has_qp_type)(uint32_t type);
    int (*create_qp)(struct call *c, struct qp *qp, struct ib_uverbs_qp_cap *cap);
    void (*destroy_qp)(struct region *r, struct qp *qp);
    int (*modify_qp)(struct region *r, struct qp *qp, const struct ib_uverbs_modify_qp *attr);
    void (*break_qp)(struct region *r, struct qp *qp); /* to ERR, everything posted comes back flushed */
    void (*query_qp)(struct region *r, struct qp *qp, struct ib_uverbs_query_qp_resp *out);

    int (*create_srq)(struct call *c, struct srq *srq, uint32_t *max_wr, uint32_t *max_sge);
    int (*modify_srq)(struct call *c, struct srq *srq, const struct ib_uverbs_modify_srq *attr);
    void (*query_srq)(struct region *r, struct srq *srq, struct ib_uverbs_query_srq_resp *out);
    void (*destroy_srq)(struct region *r, struct srq *srq);

    int (*create_ah)(struct call *c, struct ah *ah, uint32_t index);

    /* The write() of a doorbell, decoded as far as the handle; 0 or errno. */
    int (*doorbell)(struct region *r, struct qp *qp);
    /* Timers and whatever else makes no call of its own; when to be called next, in now_ns. */
    uint64_t (*service)(struct region *r);
};

int device_count(void);
const struct device *device_at(int index);
bool gid_is_ipv4(const uint8_t *gid);
bool gid_is_multicast(const uint8_t *gid);

int device_model_count(void);
const struct device_model *device_model_at(int i);

void device_init(void); /* from the configuration */

/* Methods of the front that concern the device. */
int device_get_context(struct call *c);
int device_query_port(struct call *c);
int device_query_gid_entry(struct call *c);
int device_query_gid_table(struct call *c);
int device_query(struct call *c);
int device_query_ex(struct call *c);

#endif
