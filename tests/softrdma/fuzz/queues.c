/* SPDX-License-Identifier: BSD-3-Clause */
/* Garbage in the queues that user space and the host share: indices, sizes, work requests, completions; and
 * doorbells. */
#include "fuzz.h"

#include <string.h>
#include <unistd.h>

/* The layout of the shared queue (rdma_user_rxe.h speaks of the entries only). */
#define HEADER 384
#define LOG2_SIZE 0
#define MASK 4
#define PRODUCER 128
#define CONSUMER 256

static void put32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, 4);
}
static void put64(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, 8);
}

static uint32_t get32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

static void header_spoil(uint8_t *at)
{
    static const int fields[] = {LOG2_SIZE, MASK, PRODUCER, CONSUMER};
    put32(at + fields[chance(4)], chance(2) ? chance(300) : odd_number());
}

static void sge_fill(uint8_t *at, int count, const uint32_t *keys, int key_count)
{
    for (int i = 0; i < count; i++, at += 16) {
        put64(at, odd_address());
        put32(at + 8, chance(2) ? chance(9000) : odd_number());
        put32(at + 12, chance(8) ? keys[chance(key_count)] : odd_number());
    }
}

/* A work request that is nearly right. */
static void send_fill(uint8_t *at, size_t room, const uint32_t *keys, int key_count)
{
    int sges = chance(8) ? chance(4) : odd_number();
    put64(at, odd_number());
    put32(at + 12, chance(8) ? chance(16) : odd_number()); /* opcode */
    put32(at + 16, chance(4) ? chance(16) : odd_number()); /* flags */
    put32(at + 20, odd_number());                          /* immediate, or key to invalidate */
    put64(at + 24, odd_address());                         /* remote address; UD: QP number and Q_Key */
    put32(at + 32, keys[chance(key_count)]);
    put64(at + 40, odd_number());
    put32(at + 48, keys[chance(key_count)]);
    if (chance(2)) {
        put32(at + 24, chance(2) ? 17 + chance(64) : odd_number()); /* QP number */
        put32(at + 28, 0x1234);
        put32(at + 36, chance(2) ? chance(16) : odd_number()); /* address handle */
    }
    put32(at + 184, chance(2) ? chance(70000) : odd_number()); /* length */
    put32(at + 188, chance(2) ? chance(70000) : odd_number()); /* of which is left */
    put32(at + 192, chance(4) ? 0 : odd_number());
    put32(at + 196, sges);
    put32(at + 200, chance(4) ? 0 : odd_number());
    sge_fill(at + 208, room > 208 ? (int)((room - 208) / 16) : 0, keys, key_count);
}

static void receive_fill(uint8_t *at, size_t room, const uint32_t *keys, int key_count)
{
    put64(at, odd_number());
    put32(at + 16, chance(2) ? chance(70000) : odd_number());
    put32(at + 28, chance(8) ? chance(4) : odd_number());
    sge_fill(at + 40, room > 40 ? (int)((room - 40) / 16) : 0, keys, key_count);
}

static void slot_fill(struct queue *q, const uint32_t *keys, int key_count)
{
    unsigned log2 = get32(q->at + LOG2_SIZE);
    size_t size = log2 >= 6 && log2 <= 12 ? (size_t)1 << log2 : 128, slots = (q->length - HEADER) / size;
    if (!slots)
        return;
    size_t slot = chance(slots > 64 ? 64 : slots);
    uint8_t *at = q->at + HEADER + slot * size;
    if (size >= 256)
        send_fill(at, size, keys, key_count);
    else
        receive_fill(at, size, keys, key_count);
    put32(q->at + PRODUCER, slot + 1);
}

void queues_spoil(const uint32_t *keys, int key_count)
{
    if (!queue_count)
        return;
    struct queue *q = &queues[chance(queue_count)];
    switch (chance(6)) {
    case 0:
        header_spoil(q->at);
        break;
    case 1:
        q->at[chance(q->length)] = odd_number();
        break;
    case 2:
        put64(q->at + (chance(q->length - 8) & ~7u), odd_number());
        break;
    default:
        slot_fill(q, keys, key_count);
    }
}

void doorbell_ring(uint32_t qp_handle)
{
    struct {
        uint32_t command;
        uint16_t in_words, out_words;
        uint64_t response;
        uint32_t qp_handle, wr_count, sge_count, wqe_size;
    } bell = {28, 8, 1, (uintptr_t)arena, qp_handle, 0, 0, 128};
    size_t length = sizeof(bell);
    switch (chance(16)) {
    case 0:
        bell.command = chance(64);
        break;
    case 1:
        bell.in_words = odd_number();
        break;
    case 2:
        length = chance(sizeof(bell));
        break;
    case 3:
        bell.wr_count = odd_number();
        break;
    case 4:
        bell.qp_handle = odd_number();
        break;
    }
    if (write(cmd_fds[chance(2)], &bell, length) < 0)
        return;
}
