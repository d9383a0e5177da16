/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting requests: a source that turns Python requests into a chain of C requests, and a submitter that hands the
 * chain to the library. The chain is a copy, on the stack up to a fixed size and in one block beyond; no request is
 * written to, so the same one may stand several times in a call.
 *
 * Everything is checked before anything is posted. From the first look at a request to the library's return no code
 * of the caller's runs. The GIL is kept, but for batches longer than CORE_POST_LONG to a connected queue with nothing inline.
 */
#ifndef CORE_POST_H
#define CORE_POST_H

#include <infiniband/verbs.h>

#include "object.h"
#include "wr.h"

#define CORE_POST_LONG 256

/*
 * One kind of request: its class, and the C structure that it becomes a chain of. `put` writes a request to its place
 * in the chain, checked; its entries are at `sge` already. Returns 0, or -1 with an exception, which need not say where.
 */
struct core_post_form {
    enum core_type class;
    const char *what; /* of the class, for messages: "a SendWR" */
    size_t wr_size;
    size_t sg_list; /* where an object of the class keeps its entries, as sge.h says */
    int (*put)(struct core_object *self, const struct wr_limits *limits, PyObject *item, Py_ssize_t index,
               struct ibv_sge *sge, uint32_t num_sge, void *wr);
    /* Whether a chain names nothing that another thread could take away if it had the GIL. */
    bool (*self_contained)(const struct wr_limits *limits, const void *chain, Py_ssize_t count);
};

/* Those of ibv_post_send and ibv_post_recv. */
extern const struct core_post_form core_post_sends, core_post_receives;

/* A queue that requests go to: how they reach the library, and what to say when they do not. */
struct core_post_queue {
    const char *method; /* what the program calls: "post_send" */
    const char *verb;   /* what that calls: "ibv_post_send" */
    const struct core_post_form *form;
    bool whole; /* the verb takes all of a call or nothing */
    /* Hands over a chain; returns what the verb does. Perhaps without the GIL. */
    int (*submit)(struct core_object *self, void *chain, Py_ssize_t count, void **ret_bad_wr);
    /* What may be said about a refusal, appended to it: the queue's depth or state. May run the library, not Python. */
    void (*explain)(struct core_object *self, int err, char *text, size_t size);
};

/*
 * Posts `wrs`, one request or an iterable of them, to a queue that was granted `limits`. Returns 0; or -1 with an
 * exception that carries `index` (the request it is about) and `posted` (how many went before it).
 */
int core_post(struct core_object *self, const struct wr_limits *limits, PyObject *wrs, const struct core_post_queue *queue);

/* ---- for a module's own forms --------------------------------------------------------------------------------------- */

/* Whether a chain of receives is: always. */
bool core_receives_are_self_contained(const struct wr_limits *limits, const void *chain, Py_ssize_t count);

/* The address handle that a SendWR names, NULL for none. Returns 0, or -1 with EBADF where it is closed. */
int core_send_ah(struct core_object *self, PyObject *item, Py_ssize_t index, struct ibv_ah **ret_ah);

/* Raises for a request that breaks a rule of wr.h. Always returns -1. */
int core_raise_fault(struct core_state *state, enum wr_fault fault, const struct wr_limits *limits, uint32_t opcode,
                     const struct ibv_sge *sge, uint32_t num_sge, Py_ssize_t index);

#endif
