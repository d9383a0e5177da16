/* SPDX-License-Identifier: BSD-3-Clause */
/* Events go to whom they are about, and to nobody else: not to a file that has just been given the number of
 * a pipe that was closed. One thread has completions, each with an event; the other closes the channel's
 * descriptor under it and looks at the files that take the numbers that come free. slow_write.c stretches the
 * moment in which it goes wrong. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "pair.h"

#define SECONDS 1.5
#define INTERNAL_FLOOR 960 /* the host's own descriptors are numbered from here */
#define FILES 8

static atomic_bool go, done;
static struct end one;

static void *complete(void *unused)
{
    struct ibv_wc wc;

    go = true;
    while (!done) {
        ibv_req_notify_cq(one.cq, 0);
        CHECK(post(&one, IBV_WR_RDMA_WRITE, 1, 8, IBV_SEND_SIGNALED) == 0);
        wc = wait_wc(one.cq, 1000);
        CHECK(wc.status == IBV_WC_SUCCESS);
    }
    return unused;
}

static void look_at_what_comes_free(void)
{
    int fds[FILES];
    struct stat st;

    for (int i = 0; i < FILES; i++) {
        int fd = memfd_create("stranger", 0);

        CHECK(fd >= 0);
        fds[i] = fcntl(fd, F_DUPFD, INTERNAL_FLOOR);
        CHECK(fds[i] >= 0);
        close(fd);
    }
    usleep(200);
    for (int i = 0; i < FILES; i++) {
        CHECK(fstat(fds[i], &st) == 0 && st.st_size == 0);
        close(fds[i]);
    }
}

int main(void)
{
    struct ibv_context *ctx = open_device(0);
    double end = now_s() + SECONDS;
    pthread_t thread;

    while (now_s() < end) {
        int fd;

        one = end_make(ctx, IBV_QPT_RC, 4096);
        end_connect(&one, &one.self);
        go = done = false;
        CHECK(pthread_create(&thread, NULL, complete, NULL) == 0);
        while (!go)
            sched_yield();
        usleep(100);
        close(one.channel->fd);
        look_at_what_comes_free();
        done = true;
        pthread_join(thread, NULL);
        fd = open("/dev/null", O_RDONLY); /* libibverbs closes the number once more */
        CHECK(fd >= 0 && dup2(fd, one.channel->fd) >= 0);
        if (fd != one.channel->fd)
            close(fd);
        end_free(&one);
    }
    ibv_close_device(ctx);
    return PASS;
}
