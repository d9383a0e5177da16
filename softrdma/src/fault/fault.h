/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults on demand, as the rest of the host meets them: a hook at each place where a fault may strike. A hook
 * costs one load while no rule sits there. What each device model makes of a verdict is its own affair; the
 * rules, their counting and their chance are here. Hooks may be called under any lock, with the region that
 * the struck object is in. */
#ifndef SOFTRDMA_FAULT_FAULT_H
#define SOFTRDMA_FAULT_FAULT_H

#include "../region.h"
#include "rule.h"

/* The request, message or completion at hand. */
struct fault_site {
    uint32_t device, qpn;
    enum fault_op op;
    uint64_t addr; /* remote; 0 where the operation has none */
    uint64_t wr_id;
};

struct fault_verdict {
    enum fault_kind kind; /* FAULT_NONE: go on */
    uint32_t status;      /* FAULT_COMPLETION: enum ibv_wc_status */
    uint32_t vendor_err;
    bool moved;        /* FAULT_COMPLETION: the data arrives all the same */
    bool answer;       /* FAULT_DROP: the message arrives, what comes back is lost */
    uint64_t delay_ns; /* FAULT_DELAY; FAULT_REORDER: how long to wait for something to change places with */
};

static inline bool fault_armed(struct region *r, uint32_t hooks)
{
    return __builtin_expect(atomic_load_explicit(&r->faults.armed, memory_order_relaxed) & hooks, 0);
}

/* FAULT_AT_REQUEST gives FAULT_COMPLETION; FAULT_AT_MESSAGE (in the sender's region, for its queue pair) and
 * FAULT_AT_ARRIVAL (the receiver's) the kinds of lost and late messages. FAULT_AT_COMPLETION gives
 * FAULT_OVERRUN. */
struct fault_verdict fault_strike(struct region *r, uint32_t hook, const struct fault_site *site);

static inline struct fault_verdict fault_at(struct region *r, uint32_t hook, const struct fault_site *site)
{
    if (!fault_armed(r, hook))
        return (struct fault_verdict){.kind = FAULT_NONE};
    return fault_strike(r, hook, site);
}

/* A call by its method's name: 0, or the errno with which it is to fail before it has done anything. */
int fault_strike_call(struct region *r, uint32_t device, const char *name);

static inline int fault_call(struct region *r, uint32_t device, const char *name)
{
    return fault_armed(r, FAULT_AT_CALL) ? fault_strike_call(r, device, name) : 0;
}

/* Memory that a process pins, in pages: counted always, refused with ENOMEM where a rule says so. */
int fault_pin(struct region *r, uint32_t proc, uint64_t pages);
void fault_unpin(struct region *r, uint32_t proc, uint64_t pages);

/* A queue that overran at a rule's demand takes nothing more, and its queue pairs fail, as with hardware. The
 * model asks as it writes a completion, under cq.lock: true says that the completion is lost; the one for
 * which *ret_tell is set is to raise CQ_ERR once the lock is given back. */
bool fault_overruns(struct region *r, struct cq *cq, const struct fault_site *site, bool *ret_tell);

/* A region is made: the environment's rules. */
void fault_begin(struct region *r);
/* For the service thread: what is due; when to come again, in now_ns. */
uint64_t fault_service(struct region *r);

/* Checks the environment's rules; one that is not understood ends the program, which would else be tested
 * without. */
void fault_load(void);

/* control.c: add RULES, remove ID, clear, reset, list, objects, seed [N], who. 0 and an answer, or -1 and a message.
 */
int fault_command(const char *command, char *ret_reply, size_t size);
/* The socket on which commands of other processes of the same user arrive; -1 if there is none. */
int fault_bind(uint32_t slot);
void fault_answer(int fd);

/* Within the folder. act.c: does what a rule of kind link, gid, ... says; the caller holds region.lock. qpn:
 * the one that was struck, or 0. */
void fault_act(struct region *r, const struct fault_rule *rule, uint32_t qpn);
/* The end of its time: the link is up again, the NIC there again. */
void fault_undo(struct region *r, const struct fault_rule *rule);
void fault_break_overrun(struct region *r);
/* fault.c */
int fault_add(struct region *r, const struct fault_rule *parsed, uint32_t *ret_id);
bool fault_remove(struct region *r, uint32_t id); /* 0: all of them */
void fault_set_seed(struct region *r, uint64_t seed);
void fault_tell_seed(struct region *r);

#endif
