/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of a region: adding, matching, counting, chance, and the clock. */
#include "fault.h"

#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../config.h"
#include "../device.h"
#include "../event.h"
#include "../fabric/discovery.h"
#include "../libc.h"
#include "../lock.h"
#include "../nic.h"
#include "../process.h"
#include "../service.h"

/* The region's sequence of chances: the same for the same seed, rule and count, whichever threads ask. */
static uint64_t chance(uint64_t seed, uint32_t id, uint64_t n)
{
    uint64_t z = seed + id * UINT64_C(0xd1342543de82ef95) + n * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* After any change; under faults.lock. */
static void rearm(struct faults *f)
{
    uint32_t armed = 0, waiting = 0;

    for (uint32_t i = 0; i < FAULT_RULES; i++) {
        const struct fault_rule *rule = &f->rule[i];

        if (!rule->id)
            continue;
        armed |= rule->hook;
        waiting |= rule->hook == FAULT_AT_TIME || rule->due || rule->undo_at;
    }
    atomic_store(&f->armed, armed & ~(uint32_t)FAULT_AT_TIME);
    atomic_store(&f->waiting, waiting);
}

static void wake_service(struct region *r)
{
    atomic_store(&r->faults.waiting, 1);
    service_wake_all(r);
}

static bool is_spent(const struct fault_rule *rule)
{
    return rule->times && rule->fired >= rule->times;
}

static bool is_time(const struct fault_rule *rule, uint64_t now)
{
    return now >= rule->from && (!rule->until || now < rule->until);
}

/* Something that matches has come by: does it strike this time? Under faults.lock. */
static bool count(const struct faults *f, struct fault_rule *rule, bool may_strike)
{
    uint64_t n;

    if (is_spent(rule) || ((rule->from || rule->until) && !is_time(rule, now_ns())))
        return false;
    n = ++rule->seen;
    if (n < rule->nth || !may_strike)
        return false;
    if (rule->every && (n - rule->nth) % rule->every)
        return false;
    if ((rule->given & KEY_PROBABILITY) && (chance(f->seed, rule->id, n) >> 32) >= rule->probability)
        return false;
    rule->fired++;
    TRACE("fault %u: %s", rule->id, rule->text);
    return true;
}

static bool takes_receive(enum fault_op op)
{
    return op == FAULT_OP_SEND || op == FAULT_OP_SEND_IMM || op == FAULT_OP_SEND_INV ||
           op == FAULT_OP_WRITE_IMM;
}

static bool matches(const struct fault_rule *rule, uint32_t hook, const struct fault_site *site)
{
    if (rule->hook != hook)
        return false;
    if ((rule->given & KEY_DEVICE) && rule->device != site->device)
        return false;
    if ((rule->given & KEY_QP) && rule->qpn != site->qpn)
        return false;
    if (rule->ops ? !(rule->ops >> site->op & 1) : hook != FAULT_AT_COMPLETION && site->op >= FAULT_OP_RECV)
        return false;
    if ((rule->given & KEY_ADDR) && rule->addr != site->addr)
        return false;
    if ((rule->given & KEY_WR_ID) && rule->wr_id != site->wr_id)
        return false;
    return rule->kind != FAULT_RNR || takes_receive(site->op);
}

static uint64_t delay_of(const struct faults *f, const struct fault_rule *rule)
{
    uint64_t spread = rule->delay_max - rule->delay_min;

    return rule->delay_min + (spread ? chance(~f->seed, rule->id, rule->seen) % (spread + 1) : 0);
}

/* Rules that do something elsewhere, when a request comes by that they name. */
static bool is_action(const struct fault_rule *rule)
{
    return rule->kind >= FAULT_LINK;
}

static void set_off(struct region *r, struct fault_rule *rule, const struct fault_site *site)
{
    if (rule->kind == FAULT_DIE)
        kill(getpid(), SIGKILL);
    for (int d = 0; rule->kind == FAULT_LINK && d < device_count(); d++) {
        if (!(rule->given & KEY_DEVICE) || rule->device == (uint32_t)d)
            nic_begin_link(r, (uint32_t)d, rule->up); /* this request is the first to notice */
    }
    rule->due++;
    rule->due_qpn = site->qpn;
    wake_service(r);
}

struct fault_verdict fault_strike(struct region *r, uint32_t hook, const struct fault_site *site)
{
    struct fault_verdict v = {.kind = FAULT_NONE};
    struct faults *f = &r->faults;

    lock_take(&f->lock);
    for (uint32_t i = 0; i < FAULT_RULES; i++) {
        struct fault_rule *rule = &f->rule[i];

        if (!rule->id || !matches(rule, hook, site) || !count(f, rule, v.kind == FAULT_NONE))
            continue;
        if (is_action(rule)) {
            set_off(r, rule, site);
            continue;
        }
        v = (struct fault_verdict){.kind = rule->kind,
                                   .status = rule->status,
                                   .vendor_err = rule->vendor_err,
                                   .moved = rule->moved,
                                   .answer = rule->answer,
                                   .delay_ns = delay_of(f, rule)};
    }
    lock_give(&f->lock);
    return v;
}

bool fault_overruns(struct region *r, struct cq *cq, const struct fault_site *site, bool *ret_tell)
{
    *ret_tell = false;
    if (cq->overrun)
        return true;
    if (fault_at(r, FAULT_AT_COMPLETION, site).kind != FAULT_OVERRUN)
        return false;
    cq->overrun = CQ_OVERRUN;
    atomic_store(&r->faults.overruns, 1);
    wake_service(r);
    *ret_tell = true;
    return true;
}

int fault_strike_call(struct region *r, uint32_t device, const char *name)
{
    struct faults *f = &r->faults;
    int err = 0;

    lock_take(&f->lock);
    for (uint32_t i = 0; i < FAULT_RULES; i++) {
        struct fault_rule *rule = &f->rule[i];

        if (!rule->id || rule->hook != FAULT_AT_CALL || strcmp(rule->call, name) != 0 ||
            ((rule->given & KEY_DEVICE) && rule->device != device))
            continue;
        if (count(f, rule, !err))
            err = rule->err;
    }
    lock_give(&f->lock);
    return err;
}

/* The kernel's rule, less its exemption for CAP_IPC_LOCK: whoever asks for the limit wants to meet it. */
static uint64_t pages_allowed(struct region *r)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), allowed = UINT64_MAX, now = now_ns();
    struct faults *f = &r->faults;

    lock_take(&f->lock);
    for (uint32_t i = 0; i < FAULT_RULES; i++) {
        struct fault_rule *rule = &f->rule[i];
        uint64_t limit = rule->limit;
        struct rlimit own;

        if (!rule->id || rule->kind != FAULT_MEMLOCK || !is_time(rule, now))
            continue;
        rule->seen++;
        if (limit == UINT64_MAX && getrlimit(RLIMIT_MEMLOCK, &own) == 0 && own.rlim_cur != RLIM_INFINITY)
            limit = own.rlim_cur;
        if (limit != UINT64_MAX)
            allowed = min_u64(allowed, limit / page);
    }
    lock_give(&f->lock);
    return allowed;
}

int fault_pin(struct region *r, uint32_t proc, uint64_t pages)
{
    uint64_t now = atomic_fetch_add(&r->proc[proc].pinned, pages) + pages;

    if (!fault_armed(r, FAULT_AT_MEMLOCK) || now <= pages_allowed(r))
        return 0;
    atomic_fetch_sub(&r->proc[proc].pinned, pages);
    lock_take(&r->faults.lock);
    for (uint32_t i = 0; i < FAULT_RULES; i++) {
        if (r->faults.rule[i].id && r->faults.rule[i].kind == FAULT_MEMLOCK)
            r->faults.rule[i].fired++;
    }
    lock_give(&r->faults.lock);
    return ENOMEM;
}

void fault_unpin(struct region *r, uint32_t proc, uint64_t pages)
{
    atomic_fetch_sub(&r->proc[proc].pinned, pages);
}

void fault_tell_seed(struct region *r)
{
    char line[160];
    int n;

    if (r->faults.seed_known)
        return;
    r->faults.seed_known = 1;
    n = snprintf(line, sizeof(line),
                 "softrdma[%d]: faults by chance, seed %llu (seed=%llu has the same again)\n", (int)getpid(),
                 (unsigned long long)r->faults.seed, (unsigned long long)r->faults.seed);
    if (libc_get()->write(2, line, (size_t)n) < 0)
        return;
}

void fault_set_seed(struct region *r, uint64_t seed)
{
    lock_take(&r->faults.lock);
    r->faults.seed = seed;
    r->faults.seed_known = 1;
    lock_give(&r->faults.lock);
}

/* What is to be done at once is done at once, by whoever asks. */
static void act_now(struct region *r, struct fault_rule *rule)
{
    struct fault_rule copy;

    lock_take(&r->faults.lock);
    copy = *rule;
    if (copy.hook != FAULT_AT_TIME || copy.after_ns || is_spent(&copy)) {
        lock_give(&r->faults.lock);
        return;
    }
    rule->seen++;
    rule->fired++;
    if (rule->for_ns)
        rule->undo_at = now_ns() + rule->for_ns;
    rearm(&r->faults);
    lock_give(&r->faults.lock);
    lock_take(&r->lock);
    fault_act(r, &copy, 0);
    lock_give(&r->lock);
}

/* A free place, or that of the oldest rule that will do nothing more; under faults.lock. */
static struct fault_rule *find_place(struct faults *f)
{
    struct fault_rule *oldest = NULL;

    for (uint32_t i = 0; i < FAULT_RULES; i++) {
        struct fault_rule *rule = &f->rule[i];

        if (!rule->id)
            return rule;
        if (is_spent(rule) && !rule->due && !rule->undo_at && (!oldest || rule->id < oldest->id))
            oldest = rule;
    }
    return oldest;
}

int fault_add(struct region *r, const struct fault_rule *parsed, uint32_t *ret_id)
{
    struct faults *f = &r->faults;
    struct fault_rule *rule;
    uint64_t now = now_ns();

    lock_take(&f->lock);
    rule = find_place(f);
    if (!rule) {
        lock_give(&f->lock);
        return ENOSPC;
    }
    *rule = *parsed;
    rule->id = *ret_id = ++f->next_id;
    if (rule->after_ns)
        rule->from = now + rule->after_ns;
    if (rule->for_ns && rule->hook != FAULT_AT_TIME && !is_action(rule))
        rule->until = now + rule->after_ns + rule->for_ns;
    rearm(f);
    lock_give(&f->lock);
    if ((rule->given & KEY_PROBABILITY) || rule->delay_min != rule->delay_max)
        fault_tell_seed(r);
    act_now(r, rule);
    service_wake_all(r);
    return 0;
}

bool fault_remove(struct region *r, uint32_t id)
{
    struct faults *f = &r->faults;
    bool found = false;

    lock_take(&f->lock);
    for (uint32_t i = 0; i < FAULT_RULES; i++) {
        if (f->rule[i].id && (!id || f->rule[i].id == id)) {
            f->rule[i].id = 0;
            found = true;
        }
    }
    rearm(f);
    lock_give(&f->lock);
    return found;
}

/* One thing that the rule has come to: taken under faults.lock, done after it. */
enum step { STEP_NONE, STEP_ACT, STEP_UNDO };

static enum step next_step(struct fault_rule *rule, uint64_t now, uint64_t *next)
{
    if (rule->undo_at && now >= rule->undo_at) {
        rule->undo_at = 0;
        return STEP_UNDO;
    }
    if (rule->due) {
        rule->due--;
        if (rule->for_ns)
            rule->undo_at = now + rule->for_ns;
        return STEP_ACT;
    }
    if (rule->hook == FAULT_AT_TIME && rule->after_ns && !is_spent(rule)) {
        if (now >= rule->from) {
            rule->seen++;
            rule->fired++;
            if (rule->for_ns)
                rule->undo_at = now + rule->for_ns;
            return STEP_ACT;
        }
        *next = min_u64(*next, rule->from);
    }
    if (rule->undo_at)
        *next = min_u64(*next, rule->undo_at);
    return STEP_NONE;
}

uint64_t fault_service(struct region *r)
{
    struct faults *f = &r->faults;
    uint64_t next = UINT64_MAX, now = now_ns();

    if (!atomic_load(&f->waiting))
        return UINT64_MAX;
    if (atomic_exchange(&f->overruns, 0)) {
        lock_take(&r->lock);
        fault_break_overrun(r);
        lock_give(&r->lock);
    }
    for (uint32_t i = 0; i < FAULT_RULES; i++) {
        struct fault_rule copy;
        enum step step;

        do {
            step = STEP_NONE;
            lock_take(&f->lock);
            if (f->rule[i].id)
                step = next_step(&f->rule[i], now, &next);
            copy = f->rule[i];
            lock_give(&f->lock);
            lock_take(&r->lock);
            if (step == STEP_ACT)
                fault_act(r, &copy, copy.due_qpn);
            else if (step == STEP_UNDO)
                fault_undo(r, &copy);
            lock_give(&r->lock);
        } while (step != STEP_NONE);
    }
    lock_take(&f->lock);
    rearm(f);
    lock_give(&f->lock);
    return next;
}

/* ---- the environment's rules, known before there is a region ---- */

static struct fault_rule first_rules[FAULT_RULES];
static uint32_t nfirst;
static uint64_t first_seed;
static bool has_first_seed;

static void refuse(const char *what)
{
    fprintf(stderr, "softrdma: SOFTRDMA_FAULTS: %s\n", what);
    _exit(2);
}

void fault_load(void)
{
    const char *text = secure_getenv("SOFTRDMA_FAULTS");
    char copy[4096], error[1024], *rest = NULL;

    if (!text || !*text)
        return;
    if (strlen(text) >= sizeof(copy))
        refuse("longer than 4095 characters");
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *item = strtok_r(copy, ";\n", &rest); item; item = strtok_r(NULL, ";\n", &rest)) {
        item += strspn(item, " \t");
        if (!*item)
            continue;
        if (strncmp(item, "seed=", 5) == 0) {
            char *end;

            first_seed = strtoull(item + 5, &end, 0);
            if (*end || end == item + 5)
                refuse("seed= wants a number");
            has_first_seed = true;
            continue;
        }
        if (nfirst == FAULT_RULES)
            refuse("more rules than fit");
        if (fault_parse(item, &first_rules[nfirst], error, sizeof(error)) != 0)
            refuse(error);
        nfirst++;
    }
}

void fault_begin(struct region *r)
{
    struct faults *f = &r->faults;
    uint32_t id;

    lock_init(&f->lock);
    if (getrandom(&f->seed, sizeof(f->seed), GRND_NONBLOCK) != sizeof(f->seed))
        f->seed = now_ns();
    f->seed &= UINT32_MAX; /* short enough to be typed */
    if (has_first_seed)
        f->seed = first_seed;
    for (uint32_t i = 0; i < nfirst; i++)
        fault_add(r, &first_rules[i], &id);
}
