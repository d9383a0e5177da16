/* SPDX-License-Identifier: BSD-3-Clause */
/* What identifiers say to each other: the messages of the InfiniBand connection manager. They are written while the
 * sender's lock is held, and delivered after it was given back: the sending thread then takes the lock of the
 * receiver's region and does the receiving, which may give rise to more messages. Nobody holds two of these locks. */
#ifndef SOFTRDMA_CM_MESSAGE_H
#define SOFTRDMA_CM_MESSAGE_H

#include "../region.h"

enum cm_message_type {
    MESSAGE_REQ,
    MESSAGE_MRA, /* it has arrived, and an answer will take its time */
    MESSAGE_REJ,
    MESSAGE_REP,
    MESSAGE_RTU,
    MESSAGE_DREQ,
    MESSAGE_DREP,
    MESSAGE_SIDR_REQ,
    MESSAGE_SIDR_REP,
    MESSAGE_NOBODY, /* not of the wire: a request has found no listener */
};

struct cm_message {
    struct cm_message *next;
    enum cm_message_type type;
    struct cm_ref to, from; /* of a request: nobody knows to whom */
    bool lost;              /* its sender's link is down */
    bool again;             /* a request that may have arrived before */
    bool late;              /* a request that has waited for a listener to come */
    int32_t device;         /* of the receiver */
    uint8_t dgid[16];
    uint32_t reason; /* of a REJ; the status of a SIDR_REP */
    /* of a request and its answer */
    uint32_t ps, qp_type, psn;
    uint8_t tos, life;
    union cm_addr src, dst;
    struct rdma_ucm_conn_param param;
};

struct cm_outbox {
    struct cm_message *first, *last;
};

/* A message from the identifier to its peer, for the caller to complete; NULL when there is no memory: it is lost. The
 * caller holds r's cm.lock. */
struct cm_message *cm_message_new(struct region *r, const struct cm_id *from, enum cm_message_type type,
                                  struct cm_outbox *out);

/* An answer to whoever sent m, from no identifier. */
void cm_message_answer(const struct cm_message *m, enum cm_message_type type, uint32_t reason, struct cm_outbox *out);

/* Delivers everything, and what that gives rise to. The caller holds no cm.lock. */
void cm_outbox_deliver(struct cm_outbox *out);

#endif
