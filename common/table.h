/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A map from a C pointer or a number to the live object that stands for it. Holds no references; knows no Python.
 * Not locked: its owner's lock (the GIL, in the modules) guards it.
 */
#ifndef CORE_TABLE_H
#define CORE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_entry {
    uint64_t key;
    void *value; /* NULL: never used. */
};

struct table {
    struct table_entry *entries;
    size_t capacity; /* a power of two, or 0 */
    size_t used;     /* entries that hold something, live or removed */
    size_t live;
    size_t reserved; /* puts that room is kept for */
};

/* Keeps room for `extra` puts, which then cannot fail. Returns 0 or ENOMEM, with nothing changed. */
int table_reserve(struct table *table, size_t extra);

/* Gives up room that was kept and is not needed. */
void table_unreserve(struct table *table, size_t extra);

/* Puts a value under a key, in place of the one that is there, if any; takes up one reservation. */
void table_put(struct table *table, uint64_t key, void *value);

/* The value under a key, or NULL. */
void *table_get(const struct table *table, uint64_t key);

/* Takes the value out from under a key; does nothing if another value has come in its place. */
void table_remove(struct table *table, uint64_t key, const void *value);

/* Frees what the table holds; it is empty afterwards. */
void table_free(struct table *table);

#endif
