/* SPDX-License-Identifier: BSD-3-Clause */
/* Open addressing with linear probing; removed entries stay as markers until the next growth. See table.h. */
#include "table.h"

#include <errno.h>
#include <stdlib.h>

static char removed; /* its address marks an entry whose value was taken out */

static size_t slot_of(const struct table *table, uint64_t key)
{
    /* Fibonacci hashing: pointers differ in their middle bits. */
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (table->capacity - 1);
}

/* The entry that holds a key, else the one where it would go. There is always a free one. */
static struct table_entry *find(const struct table *table, uint64_t key)
{
    struct table_entry *gap = NULL;

    for (size_t i = slot_of(table, key);; i = (i + 1) & (table->capacity - 1)) {
        struct table_entry *entry = &table->entries[i];
        if (!entry->value)
            return gap ? gap : entry;
        if (entry->value == &removed) {
            if (!gap)
                gap = entry;
        } else if (entry->key == key) {
            return entry;
        }
    }
}

static void put(struct table *table, uint64_t key, void *value)
{
    struct table_entry *entry = find(table, key);

    if (!entry->value)
        table->used++;
    if (!entry->value || entry->value == &removed)
        table->live++;
    entry->key = key;
    entry->value = value;
}

int table_reserve(struct table *table, size_t extra)
{
    struct table grown = {.reserved = table->reserved};
    size_t wanted = table->reserved + extra, capacity = 16;

    /* At most three quarters full, markers counted: probes stay short and always end. */
    if (table->capacity && (table->used + wanted) * 4 <= table->capacity * 3) {
        table->reserved = wanted;
        return 0;
    }

    while ((table->live + wanted) * 2 > capacity)
        capacity *= 2;

    grown.entries = calloc(capacity, sizeof *grown.entries);
    if (!grown.entries)
        return ENOMEM;
    grown.capacity = capacity;
    grown.reserved = wanted;

    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].value && table->entries[i].value != &removed)
            put(&grown, table->entries[i].key, table->entries[i].value);

    free(table->entries);
    *table = grown;
    return 0;
}

void table_unreserve(struct table *table, size_t extra)
{
    table->reserved -= extra;
}

void table_put(struct table *table, uint64_t key, void *value)
{
    table->reserved--;
    put(table, key, value);
}

void *table_get(const struct table *table, uint64_t key)
{
    struct table_entry *entry;

    if (!table->live)
        return NULL;
    entry = find(table, key);
    return entry->value == &removed ? NULL : entry->value;
}

void table_remove(struct table *table, uint64_t key, const void *value)
{
    struct table_entry *entry;

    if (!table->live)
        return;
    entry = find(table, key);
    if (entry->value != value)
        return;
    entry->value = &removed;
    table->live--;
}

void table_free(struct table *table)
{
    free(table->entries);
    *table = (struct table){0};
}
