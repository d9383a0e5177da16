/* SPDX-License-Identifier: BSD-3-Clause */
/* peer DEVICE SECONDS [MODE]: prints its address, reads the peer's, and works at the peer for that long,
 * checking every byte.
 *
 *   work      (default) writes, reads back and compares, adds to a counter; then waits for the end of its
 * stdin serve     only waits for the end of its stdin unmap     prints "unmapped" once it has taken its
 * registered memory away, and waits
 *
 * Ends with 0 when all was well, 3 when a request failed (printing its status), 4 when bytes were wrong. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUARTER                                                                                              \
    (64 << 10) /* of the buffer: what the peer writes; what this end writes from; what it reads into;        \
                  counters */

static struct end me;
static struct address peer;

static void expect(enum ibv_wr_opcode opcode, const char *what)
{
    struct ibv_wc wc;
    enum ibv_wc_status status = completion_wait(&me, &wc);
    if (status || wc.wr_id != opcode) {
        printf("%s: %s (request %d)\n", what, ibv_wc_status_str(status), (int)wc.wr_id);
        exit(3);
    }
}

static void round_trip(uint32_t round)
{
    uint32_t length = 1 + (round * 2654435761u >> 8) % QUARTER;
    uint8_t *from = me.buf + QUARTER, *back = me.buf + 2 * QUARTER;
    for (uint32_t i = 0; i < length; i += 1 + length / 64)
        from[i] = (uint8_t)(round + i);
    write_post(&me, &peer, IBV_WR_RDMA_WRITE, QUARTER, 0, length);
    expect(IBV_WR_RDMA_WRITE, "write");
    memset(back, 0xee, length);
    write_post(&me, &peer, IBV_WR_RDMA_READ, 2 * QUARTER, 0, length);
    expect(IBV_WR_RDMA_READ, "read");
    if (memcmp(from, back, length)) {
        printf("wrong bytes after a write and a read of %u\n", length);
        exit(4);
    }
    uint64_t *before = (uint64_t *)(me.buf + 3 * QUARTER);
    write_post(&me, &peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 3 * QUARTER, 3 * QUARTER + 8, 8);
    expect(IBV_WR_ATOMIC_FETCH_AND_ADD, "fetch_add");
    if (*before != round) {
        printf("the counter was %llu in round %u\n", (unsigned long long)*before, round);
        exit(4);
    }
}

int main(int argc, char **argv)
{
    need(argc >= 3, "usage: peer DEVICE SECONDS [MODE]");
    const char *mode = argc > 3 ? argv[3] : "work";
    end_open(&me, atoi(argv[1]), 4 * QUARTER, false);
    struct address own = end_address(&me);
    address_print(&own);
    peer = address_read();
    end_connect_patient(&me, &peer, 12, 6); /* 17 ms, seven times */
    puts("connected");
    fflush(stdout);
    char c;
    need(read(0, &c, 1) == 1, "waiting for the word to go"); /* the peer is connected too */
    if (!strcmp(mode, "unmap")) {
        munmap(me.buf, me.size);
        puts("unmapped");
        fflush(stdout);
    }
    if (strcmp(mode, "work")) {
        while (read(0, &c, 1) > 0)
            ;
        return 0;
    }
    uint32_t round = 0;
    for (double end = seconds() + atof(argv[2]); seconds() < end; round++)
        round_trip(round);
    printf("%u rounds\n", round);
    fflush(stdout);
    while (read(0, &c, 1) > 0) /* the peer may not be done */
        ;
    return 0;
}
