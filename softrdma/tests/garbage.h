/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzzers of the device models share: chance, memory between guards, the rings that a provider has mapped
 * (found in /proc/self/maps), ioctls made of random attributes, and the rounds. A fuzzer brings the objects, and what
 * spoils its device's rings. */
#ifndef TESTS_GARBAGE_H
#define TESTS_GARBAGE_H

#include "pair.h"

/* Everything is a function of the seed (and of the host's threads). */
uint64_t rnd(void);
bool one_in(unsigned n);

/* The n-th registered buffer. Memory before and behind it holds a pattern that must not change. */
#define BUF 16384
uint8_t *buffer(int i);

/* What the provider has mapped. */
struct ring {
    uint8_t *at;
    size_t size;
};
#define MAX_RINGS 64
extern struct ring rings[MAX_RINGS];
extern int nrings;
extern uint8_t *doorbells; /* NULL where the device has none */

enum count { RING_WRITES, DOORBELLS, IOCTLS, REFUSED };
extern unsigned long counts[4];

struct fuzzer {
    int buffers;
    uint32_t driver_id;    /* of the device's ioctls, and what there is of each */
    unsigned object_types, own_attributes;
    const char *rings;     /* the rights that its rings are mapped with: "rw-s" */
    void (*setup)(void);   /* of a round: makes `contexts` and the objects in them */
    void (*spoil_ring)(void);
    void (*ring_doorbell)(void); /* or does something else that is no ioctl */
    uint64_t (*word)(void);      /* one of the numbers that mean something somewhere, or any */
};
#define MAX_CONTEXTS 2
extern struct ibv_context *contexts[MAX_CONTEXTS]; /* from the first on */

/* One of the numbers that mean something somewhere, often of this end: its keys, addresses and handles; or any. */
uint64_t word_about(const struct ibv_mr *mr, const struct ibv_qp *qp, const struct ibv_cq *cq, const uint8_t *buf);

/* A word where the host may write to any address that it is given: it leads into no buffer and no guard. */
uint64_t address_word(const struct fuzzer *self);

/* The whole program: NAME [SECONDS [SEED]]. */
int fuzz(const struct fuzzer *self, int argc, char **argv);

#endif
