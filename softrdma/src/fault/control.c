/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands: from this process by softrdma_faults(), from others of the same user by a datagram to the
 * region's control socket. A command is one line of text, and so is what comes back, or several. */
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../config.h"
#include "../device.h"
#include "../fabric/discovery.h"
#include "../fd.h"
#include "../libc.h"
#include "../lock.h"
#include "../nic.h"
#include "../process.h"
#include "fault.h"

struct reply {
    char *text;
    size_t size, used;
};

static void say(struct reply *reply, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say(struct reply *reply, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (reply->used >= reply->size)
        return;
    va_start(ap, fmt);
    n = vsnprintf(reply->text + reply->used, reply->size - reply->used, fmt, ap);
    va_end(ap);
    reply->used += n < 0 ? 0 : (size_t)n;
}

/* All of them or none: they are read before the first is put in place. */
static int add(struct region *r, const char *text, struct reply *reply)
{
    static struct fault_rule rules[FAULT_RULES];
    static pthread_mutex_t rules_lock = PTHREAD_MUTEX_INITIALIZER;
    char copy[4096], *rest = NULL;
    uint32_t n = 0, id;
    int err = 0;

    if (strlen(text) >= sizeof(copy)) {
        say(reply, "longer than 4095 characters");
        return -1;
    }
    snprintf(copy, sizeof(copy), "%s", text);
    pthread_mutex_lock(&rules_lock);
    for (char *item = strtok_r(copy, ";\n", &rest); item && !err; item = strtok_r(NULL, ";\n", &rest)) {
        if (n == FAULT_RULES) {
            say(reply, "at most %d rules", FAULT_RULES);
            err = -1;
        } else if (item[strspn(item, " \t")]) {
            err = fault_parse(item, &rules[n++], reply->text, reply->size);
        }
    }
    for (uint32_t i = 0; i < n && !err; i++) {
        if (fault_add(r, &rules[i], &id) != 0) {
            reply->used = 0;
            say(reply, "there are %d rules already", FAULT_RULES);
            err = -1;
        } else {
            say(reply, "%s%u", i ? " " : "", id);
        }
    }
    pthread_mutex_unlock(&rules_lock);
    return err;
}

static int list(struct region *r, struct reply *reply)
{
    struct faults *f = &r->faults;

    lock_take(&f->lock);
    for (uint32_t i = 0; i < FAULT_RULES; i++) {
        const struct fault_rule *rule = &f->rule[i];

        if (rule->id)
            say(reply, "%u %llu %llu %s\n", rule->id, (unsigned long long)rule->seen,
                (unsigned long long)rule->fired, rule->text);
    }
    lock_give(&f->lock);
    return 0;
}

static int who(struct region *r, struct reply *reply)
{
    for (uint32_t i = 0; i < MAX_PROCS; i++) {
        if (atomic_load(&r->proc[i].used) && process_alive(&r->proc[i]))
            say(reply, "%d ", (int)r->proc[i].pid);
    }
    return 0;
}

static uint64_t bits_in(const uint64_t *bits, size_t words)
{
    uint64_t n = 0;

    for (size_t i = 0; i < words; i++)
        n += (uint64_t)__builtin_popcountll(__atomic_load_n(&bits[i], __ATOMIC_RELAXED));
    return n;
}

/* What exists at the moment: for whoever looks for leaks. */
static int count_objects(struct region *r, struct reply *reply)
{
    uint32_t contexts = 0, channels = 0;

    lock_take(&r->lock);
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++)
        contexts += !!r->context[i].used;
    for (uint32_t i = 0; i < MAX_CHANNELS; i++)
        channels += r->channel[i].generation && r->channel[i].used;
    say(reply, "contexts %u channels %u pds %u mrs %u mws %u cqs %u qps %u srqs %u ahs %u heap %llu",
        contexts, channels, r->pds.count, r->mrs.count, r->mws.count, r->cqs.count, r->qps.count,
        r->srqs.count, r->ahs.count,
        (unsigned long long)bits_in(r->heap_bits, NELEM(r->heap_bits)) * HEAP_UNIT);
    lock_give(&r->lock);
    return 0;
}

/* No rules, NICs as at the start, numbers from 1 again: the same rules with the same seed will do the same.
 */
static void reset(struct region *r)
{
    fault_remove(r, 0);
    lock_take(&r->faults.lock);
    r->faults.next_id = 0;
    lock_give(&r->faults.lock);
    lock_take(&r->lock);
    for (int i = 0; i < device_count(); i++)
        nic_restore(r, (uint32_t)i);
    lock_give(&r->lock);
}

int fault_command(const char *command, char *ret_reply, size_t size)
{
    struct reply reply = {ret_reply, size, 0};
    struct region *r = process.region;
    size_t word = strcspn(command, " ");
    const char *rest = command + word + strspn(command + word, " ");
    char *end;

    ret_reply[0] = '\0';
    if (word == 3 && memcmp(command, "add", 3) == 0)
        return add(r, rest, &reply);
    if (strcmp(command, "list") == 0)
        return list(r, &reply);
    if (strcmp(command, "who") == 0)
        return who(r, &reply);
    if (strcmp(command, "objects") == 0)
        return count_objects(r, &reply);
    if (strcmp(command, "clear") == 0) {
        fault_remove(r, 0);
        return 0;
    }
    if (strcmp(command, "reset") == 0) {
        reset(r);
        return 0;
    }
    if (word == 4 && memcmp(command, "seed", 4) == 0) {
        uint64_t seed = strtoull(rest, &end, 0);

        if (*rest && !*end)
            fault_set_seed(r, seed);
        say(&reply, "%llu", (unsigned long long)r->faults.seed);
        return *end ? -1 : 0;
    }
    if (word == 6 && memcmp(command, "remove", 6) == 0) {
        unsigned long id = strtoul(rest, &end, 0);

        if (!*end && id && id <= UINT32_MAX && fault_remove(r, (uint32_t)id))
            return 0;
        say(&reply, "%s: there is no such rule", rest);
        return -1;
    }
    say(&reply, "%s: not one of add, remove, clear, reset, list, objects, seed, who", command);
    return -1;
}

/* For this process's own use, by dlsym: what softrdma.faults calls. */
EXPORT int softrdma_faults(const char *command, char *reply, size_t size);
EXPORT int softrdma_faults(const char *command, char *reply, size_t size)
{
    int err = process_join();

    if (err) {
        snprintf(reply, size, "%s", strerror(err));
        return -1;
    }
    return fault_command(command, reply, size);
}

int fault_bind(uint32_t slot)
{
    int yes = 1, fd = fabric_bind_control(slot);

    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
    return fd;
}

/* The sender's user, or -1. */
static uid_t sender_of(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        struct ucred cred;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
            continue;
        memcpy(&cred, CMSG_DATA(c), sizeof(cred));
        return cred.uid;
    }
    return (uid_t)-1;
}

void fault_answer(int fd)
{
    static char command[4096 + 64], reply[32 << 10]; /* of the one service thread */

    for (;;) {
        struct sockaddr_un from;
        struct iovec iov = {command, sizeof(command) - 1};
        union {
            struct cmsghdr align;
            char space[CMSG_SPACE(sizeof(struct ucred))];
        } control;
        struct msghdr msg = {.msg_name = &from,
                             .msg_namelen = sizeof(from),
                             .msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);
        uid_t uid;

        if (n < 0)
            return;
        command[n] = '\0';
        uid = sender_of(&msg);
        if (uid != geteuid() && uid != 0)
            continue;
        reply[0] = fault_command(command, reply + 1, sizeof(reply) - 1) == 0 ? '+' : '-';
        if (sendto(fd, reply, strlen(reply), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&from,
                   msg.msg_namelen) < 0)
            TRACE("whoever sent %s did not wait for the answer", command);
    }
}
