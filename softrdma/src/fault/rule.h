/* SPDX-License-Identifier: BSD-3-Clause */
/* A fault that somebody has asked for: where it strikes, when, and what it does. Rules lie in the region, so
 * that forked children and whoever controls the program from outside see the same. */
#ifndef SOFTRDMA_FAULT_RULE_H
#define SOFTRDMA_FAULT_RULE_H

#include "../base.h"

#include <pthread.h>

#define FAULT_RULES 64
#define FAULT_TEXT 200
#define FAULT_CALL 40

enum fault_kind {
    FAULT_NONE,
    FAULT_ERRNO,      /* a call fails */
    FAULT_MEMLOCK,    /* registered memory is limited */
    FAULT_COMPLETION, /* a request fails */
    FAULT_RNR,        /* a message finds no receive */
    FAULT_DROP,       /* a message, or the answer to it, is lost */
    FAULT_DUPLICATE,
    FAULT_DELAY,
    FAULT_REORDER,
    FAULT_OVERRUN, /* a completion finds its queue full */
    FAULT_LINK,
    FAULT_GID,
    FAULT_FATAL,
    FAULT_REMOVE,
    FAULT_QP_ERROR,
    FAULT_SRQ_LIMIT,
    FAULT_SRQ_ERROR,
    FAULT_EVENT,
    FAULT_DIE, /* the process is killed */
    FAULT_KINDS,
};

/* The hooks that a rule may sit at; faults.armed has a bit for each at which there is one. */
enum fault_hook {
    FAULT_AT_CALL = 1,
    FAULT_AT_REQUEST = 2, /* once for each request, receives as they complete included */
    FAULT_AT_MESSAGE = 4, /* each time that a message is sent, or sent again */
    FAULT_AT_ARRIVAL = 8, /* each time that one arrives */
    FAULT_AT_COMPLETION = 16,
    FAULT_AT_MEMLOCK = 32,
    FAULT_AT_TIME = 64, /* no hook: the service thread, or whoever asks */
};

/* Requests, whatever the device. */
enum fault_op {
    FAULT_OP_SEND,
    FAULT_OP_SEND_IMM,
    FAULT_OP_SEND_INV,
    FAULT_OP_WRITE,
    FAULT_OP_WRITE_IMM,
    FAULT_OP_READ,
    FAULT_OP_CMP_SWAP,
    FAULT_OP_FETCH_ADD,
    FAULT_OP_LOCAL_INV,
    FAULT_OP_BIND_MW,
    FAULT_OP_FLUSH,
    FAULT_OP_ATOMIC_WRITE,
    FAULT_OP_RECV, /* this and the next only where a rule says so */
    FAULT_OP_CM,   /* a message of the connection manager */
    FAULT_OPS,
};

/* What a rule may say; `given` has a bit for each that it does say. */
enum fault_key {
    KEY_DEVICE = 1 << 0,
    KEY_QP = 1 << 1,
    KEY_OP = 1 << 2,
    KEY_ADDR = 1 << 3,
    KEY_WR_ID = 1 << 4,
    KEY_SIDE = 1 << 5,
    KEY_NTH = 1 << 6,
    KEY_TIMES = 1 << 7,
    KEY_EVERY = 1 << 8,
    KEY_PROBABILITY = 1 << 9,
    KEY_AFTER = 1 << 10,
    KEY_FOR = 1 << 11,
    KEY_STATUS = 1 << 12,
    KEY_VENDOR_ERR = 1 << 13,
    KEY_MOVED = 1 << 14,
    KEY_CALL = 1 << 15,
    KEY_ERRNO = 1 << 16,
    KEY_LIMIT = 1 << 17,
    KEY_STATE = 1 << 18,
    KEY_INDEX = 1 << 19,
    KEY_GID = 1 << 20,
    KEY_TYPE = 1 << 21,
    KEY_DELAY = 1 << 22, /* ms or us */
    KEY_WHAT = 1 << 23,
};

struct fault_rule {
    uint32_t id; /* 0: free */
    uint32_t kind, hook, given;
    /* where */
    uint32_t device, qpn, ops; /* ops: 1 << enum fault_op */
    uint64_t addr, wr_id;
    char call[FAULT_CALL]; /* a method's name */
    /* when */
    uint64_t nth, every, times; /* times 0: no end */
    uint64_t probability;       /* of 1 << 32 */
    uint64_t after_ns, for_ns;  /* as asked for */
    uint64_t from, until;       /* now_ns; 0: no limit */
    /* what */
    uint32_t status, vendor_err, moved, answer, up, index, event;
    int32_t err;
    uint64_t delay_min, delay_max; /* ns */
    uint64_t limit;                /* bytes; UINT64_MAX: of the process's own RLIMIT_MEMLOCK */
    uint8_t gid[16];
    /* what happened */
    uint64_t seen, fired;
    uint32_t due;     /* of actions: how often still to be done by the service thread */
    uint32_t due_qpn; /* the queue pair that it struck, or 0 */
    uint64_t undo_at; /* link, removal: when to put things right again */
    char text[FAULT_TEXT];
};

struct faults {
    _Atomic uint32_t armed;    /* enum fault_hook; all that is read while nothing is asked for */
    _Atomic uint32_t waiting;  /* the service thread has something to do, now or later */
    _Atomic uint32_t overruns; /* queues were marked, and their queue pairs still work */
    pthread_mutex_t lock;      /* nothing is locked under it */
    uint64_t seed;
    uint32_t seed_known; /* somebody chose it, or was told */
    uint32_t next_id;
    struct fault_rule rule[FAULT_RULES];
};

/* parse.c: one rule, KIND or KIND:key=value,key=value. 0, or a message that says what is wrong with it. */
int fault_parse(const char *text, struct fault_rule *out, char *ret_error, size_t size);
/* Seconds and the like, without the locale: digits, a point, digits; in billionths. */
bool fault_parse_decimal(const char *text, uint64_t *ret_billionths);

#endif
