/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: a context that was inherited over fork works in the child, for objects of the parent and for
 * new ones, with memory of either; parent and child may close it or die in any order. */
#include <signal.h>
#include <sys/prctl.h>

#include "pair.h"

static struct ibv_context *ctx;
static struct end left, right; /* made by the parent, connected to each other */

static void move(struct end *from, struct end *to, uint8_t value)
{
    struct ibv_wc wc;

    memset(from->buf, value, 64);
    CHECK(post(from, IBV_WR_RDMA_WRITE, value, 64, 0) == 0);
    wc = wait_wc(from->cq, 2000);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == value);
    (void)to;
}

static void pair_in_one_process(uint8_t value)
{
    struct end a = end_make(ctx, IBV_QPT_RC, 8192), b = end_make(ctx, IBV_QPT_RC, 8192);

    end_connect(&a, &b.self);
    end_connect(&b, &a.self);
    move(&a, &b, value);
    CHECK(b.buf[63] == value);
    end_free(&a);
    end_free(&b);
}

/* The child posts on the parent's queue pair: what moves is the memory that the parent registered. */
static int use_parents(int in, int out)
{
    struct ibv_wc wc;
    char c;

    CHECK(read(in, &c, 1) == 1);
    memset(left.buf, 99, 64); /* the child's own copy: nobody sees it */
    CHECK(post(&left, IBV_WR_RDMA_WRITE, 7, 64, 0) == 0);
    wc = wait_wc(left.cq, 2000);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 7);
    pair_in_one_process(3);
    CHECK(write(out, "d", 1) == 1);
    return PASS;
}

static int outlive_parent(int in, int out)
{
    char c;

    prctl(PR_SET_PDEATHSIG, 0);
    CHECK(read(in, &c, 1) == 0); /* the parent is gone */
    pair_in_one_process(4);
    CHECK(write(out, "d", 1) == 1);
    return PASS;
}

static int close_only(int in, int out)
{
    (void)in;
    (void)out;
    CHECK(ibv_close_device(ctx) == 0);
    return PASS;
}

static int status_of(pid_t pid)
{
    int status;

    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void child_uses_parents_objects(void)
{
    int to, from;
    pid_t pid;
    char c;

    left = end_make(ctx, IBV_QPT_RC, 8192);
    right = end_make(ctx, IBV_QPT_RC, 8192);
    end_connect(&left, &right.self);
    end_connect(&right, &left.self);
    pid = spawn(use_parents, &to, &from);
    memset(left.buf, 5, 64);
    CHECK(write(to, "g", 1) == 1 && read(from, &c, 1) == 1);
    CHECK(right.buf[0] == 5 && right.buf[63] == 5);
    CHECK(status_of(pid) == PASS);
    move(&left, &right, 6); /* and it still works here */
    CHECK(right.buf[63] == 6);
    end_free(&left);
    end_free(&right);
}

static void child_closes(void)
{
    int to, from;
    pid_t pid = spawn(close_only, &to, &from);

    CHECK(status_of(pid) == PASS);
    pair_in_one_process(8);
}

static void child_is_killed(void)
{
    int to, from;
    pid_t pid = spawn(outlive_parent, &to, &from);

    kill(pid, SIGKILL);
    CHECK(status_of(pid) == 128 + SIGKILL);
    pair_in_one_process(9);
}

/* The child has not run a single instruction when its parent closes what it inherits. */
static void parent_closes_first(void)
{
    for (int i = 0; i < 20; i++) {
        pid_t pid;

        ctx = open_device(i % 2);
        pid = fork();
        if (pid == 0) {
            pair_in_one_process((uint8_t)(10 + i));
            exit(PASS);
        }
        CHECK(ibv_close_device(ctx) == 0);
        CHECK(status_of(pid) == PASS);
    }
}

/* A middle process opens a context of its own and dies; its child goes on with it. */
static void parent_dies_first(void)
{
    int result[2], hold[2];
    char c = 0;
    pid_t middle;

    CHECK(pipe(result) == 0 && pipe(hold) == 0);
    middle = fork();
    if (middle == 0) {
        ctx = open_device(0);
        pair_in_one_process(1);
        if (fork() == 0) {
            close(hold[1]);
            exit(outlive_parent(hold[0], result[1]));
        }
        kill(getpid(), SIGKILL);
    }
    close(hold[1]);
    CHECK(status_of(middle) == 128 + SIGKILL);
    close(result[1]);
    CHECK(read(result[0], &c, 1) == 1 && c == 'd');
}

int main(void)
{
    parent_dies_first(); /* before this process has anything to hand down */
    parent_closes_first();
    ctx = open_device(0);
    child_uses_parents_objects();
    child_closes();
    child_is_killed();
    parent_dies_first();
    CHECK(ibv_close_device(ctx) == 0);
    return PASS;
}
