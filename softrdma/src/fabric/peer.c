/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of attached regions, one place for each slot. A region whose processes have died is unmapped when
 * its last user lets go, which is what gives its memory back. */
#include "peer.h"

#include <pthread.h>

#include "../process.h"
#include "discovery.h"

struct peer {
    struct region *region;
    uint32_t refs;
};

static struct peer peers[FABRIC_SLOTS];
static struct peer leaving[FABRIC_SLOTS]; /* dead, replaced, and still in somebody's hands */
static _Atomic uint64_t
    silent_until[FABRIC_SLOTS]; /* taken, but nobody answered: not asked again for a while */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

#define SILENCE_NS 1000000000u
#define SLOW_NS 100000000u /* an attach that took this long met somebody who does not answer */

bool peer_is_alive(struct region *r)
{
    if (r == process.region)
        return true;
    for (uint32_t i = 0; i < MAX_PROCS; i++) {
        if (r->proc[i].used && process_alive(&r->proc[i]))
            return true;
    }
    return false;
}

/* Takes a dead region out of its place; the caller holds table_lock. */
static void retire(struct peer *p)
{
    if (p->refs == 0) {
        region_unmap(p->region);
    } else {
        for (size_t i = 0; i < NELEM(leaving); i++) {
            if (!leaving[i].region) {
                leaving[i] = *p;
                break;
            }
        }
    }
    *p = (struct peer){0};
}

/* Gives back the memory of processes that have died, whether or not anybody asks for their slots again; the
 * caller holds table_lock. */
static void retire_dead(void)
{
    for (size_t i = 0; i < FABRIC_SLOTS; i++) {
        if (peers[i].region && !peer_is_alive(peers[i].region))
            retire(&peers[i]);
    }
}

struct region *peer_get_known(uint32_t slot)
{
    struct region *r = NULL;
    struct peer *p = &peers[slot];

    if (slot >= FABRIC_SLOTS)
        return NULL;
    if (slot == process.slot)
        return process.region;
    pthread_mutex_lock(&table_lock);
    if (p->region && !peer_is_alive(p->region))
        retire(p);
    if (p->region) {
        p->refs++;
        r = p->region;
    }
    pthread_mutex_unlock(&table_lock);
    return r;
}

struct region *peer_get(uint32_t slot)
{
    struct region *r = peer_get_known(slot), *other = NULL;
    struct peer *p = &peers[slot];
    uint64_t start;

    if (r || slot >= FABRIC_SLOTS)
        return r;
    start = now_ns();
    if (start < atomic_load(&silent_until[slot]))
        return NULL;
    r = fabric_attach(slot);
    if (!r) {
        if (now_ns() - start > SLOW_NS)
            atomic_store(&silent_until[slot], now_ns() + SILENCE_NS);
        return NULL;
    }
    if (r->slot != slot) {
        region_unmap(r);
        return NULL;
    }
    pthread_mutex_lock(&table_lock);
    retire_dead();
    if (p->region && p->region->instance != r->instance)
        retire(p);
    if (p->region) { /* another thread was faster */
        other = r;
        r = p->region;
    }
    p->region = r;
    p->refs++;
    pthread_mutex_unlock(&table_lock);
    if (other)
        region_unmap(other);
    return r;
}

void peer_put(struct region *r)
{
    if (!r || r == process.region)
        return;
    pthread_mutex_lock(&table_lock);
    if (peers[r->slot % FABRIC_SLOTS].region == r) {
        peers[r->slot % FABRIC_SLOTS].refs--;
    } else {
        for (size_t i = 0; i < NELEM(leaving); i++) {
            if (leaving[i].region == r && --leaving[i].refs == 0) {
                region_unmap(r);
                leaving[i] = (struct peer){0};
            }
        }
    }
    pthread_mutex_unlock(&table_lock);
}

void peer_attach_all(void)
{
    static _Atomic uint64_t last;
    uint64_t now = now_ns(), before = atomic_load(&last);

    if (before && now - before < PEER_SCAN_NS)
        return;
    for (uint32_t slot = 0; slot < FABRIC_SLOTS; slot++)
        peer_put(peer_get(slot));
    atomic_store(&last, now); /* when the scan began */
}

void peer_before_fork(void)
{
    pthread_mutex_lock(&table_lock);
}

void peer_after_fork(bool child)
{
    if (child) { /* references of threads that do not exist here */
        for (size_t i = 0; i < FABRIC_SLOTS; i++) {
            if (peers[i].region)
                region_unmap(peers[i].region);
            if (leaving[i].region)
                region_unmap(leaving[i].region);
            peers[i] = leaving[i] = (struct peer){0};
        }
    }
    pthread_mutex_unlock(&table_lock);
}
