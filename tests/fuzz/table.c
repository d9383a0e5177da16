/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: through any sequence of reservations, puts, removals and look-ups, some without memory to be had, the
 * table answers as a list of pairs does, keeps a free slot, and keeps the room that it promised.
 */
#include "input.h"

static int no_memory;

static void *scarce_calloc(size_t count, size_t size)
{
    return no_memory ? NULL : calloc(count, size);
}

#define calloc scarce_calloc
#include "../../common/table.c"
#undef calloc

enum { KEYS = 64, MOST = 400 };

/* The naive map: a place for each key that occurs. */
static struct {
    uint64_t key;
    void *value;
} pairs[KEYS];
static size_t live, promised;
static char objects[256];

static void *value_of(uint64_t key)
{
    for (int i = 0; i < KEYS; i++)
        if (pairs[i].value && pairs[i].key == key)
            return pairs[i].value;
    return NULL;
}

static void set(uint64_t key, void *value)
{
    int gap = -1;

    for (int i = 0; i < KEYS; i++) {
        if (pairs[i].value && pairs[i].key == key) {
            live -= !value;
            pairs[i].value = value;
            return;
        }
        if (!pairs[i].value)
            gap = i;
    }
    if (!value)
        return;
    CHECK(gap >= 0);
    pairs[gap].key = key;
    pairs[gap].value = value;
    live++;
}

/* Few keys, so that they meet again; in a row, in one slot, far apart, or any. */
static uint64_t take_key(struct input *in)
{
    uint8_t byte = take8(in);

    switch (byte >> 6) {
    case 0: return byte & 15;
    case 1: return (uint64_t)(byte & 15) << 56;
    case 2: return 0x7f0000000000u + 448 * (uint64_t)(byte & 15);
    default: return (byte & 7) ? (uint64_t)(byte & 15) * 0x100000000u : take64(in) & 0xf00000000000000fu;
    }
}

static void check(const struct table *table)
{
    size_t used = 0, found = 0;

    CHECK(table->live == live && table->reserved == promised);
    for (size_t i = 0; i < table->capacity; i++) {
        used += table->entries[i].value != NULL;
        found += table->entries[i].value && table->entries[i].value != &removed;
    }
    CHECK(used == table->used && found == live);
    CHECK((table->capacity & (table->capacity - 1)) == 0 || !table->capacity);
    CHECK((used + promised) * 4 <= table->capacity * 3); /* a look-up ends, and the promised puts fit */
    for (int i = 0; i < KEYS; i++)
        if (pairs[i].value)
            CHECK(table_get(table, pairs[i].key) == pairs[i].value);
}

static void step(struct table *table, struct input *in)
{
    uint8_t what = take8(in);
    uint64_t key = take_key(in);
    void *value = &objects[take8(in)];
    size_t room = what >> 4;
    struct table before = *table;

    switch (what & 7) {
    case 0:
    case 1:
        no_memory = what & 8;
        room = room == 15 ? 300 : room;
        if (promised + room > MOST) /* a caller has few under way at once */
            break;
        if (table_reserve(table, room) == 0)
            promised += room;
        else
            CHECK(no_memory && memcmp(&before, table, sizeof before) == 0);
        break;
    case 2:
        room = room < promised ? room : promised;
        table_unreserve(table, room);
        promised -= room;
        break;
    case 3:
    case 4:
        if (!promised || (live == KEYS && !value_of(key)))
            break;
        table_put(table, key, value);
        CHECK(table->entries == before.entries);
        promised--;
        set(key, value);
        break;
    case 5:
        table_remove(table, key, value);
        if (value_of(key) == value)
            set(key, NULL);
        break;
    case 6:
        if (value_of(key)) {
            table_remove(table, key, value_of(key));
            set(key, NULL);
        }
        break;
    default:
        if (room)
            break;
        table_free(table);
        memset(pairs, 0, sizeof pairs);
        live = promised = 0;
    }
    CHECK(table_get(table, key) == value_of(key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct table table = {0};

    memset(pairs, 0, sizeof pairs);
    live = promised = 0;
    while (in.left) {
        step(&table, &in);
        check(&table);
    }
    table_free(&table);
    return 0;
}
