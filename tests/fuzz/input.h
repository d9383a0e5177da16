/* SPDX-License-Identifier: BSD-3-Clause */
/* A fuzzer's bytes read as numbers, zeros where they are used up; and what a broken promise does: it ends the program. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, __LINE__, __func__, #condition); \
            abort(); \
        } \
    } while (0)

/* Called by the fuzzer with each input. Always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

static inline void take(struct input *in, void *ret, size_t size)
{
    size_t there = in->left < size ? in->left : size;

    memset(ret, 0, size);
    if (!there)
        return;
    memcpy(ret, in->at, there);
    in->at += there;
    in->left -= there;
}

static inline uint8_t take8(struct input *in)
{
    uint8_t number;

    take(in, &number, sizeof number);
    return number;
}

static inline uint16_t take16(struct input *in)
{
    uint16_t number;

    take(in, &number, sizeof number);
    return number;
}

static inline uint32_t take32(struct input *in)
{
    uint32_t number;

    take(in, &number, sizeof number);
    return number;
}

static inline uint64_t take64(struct input *in)
{
    uint64_t number;

    take(in, &number, sizeof number);
    return number;
}

#endif
