/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs that run for a while share: one RC end in this process, and its connection to an end
 * elsewhere. */
#ifndef PROGRAMS_RIG_H
#define PROGRAMS_RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct end {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq; /* for both queues */
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buf;
    size_t size;
    union ibv_gid gid;
};

/* What a peer has to know of an end. */
struct address {
    union ibv_gid gid;
    uint32_t qpn, rkey;
    uint64_t addr;
};

/* Each ends the program with a message and status 2 when a call is refused. `device` counts in the list of
 * devices. */
void end_open(struct end *e, int device, size_t size, bool events);
struct address end_address(const struct end *e);
void end_connect(struct end *e,
                 const struct address *peer); /* from RESET or just made; short ack timeout, rnr_retry 7 */
void end_connect_patient(struct end *e, const struct address *peer, int timeout, int retry_cnt);

void write_post(struct end *e, const struct address *peer, enum ibv_wr_opcode opcode, size_t from, size_t to,
                uint32_t length);
void recv_post(struct end *e, size_t at, uint32_t length);
enum ibv_wc_status completion_wait(struct end *e,
                                   struct ibv_wc *wc); /* polls, giving the CPU away when there is nothing */

/* An address as a line of text on stdout, and the peer's from stdin. */
void address_print(const struct address *a);
struct address address_read(void);

double seconds(void);
void need(bool good, const char *what);

#endif
