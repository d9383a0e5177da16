/* SPDX-License-Identifier: BSD-3-Clause */
/* What an identifier says of itself: device, addresses, path. The caller holds the region's cm.lock. */
#ifndef SOFTRDMA_CM_QUERY_H
#define SOFTRDMA_CM_QUERY_H

#include "../region.h"

/* Of each answer only this much is written. The index of the device is left out: librdmacm then goes by its GUID. */
#define CM_ADDR_ANSWER offsetof(struct rdma_ucm_query_addr_resp, ibdev_index)
#define CM_ROUTE_ANSWER offsetof(struct rdma_ucm_query_route_resp, ibdev_index)

struct cm_path_answer {
    uint32_t count, reserved;
    struct ib_path_rec_data path;
};

void cm_query_addr(struct region *r, const struct cm_id *id, struct rdma_ucm_query_addr_resp *ret);
void cm_query_gid(struct region *r, const struct cm_id *id, struct rdma_ucm_query_addr_resp *ret);
void cm_query_path(struct region *r, const struct cm_id *id, struct cm_path_answer *ret, size_t *ret_size);
/* All in one, for the dialect without AF_IB. */
void cm_query_route(struct region *r, const struct cm_id *id, struct rdma_ucm_query_route_resp *ret);

#endif
