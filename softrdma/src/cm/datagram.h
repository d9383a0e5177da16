/* SPDX-License-Identifier: BSD-3-Clause */
/* UD: one question (SIDR_REQ: which queue pair serves this port?) and one answer. The caller holds the region's
 * cm.lock. */
#ifndef SOFTRDMA_CM_DATAGRAM_H
#define SOFTRDMA_CM_DATAGRAM_H

#include "../region.h"
#include "message.h"

#define CM_QKEY 0x01234567 /* of every queue pair whose owner names no other */

enum { SIDR_REQ_DATA = 180, SIDR_REP_DATA = 136 };

int cm_datagram_accept(struct region *r, struct cm_id *id, const struct rdma_ucm_conn_param *param,
                       struct cm_outbox *out);
int cm_datagram_reject(struct region *r, struct cm_id *id, const void *data, uint32_t length, struct cm_outbox *out);
void cm_datagram_receive_reply(struct region *r, struct cm_id *id, const struct cm_message *m);

#endif
