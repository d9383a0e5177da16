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

/* A queue that requests go to: how they reach the library, and what to say when they do not. */
struct post_queue {
    const char *method; /* what the program calls: "post_send" */
    const char *verb;   /* what that calls: "ibv_post_send" */
    /* Hands over a chain of struct ibv_send_wr or ibv_recv_wr; returns what the verb does. Perhaps without the GIL. */
    int (*submit)(void *handle, void *chain, void **ret_bad_wr);
    /* What may be said about a refusal, appended to it: the queue's depth or state. May run the library, not Python. */
    void (*explain)(struct core_object *self, int err, char *text, size_t size);
};

/*
 * Posts `wrs`, one request or an iterable of them, to a queue that was granted `limits`. Returns 0; or -1 with an
 * exception that carries `index` (the request it is about) and `posted` (how many went before it).
 */
int core_post_send(struct core_object *self, const struct wr_limits *limits, PyObject *wrs,
                   const struct post_queue *queue);
int core_post_recv(struct core_object *self, const struct wr_limits *limits, PyObject *wrs,
                   const struct post_queue *queue);

#endif
