/* SPDX-License-Identifier: BSD-3-Clause */
/* Names, sockets and the passing of a region's descriptor. */
#include "discovery.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../config.h"
#include "../fd.h"
#include "../libc.h"
#include "../process.h"

struct hello {
    uint64_t magic, layout, instance;
};

#define ANSWER_TIMEOUT_MS 500

static _Atomic int wake_sender = -1;

/* kind: "l" for the lock, "r" for the region of a slot, "c" for its control socket, "w" for the wake-up socket of a process in it. */
static socklen_t make_name(struct sockaddr_un *a, const char *kind, uint32_t slot, uint32_t proc)
{
    int n;

    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "softrdma/%u/%s/%s%u.%u", (unsigned)geteuid(),
                 config.fabric, kind, slot, proc);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int new_socket(int type)
{
    return libc_get()->socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
}

int fabric_claim(uint32_t *ret_slot, int *ret_listen_fd)
{
    for (uint32_t slot = 0; slot < FABRIC_SLOTS; slot++) {
        struct sockaddr_un name;
        socklen_t len = make_name(&name, "r", slot, 0);
        int err, fd = new_socket(SOCK_SEQPACKET | SOCK_NONBLOCK);

        if (fd < 0)
            return errno;
        if (bind(fd, (struct sockaddr *)&name, len) == 0 && listen(fd, 128) == 0) {
            *ret_slot = slot;
            *ret_listen_fd = fd_make_internal(fd);
            return 0;
        }
        err = errno;
        libc_get()->close(fd);
        if (err != EADDRINUSE)
            return err;
    }
    return EUSERS;
}

static bool same_user(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

static void send_region(int fd, struct region *r, int region_fd)
{
    struct hello hello = {REGION_MAGIC, region_layout(), r->instance};
    struct iovec iov = {&hello, sizeof(hello)};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &region_fd, sizeof(int));
    if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0)
        TRACE("a newcomer left before it was answered");
}

void fabric_answer(int listen_fd, struct region *r, int region_fd)
{
    int fd;

    while ((fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (same_user(fd))
            send_region(fd, r, region_fd);
        libc_get()->close(fd);
    }
}

/* A name that only one has at a time, and that the kernel takes back. While a thread has it no other may fork: a child
 * would keep it. */
static pthread_mutex_t name_lock = PTHREAD_MUTEX_INITIALIZER;
static int name_fd = -1;

void fabric_lock(void)
{
    struct sockaddr_un name;
    socklen_t len = make_name(&name, "l", 0, 0);
    long wait_ns = 10000;

    pthread_mutex_lock(&name_lock);
    name_fd = new_socket(SOCK_DGRAM);
    while (name_fd >= 0 && bind(name_fd, (struct sockaddr *)&name, len) != 0 && errno == EADDRINUSE) {
        nanosleep(&(struct timespec){0, wait_ns}, NULL);
        if (wait_ns < 1000000)
            wait_ns *= 2;
    }
}

void fabric_unlock(void)
{
    if (name_fd >= 0)
        libc_get()->close(name_fd);
    name_fd = -1;
    pthread_mutex_unlock(&name_lock);
}

void fabric_before_fork(void)
{
    pthread_mutex_lock(&name_lock);
}

void fabric_after_fork(void)
{
    pthread_mutex_unlock(&name_lock);
}

static int connect_slot(uint32_t slot)
{
    struct sockaddr_un name;
    socklen_t len = make_name(&name, "r", slot, 0);
    struct timeval limit = {0, ANSWER_TIMEOUT_MS * 1000};
    int fd = new_socket(SOCK_SEQPACKET);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&name, len) != 0 || !same_user(fd)) {
        libc_get()->close(fd);
        return -1;
    }
    return fd;
}

bool fabric_is_taken(uint32_t slot)
{
    int fd = connect_slot(slot);

    if (fd < 0)
        return false;
    libc_get()->close(fd);
    return true;
}

/* The descriptor that came with the answer, or -1. */
static int receive_region(int fd, struct hello *ret_hello)
{
    struct iovec iov = {ret_hello, sizeof(*ret_hello)};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c;
    int got = -1;

    if (recvmsg(fd, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*ret_hello))
        return -1;
    c = CMSG_FIRSTHDR(&msg);
    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&got, CMSG_DATA(c), sizeof(int));
    return got;
}

struct region *fabric_attach(uint32_t slot)
{
    struct hello hello = {0};
    struct region *r = NULL;
    int got, fd = connect_slot(slot);

    if (fd < 0)
        return NULL;
    got = receive_region(fd, &hello);
    libc_get()->close(fd);
    if (got < 0)
        return NULL;
    if (hello.magic == REGION_MAGIC && hello.layout == region_layout())
        r = region_map(got);
    libc_get()->close(got);
    TRACE("attach to slot %u: %s", slot, r ? "done" : "not possible");
    return r;
}

static int bind_datagrams(const char *kind, uint32_t slot, uint32_t proc)
{
    struct sockaddr_un name;
    socklen_t len = make_name(&name, kind, slot, proc);
    int fd = new_socket(SOCK_DGRAM | SOCK_NONBLOCK);

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&name, len) != 0) {
        libc_get()->close(fd);
        return -1;
    }
    return fd_make_internal(fd);
}

int fabric_bind_wake(uint32_t slot, uint32_t proc)
{
    return bind_datagrams("w", slot, proc);
}

int fabric_bind_control(uint32_t slot)
{
    return bind_datagrams("c", slot, 0);
}

static int sender(void)
{
    int fd = atomic_load(&wake_sender), none = -1;

    if (fd >= 0)
        return fd;
    fd = fd_make_internal(new_socket(SOCK_DGRAM | SOCK_NONBLOCK));
    if (!atomic_compare_exchange_strong(&wake_sender, &none, fd)) {
        fd_close_internal(fd);
        fd = none;
    }
    return fd;
}

void fabric_wake(struct proc *p)
{
    struct sockaddr_un name;
    socklen_t len;

    if (atomic_exchange(&p->woken, 1))
        return;
    len = make_name(&name, "w", p->slot, p->index);
    /* A full socket means that it is being woken already; no socket, that it does not serve yet. */
    if (sendto(sender(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&name, len) < 0 &&
        errno != EAGAIN)
        atomic_store(&p->woken, 0);
}

void fabric_drain_wake(int fd)
{
    char byte;

    while (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0)
        ;
}
