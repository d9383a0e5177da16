/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a connection, and of the datagram service's one question and answer: what the program asks for, what
 * arrives, and what happens when nothing does. The caller holds the region's cm.lock and delivers the outbox
 * afterwards. */
#ifndef SOFTRDMA_CM_CONNECTION_H
#define SOFTRDMA_CM_CONNECTION_H

#include "../region.h"
#include "message.h"

/* The program's wishes: 0 or errno. */
int cm_connect(struct region *r, struct cm_id *id, const struct rdma_ucm_conn_param *param, struct cm_outbox *out);
int cm_accept(struct region *r, struct cm_id *id, uint64_t uid, const struct rdma_ucm_conn_param *param,
              struct cm_outbox *out);
int cm_reject(struct region *r, struct cm_id *id, uint32_t reason, const void *data, uint32_t length,
              struct cm_outbox *out);
int cm_disconnect(struct region *r, struct cm_id *id, struct cm_outbox *out);
int cm_notify(struct region *r, struct cm_id *id, uint32_t event);

/* A request has found its listener. */
void cm_receive_request(struct region *r, struct cm_id *listener, struct cm_message *m, struct cm_outbox *out);
/* A message that is not a request. */
void cm_receive(struct region *r, struct cm_id *id, const struct cm_message *m, struct cm_outbox *out);

void cm_time_is_up(struct region *r, struct cm_id *id, enum cm_timer timer, struct cm_outbox *out);

/* The peer has died: what its kernel would have said for it. */
void cm_peer_died(struct region *r, struct cm_id *id, struct cm_outbox *out);

#endif
