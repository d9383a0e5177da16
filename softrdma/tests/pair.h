/* SPDX-License-Identifier: BSD-3-Clause */
/* What the test programs share: an end of a connection, connecting two ends, posting, and waiting for a
 * completion with a limit. A program returns PASS, FAIL or SKIP. */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PASS = 0, FAIL = 1, SKIP = 77 };

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);        \
            exit(FAIL);                                                                                      \
        }                                                                                                    \
    } while (0)

#define ALL_ACCESS                                                                                           \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |  \
     IBV_ACCESS_MW_BIND)

/* What one end tells the other. */
struct address {
    union ibv_gid gid;
    uint32_t qpn, rkey;
    uint64_t addr;
};

struct end {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buf;
    size_t size;
    struct address self, peer;
    /* of the connection, may be set before end_connect */
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
};

struct ibv_context *open_device(int index);
/* Everything on an open device; type IBV_QPT_RC, UC or UD. */
struct end end_make(struct ibv_context *ctx, enum ibv_qp_type type, size_t size);
int end_try_connect(struct end *e, const struct address *peer);
void end_connect(struct end *e, const struct address *peer); /* RESET to RTS */
void end_free(struct end *e);                                /* not the context */

int post_recv(struct end *e, uint64_t id, size_t offset, uint32_t length);
int post(struct end *e, enum ibv_wr_opcode opcode, uint64_t id, uint32_t length, unsigned flags);
/* The next completion, within a limit; status -1 in a completion that did not come. */
struct ibv_wc wait_wc(struct ibv_cq *cq, int limit_ms);
enum ibv_qp_state state_of(struct ibv_qp *qp);
void sleep_ms(int ms);
double now_s(void);

/* Runs the function in a child that inherits nothing of the host's, as a separate process of the fabric. */
pid_t spawn(int (*run)(int in, int out), int *ret_to, int *ret_from);
void exchange(struct end *e, int to, int from); /* addresses over pipes */

#endif
