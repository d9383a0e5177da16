/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions that were taken off a queue before a queue pair of it goes. One that is left behind is counted for whatever
 * queue pair has its number next: libefa before rdma-core 63 then writes beyond its arrays, and later ones do not know
 * those of requests with numbers of 64 bits either. One that is left behind when a queue pair is reset does the same harm, in
 * all releases up to 65.
 */
#ifndef EFA_SPILL_H
#define EFA_SPILL_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "efa_wc.h"

/* All zero is an empty one (as it is PTHREAD_MUTEX_INITIALIZER); `entries` are its owner's to free. */
struct efa_spill {
    pthread_mutex_t lock; /* of all but efa_spill_has_any(); held for moments, with the GIL or without */
    bool filling;         /* read and written atomically, as is the next: something is being taken off the queue */
    uint32_t count;       /* what is there begins at `entries[at]` */
    uint32_t at, room;
    struct efa_spilled {
        struct ibv_wc wc;
        struct efa_wc_extra extra;
    } *entries;
};

/*
 * Whether there is something to take, or will be when the lock is free: no event tells of what came off the queue before
 * the queue was armed. `filling` comes first, so that what it was about is counted when it is over.
 */
static inline bool efa_spill_has_any(const struct efa_spill *self)
{
    return __atomic_load_n(&self->filling, __ATOMIC_ACQUIRE) || __atomic_load_n(&self->count, __ATOMIC_ACQUIRE);
}

/* The oldest, at most so many, into `wc` and, unless it is NULL, `extra`. Returns how many. */
uint32_t efa_spill_take(struct efa_spill *self, struct ibv_wc *wc, struct efa_wc_extra *extra, uint32_t most);

/* Room for so many more, without which nothing may be put. The caller holds the lock. False: no memory. */
bool efa_spill_reserve(struct efa_spill *self, uint32_t more);
void efa_spill_put(struct efa_spill *self, const struct ibv_wc *wc, const struct efa_wc_extra *extra);

/* Forgets those of a queue pair that is gone. */
void efa_spill_drop(struct efa_spill *self, uint32_t qp_num);

#endif
