/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: EFA ends in two processes, and over fork: messages and reads between them, out of order when asked for,
 * each exactly once; a peer that dies, a child that works with what its parent made. */
#include <signal.h>

#include "srd.h"

#define SIZE (1 << 20)
#define COUNT 200

static struct address exchange_addresses(const struct address *mine, int to, int from)
{
    struct address theirs;

    CHECK(write(to, mine, sizeof(*mine)) == sizeof(*mine));
    CHECK(read(from, &theirs, sizeof(theirs)) == sizeof(theirs));
    return theirs;
}

static void tell(int fd)
{
    CHECK(write(fd, "c", 1) == 1);
}

static void hear(int fd)
{
    char c;

    CHECK(read(fd, &c, 1) == 1);
}

/* Receives, fills memory to be read, and stays until it is told. */
static int target(int in, int out)
{
    struct srd e = srd_make(efa_open(1), IBV_QPT_DRIVER, SIZE, 2 * COUNT);
    struct address peer;
    struct ibv_ah *ah;

    srd_start(&e, -1);
    peer = exchange_addresses(&e.self, out, in);
    ah = srd_ah(&e, &peer.gid);
    for (uint32_t i = 0; i < COUNT; i++)
        srd_recv(&e, i, i * 64, 64);
    tell(out);
    for (uint32_t i = 0, seen[COUNT] = {0}; i < COUNT; i++) {
        struct seen s = srd_wait(&e, 5000);
        uint32_t number;

        CHECK(s.status == IBV_WC_SUCCESS && s.src_qp == peer.qpn);
        memcpy(&number, e.buf + s.wr_id * 64, sizeof(number));
        CHECK(number < COUNT && !seen[number]++);
    }
    for (size_t i = 0; i < SIZE; i++)
        e.buf[i] = (uint8_t)(i * 7);
    tell(out);
    hear(in);
    CHECK(ibv_destroy_ah(ah) == 0);
    srd_free(&e);
    return PASS;
}

/* Sends everything in one go; how many completions overtook another. */
static int send_all(struct srd *e, struct ibv_ah *ah, uint32_t qpn)
{
    int overtaken = 0;
    uint64_t highest = 0;

    ibv_wr_start(e->qpx);
    for (uint32_t i = 0; i < COUNT; i++) {
        memcpy(e->buf + i * 64, &i, sizeof(i));
        e->qpx->wr_id = i;
        ibv_wr_send(e->qpx);
        ibv_wr_set_sge(e->qpx, e->mr->lkey, (uintptr_t)e->buf + i * 64, 64);
        ibv_wr_set_ud_addr(e->qpx, ah, qpn, SRD_QKEY);
    }
    CHECK(ibv_wr_complete(e->qpx) == 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct seen s = srd_wait(e, 5000);

        CHECK(s.status == IBV_WC_SUCCESS);
        overtaken += s.wr_id < highest;
        highest = s.wr_id > highest ? s.wr_id : highest;
    }
    return overtaken;
}

static void two_processes(bool kill_it)
{
    int to, from, status, overtaken;
    pid_t pid = spawn(target, &to, &from);
    struct ibv_context *ctx = efa_open(0);
    struct srd e = srd_make(ctx, IBV_QPT_DRIVER, SIZE, 2 * COUNT);
    struct address peer;
    struct ibv_ah *ah;
    struct seen s;

    srd_start(&e, -1);
    peer = exchange_addresses(&e.self, to, from);
    ah = srd_ah(&e, &peer.gid);
    hear(from);
    overtaken = send_all(&e, ah, peer.qpn);
    CHECK(getenv("SOFTRDMA_REORDER") ? overtaken > COUNT / 10 : overtaken == 0);
    hear(from);
    srd_read(&e, ah, &peer, 1, 0, SIZE);
    s = srd_wait(&e, 5000);
    CHECK(s.status == IBV_WC_SUCCESS && e.buf[SIZE - 1] == (uint8_t)((SIZE - 1) * 7));
    if (kill_it) {
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, &status, 0) == pid);
        srd_send(&e, ah, peer.qpn, 9, 0, 8);
        s = srd_wait(&e, 5000);
        CHECK(s.wr_id == 9 && s.vendor_err == EFA_BAD_QPN);
    } else {
        tell(to);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    close(to);
    close(from);
    CHECK(ibv_destroy_ah(ah) == 0);
    srd_free(&e);
    CHECK(ibv_close_device(ctx) == 0);
}

/* What the parent made, by a child: the memory that moves is the parent's. */
static void a_child_posts_for_its_parent(void)
{
    struct ibv_context *ctx = efa_open(0);
    struct srd a = srd_make(ctx, IBV_QPT_DRIVER, 4096, 8), b = srd_make(ctx, IBV_QPT_DRIVER, 4096, 8);
    struct ibv_ah *ah = srd_ah(&a, &b.self.gid);
    struct seen s;
    int status;
    pid_t pid;

    srd_start(&a, -1);
    srd_start(&b, -1);
    srd_recv(&b, 4, 0, 8);
    memcpy(a.buf, "parent", 7);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        memcpy(a.buf, "child!", 7);
        srd_send(&a, ah, b.self.qpn, 3, 0, 7);
        s = srd_wait(&a, 2000);
        _exit(s.status == IBV_WC_SUCCESS && s.wr_id == 3 ? PASS : FAIL);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    s = srd_wait(&b, 2000);
    CHECK(s.status == IBV_WC_SUCCESS && s.wr_id == 4 && memcmp(b.buf, "parent", 7) == 0);
    CHECK(ibv_destroy_ah(ah) == 0);
    srd_free(&a);
    srd_free(&b);
    CHECK(ibv_close_device(ctx) == 0);
}

/* One case a run: a process that has opened a device shares what it has with the children it forks. */
int main(int argc, char **argv)
{
    alarm(60);
    CHECK(argc == 2);
    if (strcmp(argv[1], "child") == 0)
        a_child_posts_for_its_parent();
    else
        two_processes(strcmp(argv[1], "kill") == 0);
    return PASS;
}
