/* SPDX-License-Identifier: BSD-3-Clause */
/* The door of the stub: counting, delaying and failing calls, the life of objects, and the control functions that
 * belong to no single verb. */
#include "stub.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

atomic_int stub_hot;
pthread_mutex_t stub_mutex = PTHREAD_MUTEX_INITIALIZER;
_Atomic unsigned long stub_call_counts[VERB_COUNT];
atomic_int stub_lenient, stub_holding;

static const char *const verb_names[VERB_COUNT] = {
#define X(name) #name,
    STUB_VERBS(X)
#undef X
};

static const char *const kind_names[KIND_COUNT] = {
#define X(name) #name,
    STUB_KINDS(X)
#undef X
};

/* All of this under stub_mutex. */
static struct {
    unsigned long nth, times;     /* calls until the fault, and how many fail then; 0: none */
    int err;
    unsigned int delay;
    bool gate;
    int inside;
} verbs[VERB_COUNT];
static struct { unsigned long nth; int err; bool destroys; } any_fault;
static struct { int value; unsigned long times; } poll_lie;
static struct { bool on; int after, err; enum stub_bad_wr bad; } refusals[VERB_COUNT];
static pthread_cond_t gates = PTHREAD_COND_INITIALIZER;
static long live[KIND_COUNT];
static unsigned long violations;
static bool capturing;

/* Destroyed objects whose memory is kept, oldest first in turn. */
static struct stub_object *quarantine[256];
static unsigned int quarantine_at;

_Noreturn void stub_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("stub libibverbs: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

void stub_violation(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("stub libibverbs: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    violations++;
}

_Noreturn void stub_dead(enum stub_verb verb, enum stub_kind kind, const void *object)
{
    stub_die("%s on a %s that does not exist (%p)", verb_names[verb], kind_names[kind], object);
}

enum stub_verb stub_verb_named(const char *name)
{
    for (int i = 0; i < VERB_COUNT; i++)
        if (!strcmp(name, verb_names[i]))
            return (enum stub_verb)i;
    stub_die("no verb is called %s", name);
}

static bool takes_away(enum stub_verb verb)
{
    const char *name = verb_names[verb];

    return !strncmp(name, "destroy_", 8) || !strncmp(name, "close_", 6) || !strncmp(name, "dealloc_", 8) ||
           !strncmp(name, "dereg_", 6) || !strncmp(name, "ack_", 4) || !strncmp(name, "free_", 5);
}

/* Verbs that return nothing. */
static bool cannot_fail(enum stub_verb verb)
{
    return verb == VERB_ack_cq_events || verb == VERB_ack_async_event || verb == VERB_free_device_list ||
           verb == VERB_wr_start || verb == VERB_wr_abort || verb == VERB_end_poll;
}

/* Post and poll leave the short road only while there is something to look at. */
static void update_hot(void)
{
    bool hot = any_fault.nth || poll_lie.times || capturing || atomic_load(&stub_holding);

    for (int i = 0; i < VERB_COUNT; i++)
        hot = hot || verbs[i].times || verbs[i].delay || verbs[i].gate || refusals[i].on;
    atomic_store(&stub_hot, hot);
}

static int next_fault(enum stub_verb verb)
{
    int err = 0;

    if (verbs[verb].times && --verbs[verb].nth == 0) {
        err = verbs[verb].err;
        verbs[verb].nth = --verbs[verb].times ? 1 : 0;
    }
    if (any_fault.nth && !cannot_fail(verb) && (any_fault.destroys || !takes_away(verb)) && --any_fault.nth == 0)
        err = any_fault.err;
    if (err)
        update_hot();
    return err;
}

int stub_enter(enum stub_verb verb, struct stub_object *object)
{
    int err;

    stub_count(verb);
    pthread_mutex_lock(&stub_mutex);
    verbs[verb].inside++;
    if (object)
        atomic_fetch_add(&object->busy, 1);
    while (verbs[verb].gate)
        pthread_cond_wait(&gates, &stub_mutex);
    if (verbs[verb].delay) {
        struct timespec pause = {verbs[verb].delay / 1000000, (verbs[verb].delay % 1000000) * 1000L};

        pthread_mutex_unlock(&stub_mutex);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&stub_mutex);
    }
    err = next_fault(verb);
    if (!err && object && takes_away(verb) && strncmp(verb_names[verb], "ack_", 4) && atomic_load(&object->busy) > 1)
        stub_violation("%s while another thread is inside a call on the %s", verb_names[verb],
                       kind_names[object->kind]);
    pthread_mutex_unlock(&stub_mutex);
    if (err)
        stub_leave(verb, object);
    return err;
}

void stub_leave(enum stub_verb verb, struct stub_object *object)
{
    pthread_mutex_lock(&stub_mutex);
    verbs[verb].inside--;
    if (object)
        atomic_fetch_sub(&object->busy, 1);
    pthread_mutex_unlock(&stub_mutex);
}

void *stub_new(enum stub_kind kind, size_t size, size_t offset, struct stub_object *parent)
{
    char *block = calloc(1, size);
    struct stub_object *object;

    if (!block)
        return NULL;
    object = (struct stub_object *)(block + offset);
    object->kind = kind;
    object->block = block;
    object->parent = parent;
    atomic_store(&object->magic, STUB_MAGIC(kind));
    pthread_mutex_lock(&stub_mutex);
    live[kind]++;
    if (parent)
        parent->children++;
    pthread_mutex_unlock(&stub_mutex);
    return block;
}

int stub_delete(struct stub_object *object)
{
    struct stub_object *oldest;

    pthread_mutex_lock(&stub_mutex);
    if (object->children) {
        pthread_mutex_unlock(&stub_mutex);
        return EBUSY;
    }
    live[object->kind]--;
    if (object->parent)
        object->parent->children--;
    atomic_store(&object->magic, 0xdeadu);
    oldest = quarantine[quarantine_at];
    quarantine[quarantine_at] = object;
    quarantine_at = (quarantine_at + 1) % (sizeof quarantine / sizeof *quarantine);
    pthread_mutex_unlock(&stub_mutex);
    if (oldest)
        free(oldest->block);
    return 0;
}

void stub_adopt(struct stub_object *parent, int by)
{
    pthread_mutex_lock(&stub_mutex);
    parent->children += by;
    pthread_mutex_unlock(&stub_mutex);
}

bool stub_poll_lies(int *ret_value)
{
    bool lies = false;

    pthread_mutex_lock(&stub_mutex);
    if (poll_lie.times) {
        poll_lie.times--;
        *ret_value = poll_lie.value;
        lies = true;
        update_hot();
    }
    pthread_mutex_unlock(&stub_mutex);
    return lies;
}

int stub_refusal(enum stub_verb verb, int *ret_after, enum stub_bad_wr *ret_bad)
{
    int err = 0;

    pthread_mutex_lock(&stub_mutex);
    if (refusals[verb].on) {
        err = refusals[verb].err;
        *ret_after = refusals[verb].after;
        *ret_bad = refusals[verb].bad;
        refusals[verb].on = false;
        update_hot();
    }
    pthread_mutex_unlock(&stub_mutex);
    return err;
}

STUB_EXPORT const char *stub_version(void)
{
#if defined(STUB_BROKEN)
    return "stub broken";
#elif STUB_RELEASE == STUB_OLDEST
    return "stub old";
#elif STUB_RELEASE == STUB_NEWEST
    return "stub";
#else
#define WORDS(release) "stub " #release
#define RELEASE_WORDS(release) WORDS(release)
    return RELEASE_WORDS(STUB_RELEASE);
#endif
}

STUB_EXPORT void stub_reset(void)
{
    pthread_mutex_lock(&stub_mutex);
    for (int i = 0; i < VERB_COUNT; i++) {
        int inside = verbs[i].inside;

        memset(&verbs[i], 0, sizeof verbs[i]);
        memset(&refusals[i], 0, sizeof refusals[i]);
        verbs[i].inside = inside;
        atomic_store(&stub_call_counts[i], 0);
    }
    memset(&any_fault, 0, sizeof any_fault);
    memset(&poll_lie, 0, sizeof poll_lie);
    violations = 0;
    capturing = false;
    atomic_store(&stub_lenient, 0);
    atomic_store(&stub_holding, 0);
    update_hot();
    pthread_cond_broadcast(&gates);
    pthread_mutex_unlock(&stub_mutex);
    stub_capture_reset();
    stub_reset_last();
    stub_reset_devices();
}

STUB_EXPORT unsigned long stub_calls(const char *verb)
{
    unsigned long sum = 0;

    if (verb)
        return atomic_load(&stub_call_counts[stub_verb_named(verb)]);
    for (int i = 0; i < VERB_COUNT; i++)
        sum += atomic_load(&stub_call_counts[i]);
    return sum;
}

STUB_EXPORT long stub_live(const char *kind)
{
    long sum = 0;
    bool found = false;

    pthread_mutex_lock(&stub_mutex);
    for (int i = 0; i < KIND_COUNT; i++) {
        if (kind && strcmp(kind, kind_names[i]))
            continue;
        found = true;
        sum += live[i];
    }
    pthread_mutex_unlock(&stub_mutex);
    if (!found)
        stub_die("no object is called %s", kind);
    return sum;
}

STUB_EXPORT unsigned long stub_violations(void)
{
    unsigned long n;

    pthread_mutex_lock(&stub_mutex);
    n = violations;
    pthread_mutex_unlock(&stub_mutex);
    return n;
}

STUB_EXPORT void stub_fail(const char *verb, unsigned long nth, int err, unsigned long times)
{
    enum stub_verb v = stub_verb_named(verb);

    pthread_mutex_lock(&stub_mutex);
    verbs[v].nth = nth ? nth : 1;
    verbs[v].err = err;
    verbs[v].times = times;
    update_hot();
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT void stub_fail_any(unsigned long nth, int err, int destroys)
{
    pthread_mutex_lock(&stub_mutex);
    any_fault.nth = nth;
    any_fault.err = err;
    any_fault.destroys = destroys;
    update_hot();
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT int stub_fault_pending(void)
{
    int pending;

    pthread_mutex_lock(&stub_mutex);
    pending = any_fault.nth != 0;
    pthread_mutex_unlock(&stub_mutex);
    return pending;
}

STUB_EXPORT void stub_delay(const char *verb, unsigned int microseconds)
{
    enum stub_verb v = stub_verb_named(verb);

    pthread_mutex_lock(&stub_mutex);
    verbs[v].delay = microseconds;
    update_hot();
    pthread_mutex_unlock(&stub_mutex);
}

static void set_gate(const char *verb, bool closed)
{
    enum stub_verb v = stub_verb_named(verb);

    pthread_mutex_lock(&stub_mutex);
    verbs[v].gate = closed;
    update_hot();
    pthread_cond_broadcast(&gates);
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT void stub_gate_close(const char *verb)
{
    set_gate(verb, true);
}

STUB_EXPORT void stub_gate_open(const char *verb)
{
    set_gate(verb, false);
}

STUB_EXPORT int stub_inside(const char *verb)
{
    enum stub_verb v = stub_verb_named(verb);
    int inside;

    pthread_mutex_lock(&stub_mutex);
    inside = verbs[v].inside;
    pthread_mutex_unlock(&stub_mutex);
    return inside;
}

STUB_EXPORT void stub_set_lenient(int on)
{
    atomic_store(&stub_lenient, on);
}

STUB_EXPORT void stub_lie_poll(int value, unsigned long times)
{
    pthread_mutex_lock(&stub_mutex);
    poll_lie.value = value;
    poll_lie.times = times;
    update_hot();
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT void stub_hold(int on)
{
    pthread_mutex_lock(&stub_mutex);
    atomic_store(&stub_holding, on);
    update_hot();
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT void stub_refuse(const char *verb, int after, int err, enum stub_bad_wr bad)
{
    enum stub_verb v = stub_verb_named(verb);

    pthread_mutex_lock(&stub_mutex);
    refusals[v].on = true;
    refusals[v].after = after;
    refusals[v].err = err;
    refusals[v].bad = bad;
    update_hot();
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT void stub_capture(int on)
{
    stub_capture_reset();
    pthread_mutex_lock(&stub_mutex);
    capturing = on;
    update_hot();
    pthread_mutex_unlock(&stub_mutex);
    stub_capture_mode(on);
}
