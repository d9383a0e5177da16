/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies within the process under the fault guard, between processes by process_vm_readv and
 * process_vm_writev, and by the other process's agent where those are forbidden. */
#include "copy.h"

#include <sys/uio.h>

#include "../config.h"
#include "../guard.h"
#include "../process.h"
#include "agent.h"

#define BATCH 32

struct cursor {
    const struct segment *segment;
    uint64_t offset;
};

/* A stretch of a copy in which neither end changes process. */
struct run {
    struct iovec target[BATCH], source[BATCH];
    int n;
    uint64_t length;
};

static void step(struct cursor *c, uint64_t n)
{
    c->offset += n;
    if (c->offset == c->segment->length) {
        c->segment++;
        c->offset = 0;
    }
}

static void gather(struct run *run, struct cursor *t, struct cursor *s, uint64_t left)
{
    struct proc *tp = t->segment->proc, *sp = s->segment->proc;

    run->n = 0;
    run->length = 0;
    while (left && run->n < BATCH) {
        uint64_t n = min_u64(left, min_u64(t->segment->length - t->offset, s->segment->length - s->offset));

        run->target[run->n] = (struct iovec){(void *)(t->segment->addr + t->offset), n};
        run->source[run->n++] = (struct iovec){(void *)(s->segment->addr + s->offset), n};
        run->length += n;
        left -= n;
        if (!left)
            break;
        step(t, n);
        step(s, n);
        if (t->segment->proc != tp || s->segment->proc != sp)
            break;
    }
}

/* Which end of a local copy is at fault? */
static enum copy_result blame(const struct iovec *target)
{
    return guard_populate((uintptr_t)target->iov_base, target->iov_len, true) ? COPY_TARGET_FAULT
                                                                              : COPY_SOURCE_FAULT;
}

static enum copy_result run_local(const struct run *run)
{
    for (int i = 0; i < run->n; i++) {
        if (guard_copy(run->target[i].iov_base, run->source[i].iov_base, run->target[i].iov_len))
            return blame(&run->target[i]);
    }
    return COPY_DONE;
}

static bool can_reach(const struct proc *p)
{
    return config.copy != COPY_AGENT && p->pid_space == process.pid_space;
}

/* Between this process's memory and p's. 0, EFAULT, ESRCH. */
static int move(struct proc *p, bool write, const struct iovec *mine, const struct iovec *theirs, int n,
                uint64_t length)
{
    if (!process_alive(p)) /* its number may be another's by now */
        return ESRCH;
    if (can_reach(p)) {
        ssize_t done = write ? process_vm_writev(p->pid, mine, (unsigned long)n, theirs, (unsigned long)n, 0)
                             : process_vm_readv(p->pid, mine, (unsigned long)n, theirs, (unsigned long)n, 0);

        if (done == (ssize_t)length)
            return 0;
        if (done >= 0 || errno == EFAULT)
            return EFAULT;
        if (errno == ESRCH || config.copy == COPY_PROCESS_VM)
            return ESRCH;
    }
    for (int i = 0; i < n; i++) {
        int err = agent_move(p, write, (uintptr_t)theirs[i].iov_base, mine[i].iov_base, mine[i].iov_len);

        if (err)
            return err;
    }
    return 0;
}

static bool mine_is_there(const struct iovec *mine, int n, bool writable)
{
    for (int i = 0; i < n; i++) {
        if (mine[i].iov_len && guard_populate((uintptr_t)mine[i].iov_base, mine[i].iov_len, writable))
            return false;
    }
    return true;
}

static enum copy_result run_out(const struct run *run, struct proc *target)
{
    int err = move(target, true, run->source, run->target, run->n, run->length);

    if (err == EFAULT)
        return mine_is_there(run->source, run->n, false) ? COPY_TARGET_FAULT : COPY_SOURCE_FAULT;
    return err ? COPY_GONE : COPY_DONE;
}

static enum copy_result run_in(const struct run *run, struct proc *source)
{
    int err = move(source, false, run->target, run->source, run->n, run->length);

    if (err == EFAULT)
        return mine_is_there(run->target, run->n, true) ? COPY_SOURCE_FAULT : COPY_TARGET_FAULT;
    return err ? COPY_GONE : COPY_DONE;
}

/* Neither end is here: a forked child works on memory that its parent registered. */
static enum copy_result run_through(const struct run *run, struct proc *target, struct proc *source)
{
    static _Thread_local uint8_t bounce[16384];

    for (int i = 0; i < run->n; i++) {
        for (uint64_t done = 0; done < run->target[i].iov_len;) {
            uint64_t n = min_u64(sizeof(bounce), run->target[i].iov_len - done);
            struct iovec here = {bounce, n}, from = {(uint8_t *)run->source[i].iov_base + done, n},
                         to = {(uint8_t *)run->target[i].iov_base + done, n};
            int err = move(source, false, &here, &from, 1, n);

            if (err)
                return err == EFAULT ? COPY_SOURCE_FAULT : COPY_GONE;
            err = move(target, true, &here, &to, 1, n);
            if (err)
                return err == EFAULT ? COPY_TARGET_FAULT : COPY_GONE;
            done += n;
        }
    }
    return COPY_DONE;
}

enum copy_result copy_segments(const struct segment *target, const struct segment *source, uint64_t length)
{
    struct cursor t = {target, 0}, s = {source, 0};

    while (length) {
        struct proc *tp, *sp;
        enum copy_result result;
        struct run run;

        tp = t.segment->proc;
        sp = s.segment->proc;
        gather(&run, &t, &s, length);
        if (!tp && !sp)
            result = run_local(&run);
        else if (!sp)
            result = run_out(&run, tp);
        else if (!tp)
            result = run_in(&run, sp);
        else
            result = run_through(&run, tp, sp);
        if (result != COPY_DONE)
            return result;
        length -= run.length;
    }
    return COPY_DONE;
}
