/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines that a C program of the benchmark obeys. See obey.h. */
#include "obey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PARTS 10

_Noreturn void die(const char *what)
{
    fprintf(stderr, "calls: %s\n", what);
    exit(1);
}

void check(int good, const char *what)
{
    if (!good)
        die(what);
}

int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    check(file && fscanf(file, "%*d %ld", &pages) == 1, "/proc/self/statm");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void time_row(const struct row *row, long n)
{
    int64_t start = now(), took;

    if (row->timed) {
        took = row->timed(n);
    } else {
        row->run(n);
        took = now() - start;
    }
    printf("%lld\n", (long long)took);
}

static void print_parts(const char *name, const double *parts)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < PARTS; i++)
        printf("%s%.1f", i ? ", " : "", parts[i]);
    printf("], ");
}

static void many(const struct kind *kind, long n)
{
    void **objects = calloc((size_t)n, sizeof *objects);
    double create[PARTS], destroy[PARTS];
    long part = n / PARTS, before;

    check(objects && part, "too many objects, or too few");
    before = resident();
    for (int i = 0; i < PARTS; i++) {
        int64_t start = now();
        for (long k = i * part; k < (i + 1) * part; k++)
            check((objects[k] = kind->make()) != NULL, "an object could not be made");
        create[i] = (double)(now() - start) / (double)part;
    }
    before = resident() - before;
    for (int i = 0; i < PARTS; i++) {
        int64_t start = now();
        for (long k = i * part; k < (i + 1) * part; k++)
            check(!kind->destroy(objects[k]), "an object could not be destroyed");
        destroy[i] = (double)(now() - start) / (double)part;
    }
    free(objects);
    printf("{");
    print_parts("create", create);
    print_parts("destroy", destroy);
    printf("\"resident\": %.1f}\n", (double)before / (double)(part * PARTS));
}

static void obey_time(const struct row *rows, size_t count, const char *name, long n)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(rows[i].name, name)) {
            time_row(&rows[i], n);
            return;
        }
    die("there is no such row");
}

static void obey_many(const struct kind *kinds, size_t count, const char *name, long n)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(kinds[i].name, name)) {
            many(&kinds[i], n);
            return;
        }
    die("there is no such kind");
}

void obey(const struct row *rows, size_t row_count, const struct kind *kinds, size_t kind_count, void (*mark)(void))
{
    char line[128], what[32];
    long n;

    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "time %31s %ld", what, &n) == 2) {
            obey_time(rows, row_count, what, n);
        } else if (sscanf(line, "many %31s %ld", what, &n) == 2) {
            obey_many(kinds, kind_count, what, n);
        } else if (!strcmp(line, "mark\n")) {
            mark();
            puts("0");
        } else {
            die("what is that?");
        }
        fflush(stdout);
    }
}
