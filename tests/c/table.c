/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: the table answers like a plain list of pairs does, through long random sequences of puts, removals and
 * look-ups; it stays small when entries come and go; a reservation makes the following puts safe.
 */
#include "table.h"

#include <errno.h>

#include "check.h"

static char objects[512];

static void an_empty_table_holds_nothing(void)
{
    struct table table = {0};

    CHECK(table_get(&table, 7) == NULL);
    table_remove(&table, 7, objects);
    table_free(&table);
    CHECK(table_get(&table, 0) == NULL);
    CHECK(table.live == 0);
}

static void a_put_replaces(void)
{
    struct table table = {0};

    CHECK(table_reserve(&table, 2) == 0);
    table_put(&table, 0, &objects[1]);
    table_put(&table, 0, &objects[2]);
    CHECK(table.live == 1);
    CHECK(table_get(&table, 0) == &objects[2]);
    table_free(&table);
}

static void a_removal_spares_a_newer_value(void)
{
    struct table table = {0};

    CHECK(table_reserve(&table, 2) == 0);
    table_put(&table, 5, &objects[1]);
    table_put(&table, 5, &objects[2]);
    table_remove(&table, 5, &objects[1]);
    CHECK(table_get(&table, 5) == &objects[2]);
    table_remove(&table, 5, &objects[2]);
    CHECK(table_get(&table, 5) == NULL);
    CHECK(table.live == 0);
    table_free(&table);
}

/* Keys as they come: pointers of one size class, QP numbers in a row, numbers that differ in the top bits only. */
static uint64_t key_of(int style, unsigned int i)
{
    switch (style) {
    case 0: return 0x7f0000000000u + 448 * (uint64_t)i;
    case 1: return 0x100u + i;
    default: return (uint64_t)i << 56;
    }
}

static void answers_like_a_list(int style)
{
    enum { KEYS = 200, STEPS = 100000 };
    void *expected[KEYS] = {0};
    struct table table = {0};
    uint64_t seed = (uint64_t)style + 1;
    size_t live = 0;

    for (int step = 0; step < STEPS; step++) {
        unsigned int i = (unsigned int)(next_random(&seed) % KEYS);
        void *value = &objects[next_random(&seed) % sizeof objects];

        switch (next_random(&seed) % 3) {
        case 0:
            CHECK(table_reserve(&table, 1) == 0);
            table_put(&table, key_of(style, i), value);
            live += !expected[i];
            expected[i] = value;
            break;
        case 1:
            table_remove(&table, key_of(style, i), value);
            if (expected[i] == value) {
                expected[i] = NULL;
                live--;
            }
            break;
        default:
            if (!expected[i])
                break;
            table_remove(&table, key_of(style, i), expected[i]);
            live--;
            expected[i] = NULL;
        }
        CHECK(table.live == live);
        i = (unsigned int)(next_random(&seed) % KEYS);
        CHECK(table_get(&table, key_of(style, i)) == expected[i]);
    }
    for (unsigned int i = 0; i < KEYS; i++)
        CHECK(table_get(&table, key_of(style, i)) == expected[i]);
    CHECK(table.capacity <= 2048);
    table_free(&table);
}

static void coming_and_going_does_not_grow_it(void)
{
    struct table table = {0};

    for (uint64_t i = 0; i < 1000000; i++) {
        CHECK(table_reserve(&table, 1) == 0);
        table_put(&table, 64 * i, objects);
        CHECK(table_get(&table, 64 * i) == objects);
        table_remove(&table, 64 * i, objects);
    }
    CHECK(table.live == 0);
    CHECK(table.capacity <= 64);
    table_free(&table);
}

static void a_reservation_holds_for_all_its_puts(void)
{
    struct table table = {0};
    struct table_entry *entries;

    for (uint64_t i = 0; i < 10; i++) {
        CHECK(table_reserve(&table, 1) == 0);
        table_put(&table, i, objects);
    }
    CHECK(table_reserve(&table, 5000) == 0);
    entries = table.entries;
    for (uint64_t i = 100; i < 5100; i++)
        table_put(&table, i, objects);
    CHECK(table.entries == entries);
    CHECK(table.used < table.capacity);
    CHECK(table.live == 5010);
    for (uint64_t i = 100; i < 5100; i++)
        CHECK(table_get(&table, i) == objects);
    table_free(&table);
}

int main(void)
{
    an_empty_table_holds_nothing();
    a_put_replaces();
    a_removal_spares_a_newer_value();
    for (int style = 0; style < 3; style++)
        answers_like_a_list(style);
    coming_and_going_does_not_grow_it();
    a_reservation_holds_for_all_its_puts();
    return 0;
}
