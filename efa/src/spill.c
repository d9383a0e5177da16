/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions that were taken off a queue early. See spill.h. */
#include "spill.h"

#include <stdlib.h>
#include <string.h>

uint32_t efa_spill_take(struct efa_spill *self, struct ibv_wc *wc, struct efa_wc_extra *extra, uint32_t most)
{
    uint32_t found;

    pthread_mutex_lock(&self->lock);
    found = self->count < most ? self->count : most;
    for (uint32_t i = 0; i < found; i++) {
        const struct efa_spilled *from = &self->entries[self->at + i];

        wc[i] = from->wc;
        if (extra)
            extra[i] = from->extra;
    }
    self->at += found;
    __atomic_store_n(&self->count, self->count - found, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&self->lock);
    return found;
}

bool efa_spill_reserve(struct efa_spill *self, uint32_t more)
{
    struct efa_spilled *entries;

    if (self->at) {
        memmove(self->entries, self->entries + self->at, self->count * sizeof *entries);
        self->at = 0;
    }
    if (self->room - self->count >= more)
        return true;
    more += 2 * self->count;
    entries = realloc(self->entries, (size_t)more * sizeof *entries);
    if (!entries)
        return false;
    self->entries = entries;
    self->room = more;
    return true;
}

void efa_spill_put(struct efa_spill *self, const struct ibv_wc *wc, const struct efa_wc_extra *extra)
{
    struct efa_spilled *to = &self->entries[self->at + self->count];

    memset(to, 0, sizeof *to);
    to->wc = *wc;
    if (extra)
        to->extra = *extra;
    __atomic_store_n(&self->count, self->count + 1, __ATOMIC_RELAXED);
}

void efa_spill_drop(struct efa_spill *self, uint32_t qp_num)
{
    uint32_t kept = 0;

    pthread_mutex_lock(&self->lock);
    for (uint32_t i = 0; i < self->count; i++) {
        if (self->entries[self->at + i].wc.qp_num != qp_num)
            self->entries[self->at + kept++] = self->entries[self->at + i];
    }
    __atomic_store_n(&self->count, kept, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&self->lock);
}
