/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that misuses the boundary between libibverbs and the kernel: garbage in the shared queues,
 * garbage calls. What it may not do is make the host crash, hang, or write where it has no right to. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Everything is a function of the seed (and of the threads behind the boundary). */
uint32_t chance(uint32_t limit); /* 0 .. limit-1 */
uint64_t odd_number(
    void); /* a value that has broken somebody before: 0, 1, -1, powers of two and their neighbours, any */

/* Memory: an arena that is registered, between two walls that are not; and a page that is registered for
 * reading only. walls_check ends the program if a byte of a wall or of the page has changed. */
#define ARENA_SIZE (64u << 10)
extern uint8_t *arena, *read_only;
void memory_make(void);
void walls_check(void);
uint64_t odd_address(void); /* inside the arena, at its edges, in the walls, or in nobody's memory; never in
                               this program's own */

/* The queues that the provider has mapped; boundary.c watches it do so. */
struct queue {
    uint8_t *at;
    size_t length;
};
#define MAX_QUEUES 64
extern struct queue queues[MAX_QUEUES];
extern int queue_count;
extern int cmd_fds[2];

/* boundary.c: while this is set, each call that libibverbs makes is preceded by one or more mangled copies of
 * it. */
extern int mangling;
extern unsigned long mangled_calls, accepted_calls;

/* queues.c: one act of vandalism on the queues, and doorbells. `keys` are valid keys of the arena. */
void queues_spoil(const uint32_t *keys, int key_count);
void doorbell_ring(uint32_t qp_handle);

#endif
