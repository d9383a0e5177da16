/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine's NICs, and what a device model has to provide. */
#ifndef SOFTRDMA_DEVICE_H
#define SOFTRDMA_DEVICE_H

#include "region.h"

#define DEVICE_GIDS 2 /* at most, at the start (nic.h has what they are now) */
#define DEVICE_MAJOR 231 /* of /dev/infiniband/uverbsN */
#define DEVICE_MINOR 192

struct call;
struct device_model;
struct uverbs_method;

struct device {
    int index;
    const struct device_model *model;
    int number;      /* among those of its model */
    int make;        /* of the model's makes, where there are several */
    char name[16];   /* rxe0 */
    char netdev[16]; /* the interface it claims to sit on; empty: none */
    uint8_t mac[6];
    uint8_t guid[8];
    uint8_t gid[DEVICE_GIDS][16]; /* zeros: empty */
};

/* The kernel driver and the hardware under it. Where a hook takes a call, the generic part has checked the
 * handles, holds region.lock, and stores the object only if the hook returns 0; a hook that fails leaves
 * nothing behind. A hook that is NULL is one that the driver lacks: EOPNOTSUPP, or nothing to do. */
struct device_model {
    const char *name;
    uint32_t driver_id;
    uint32_t abi_version;
    const char *node_type;  /* as sysfs shows it */
    const char *link_layer; /* the same; and the GIDs' type, the rate */
    const char *gid_type_name;
    const char *rate;
    uint32_t gid_type, gid_table; /* IB_UVERBS_GID_TYPE_*, and the entries of the table */
    uint64_t core_support;
    uint32_t key_shift; /* a region's keys are its index + 1 and this many bits that change each time */
    bool has_windows, has_multicast, has_dmabuf, has_cm;
    bool is_iwarp; /* and is connected as iWARP is: see cm/iwarp.h */
    bool has_cq_memory; /* CQs may lie in the program's memory */
    const struct uverbs_method *methods; /* that the driver adds */
    size_t nmethods;
    bool arms_by_call; /* CQs are armed by REQ_NOTIFY_CQ */

    bool (*has_make)(int make); /* NULL: there is only one */
    void (*describe)(struct device *d); /* name and addresses, from index, number and make */
    void (*put_files)(const struct device *d); /* of sysfs, beside those that every device has */

    int (*alloc_context)(struct call *c);
    void (*query_device)(const struct device *d, struct ib_uverbs_ex_query_device_resp *out);
    int (*query_device_driver)(struct call *c); /* the driver's part; NULL: there must be none */
    void (*query_port)(const struct device *d, struct ib_uverbs_query_port_resp_ex *out);
    int (*alloc_pd)(struct call *c, uint32_t pd);
    int (*check_access)(const struct device *d, uint32_t access);

    int (*create_cq)(struct call *c, struct cq *cq, uint32_t *cqe); /* cqe: asked for, then granted */
    int (*resize_cq)(struct call *c, struct cq *cq, uint32_t *cqe);
    void (*destroy_cq)(struct region *r, struct cq *cq);

    bool (*has_qp_type)(uint32_t type);
    int (*create_qp)(struct call *c, struct qp *qp, struct ib_uverbs_qp_cap *cap);
    void (*destroy_qp)(struct region *r, struct qp *qp);
    int (*modify_qp)(struct region *r, struct qp *qp, const struct ib_uverbs_modify_qp *attr);
    void (*break_qp)(struct region *r, struct qp *qp); /* to ERR, everything posted comes back flushed */
    int (*query_qp)(struct region *r, struct qp *qp, uint32_t mask, struct ib_uverbs_query_qp_resp *out);

    int (*create_srq)(struct call *c, struct srq *srq, uint32_t *max_wr, uint32_t *max_sge);
    int (*modify_srq)(struct call *c, struct srq *srq, const struct ib_uverbs_modify_srq *attr);
    void (*query_srq)(struct region *r, struct srq *srq, struct ib_uverbs_query_srq_resp *out);
    void (*destroy_srq)(struct region *r, struct srq *srq);

    int (*check_ah)(const struct call *c, const struct ib_uverbs_ah_attr *attr, uint8_t ret_sgid[16]);
    int (*create_ah)(struct call *c, struct ah *ah, uint32_t index);
    void (*destroy_ah)(struct region *r, struct ah *ah);

    /* The write() of a doorbell, decoded as far as the handle; 0 or errno. */
    int (*doorbell)(struct region *r, struct qp *qp);
    /* The store to a doorbell that was mapped (doorbell.h). later: only make a note, and have the service thread run it. */
    void (*ring_qp)(struct region *r, struct qp *qp, uint32_t value, bool later);
    void (*ring_cq)(struct region *r, struct cq *cq, uint32_t value);

    /* By the service thread (timer.h): what qp.wait_until waited for; and a look at the receives of a queue pair in
     * error, true if there were some. */
    void (*run)(struct region *r, struct qp *qp);
    bool (*look)(struct region *r, struct qp *qp);
};

int device_count(void);
const struct device *device_at(int index);
bool gid_is_empty(const uint8_t *gid);
bool gid_is_ipv4(const uint8_t *gid);
bool gid_is_multicast(const uint8_t *gid);

/* Is there a model of that name, and does it come in that make? -1: its own choice. */
bool device_is_offered(const char *model, int make);

void device_init(void); /* from the configuration */

/* Methods of the front that concern the device. */
int device_get_context(struct call *c);
int device_query_port(struct call *c);
int device_query_gid_entry(struct call *c);
int device_query_gid_table(struct call *c);
int device_query(struct call *c);
int device_query_ex(struct call *c);

#endif
