/* SPDX-License-Identifier: BSD-3-Clause */
/* iWARP's manners, as those of siw in kernel 6.1: private data keeps its length, the kernel moves the queue pairs and
 * says ESTABLISHED to both by itself, connect answers ECONNREFUSED, a disconnect ends both sides at once. Where they
 * differ from InfiniBand's, connection.c asks. */
#ifndef SOFTRDMA_CM_IWARP_H
#define SOFTRDMA_CM_IWARP_H

#include "../region.h"

#define CM_IWARP_DATA 251 /* private data, at most */
#define CM_IWARP_ANSWER_MS 10400

bool cm_is_iwarp(const struct cm_id *id);

/* Is there such a queue pair on the identifier's NIC? */
bool cm_iwarp_has_qp(struct region *r, const struct cm_id *id, uint32_t qpn);

/* Connects the queue pair of a copied identifier to the peer's; without locks. 0 or errno. */
int cm_iwarp_move_qp(struct region *r, const struct cm_id *id);

/* An event about the (copied) identifier is on its way to the program: its queue pair is to be as the event says. */
void cm_iwarp_follow(struct region *r, const struct cm_id *id, uint32_t event);

#endif
