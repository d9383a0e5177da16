/* SPDX-License-Identifier: BSD-3-Clause */
/* Identifiers: one for each struct rdma_cm_id of librdmacm. The caller holds the region's cm.lock. */
#ifndef SOFTRDMA_CM_ID_H
#define SOFTRDMA_CM_ID_H

#include "../region.h"
#include "message.h"

/* A new one, with the lowest free number; NULL when all are taken. */
struct cm_id *cm_id_new(struct region *r, uint32_t file);

static inline uint32_t cm_id_number(struct region *r, const struct cm_id *id)
{
    return (uint32_t)(id - r->cm.id);
}

/* The one with that number, if it belongs to the file: ENOENT, EINVAL. */
int cm_id_find(struct region *r, uint32_t file, uint32_t number, struct cm_id **ret_id);

/* Those in use, by rising number: NONE when there are no more. */
uint32_t cm_id_next(struct region *r, uint32_t from);

/* How others name it, and whether a name is still good. */
struct cm_ref cm_id_ref(struct region *r, const struct cm_id *id);
struct cm_id *cm_id_by_ref(struct region *r, const struct cm_ref *ref);

/* Ends one: its peer is told, its unread events are dropped, requests among them refused. */
void cm_id_end(struct region *r, struct cm_id *id, struct cm_outbox *out);

#endif
