/* SPDX-License-Identifier: BSD-3-Clause */
/* What a C unit program says and how it ends: 0 passed, 1 failed, 77 skipped. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, __LINE__, __func__, #condition); \
            exit(1); \
        } \
    } while (0)

/* `text` holds `part`; on failure both are shown. */
static inline void check_says(const char *text, const char *part)
{
    if (strstr(text, part))
        return;
    fprintf(stderr, "\"%s\" does not say \"%s\"\n", text, part);
    exit(1);
}

/* The same numbers in every run: a failure can be repeated. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
