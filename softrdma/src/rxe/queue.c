/* SPDX-License-Identifier: BSD-3-Clause */
/* The rings that the provider maps. It reads slot size and mask from the ring's header; we keep our own and
 * mask every index that comes from there. */
#include "rxe.h"

int rxe_queue_create(struct region *r, struct queue *q, uint32_t entries, uint64_t element_size)
{
    struct queue made = {.log2 = 6};
    uint64_t size;

    while ((UINT64_C(1) << made.log2) < element_size)
        made.log2++;
    made.mask = pow2_at_least(entries + 1) - 1; /* one slot stays empty */
    size = sizeof(struct rxe_queue_buf) + (((uint64_t)made.mask + 1) << made.log2);
    size = align_up(size, HEAP_UNIT);
    if (size > UINT32_MAX)
        return ENOMEM;
    made.size = (uint32_t)size;
    made.offset = heap_alloc(r, size);
    if (!made.offset)
        return ENOMEM;
    rxe_ring(r, &made)->log2_elem_size = made.log2;
    rxe_ring(r, &made)->index_mask = made.mask;
    *q = made;
    return 0;
}

void rxe_queue_destroy(struct region *r, struct queue *q)
{
    if (q->offset)
        heap_free(r, q->offset, q->size);
    q->offset = 0;
}

int rxe_queue_resize(struct region *r, struct queue *q, uint32_t entries)
{
    uint32_t used = rxe_queue_used(r, q), from = rxe_consumer(r, q);
    struct queue made;
    int err;

    if (entries < used)
        return EINVAL;
    err = rxe_queue_create(r, &made, entries, UINT64_C(1) << q->log2);
    if (err)
        return err;
    for (uint32_t i = 0; i < used; i++)
        memcpy(rxe_slot(r, &made, i), rxe_slot(r, q, from + i), (size_t)1 << q->log2);
    rxe_set_producer(r, &made, used);
    rxe_queue_destroy(r, q);
    *q = made;
    return 0;
}

struct mminfo rxe_queue_info(const struct queue *q)
{
    return (struct mminfo){.offset = q->offset, .size = q->size};
}
