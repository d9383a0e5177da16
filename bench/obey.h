/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the C programs of the benchmark obey, line by line from standard input (bench/worker.py is their twin):
 *
 *   time ROW N     does the row's operation N times; answers the nanoseconds it took
 *   many KIND N    makes N objects of a kind and destroys them; answers what each tenth cost, and the memory
 *   mark           calls ibv_query_device, by which a profiler tells one row from the next; answers 0
 *
 * Every answer is one line of JSON.
 */
#ifndef BENCH_OBEY_H
#define BENCH_OBEY_H

#include <stddef.h>
#include <stdint.h>

struct row {
    const char *name;
    void (*run)(long n);
    int64_t (*timed)(long n); /* in place of `run`: does it and tells how long that part took that counts */
};

struct kind {
    const char *name;
    void *(*make)(void);       /* NULL: it failed */
    int (*destroy)(void *object); /* 0: done */
};

/* Ends the program. */
_Noreturn void die(const char *what);
void check(int good, const char *what);

/* Nanoseconds. */
int64_t now(void);

void obey(const struct row *rows, size_t row_count, const struct kind *kinds, size_t kind_count, void (*mark)(void));

#endif
