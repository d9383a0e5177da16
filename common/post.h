/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting requests: a source that turns Python requests into a chain of C requests, and a submitter that hands the
 * chain to the library. The chain is a copy, on the stack up to a fixed size and in one block beyond; no request is
 * written to, so the same one may stand several times in a call.
 *
 * Everything is checked before anything is posted. From the first look at a request to the library's return no code
 * of the caller's runs. The GIL is kept, but for batches longer than POST_LONG to a connected queue with nothing inline.
 */
#ifndef CORE_POST_H
#define CORE_POST_H

#include <infiniband/verbs.h>

#include "object.h"
#include "wr.h"

#define POST_LONG 256

/* How a chain goes to the library: the verb's name, and the call. Returns what the verb returns. */
struct post_send_verb {
    const char *method; /* what the program called: "QP.post_send" */
    const char *name;
    int (*call)(void *queue, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
};
struct post_recv_verb {
    const char *method;
    const char *name;
    int (*call)(void *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
};

/* What may be said about a refusal, appended to it: the queue's depth or state. May run the library, not Python. */
typedef void (*post_explain)(struct core_object *self, int err, char *text, size_t size);

/*
 * Posts `wrs`, one request or an iterable of them, to a queue. Returns 0; or -1 with an exception that carries
 * `index` (the request it is about) and `posted` (how many went before it).
 */
int core_post_send(struct core_object *self, const struct wr_limits *limits, PyObject *wrs,
                   const struct post_send_verb *verb, post_explain explain);
int core_post_recv(struct core_object *self, uint32_t max_sge, PyObject *wrs, const struct post_recv_verb *verb,
                   post_explain explain);

#endif
