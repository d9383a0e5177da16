/* SPDX-License-Identifier: BSD-3-Clause */
/* What faults do to NICs and objects, when they do not sit in the way of something. */
#include <signal.h>
#include <unistd.h>

#include "../device.h"
#include "../event.h"
#include "../lock.h"
#include "../nic.h"
#include "../process.h"
#include "fault.h"

static void break_qp(struct region *r, struct qp *qp, uint32_t event)
{
    uint32_t index = (uint32_t)(qp - r->qp);

    device_at((int)qp->device)->model->break_qp(r, qp);
    event_async(r, qp->context, OBJ_QP << 24 | index, qp->user, event, &qp->async_events);
}

static bool is_wanted(const struct fault_rule *rule, uint32_t device)
{
    return !(rule->given & KEY_DEVICE) || rule->device == device;
}

/* Every queue pair that the rule means, or the one that was struck; event: UINT32_MAX to break them. */
static void each_qp(struct region *r, const struct fault_rule *rule, uint32_t qpn, bool breaks)
{
    if (!qpn && (rule->given & KEY_QP))
        qpn = rule->qpn;
    for (uint32_t w = 0; w < TABLE_BITS(MAX_QPS); w++) {
        for (uint64_t bits = atomic_load(&r->qp_bits[w]); bits; bits &= bits - 1) {
            struct qp *qp = &r->qp[w * 64 + (uint32_t)__builtin_ctzll(bits)];

            if (!is_wanted(rule, qp->device) || (qpn && qp->qpn != qpn))
                continue;
            if (breaks)
                break_qp(r, qp, rule->event);
            else
                event_async(r, qp->context, OBJ_QP << 24 | (uint32_t)(qp - r->qp), qp->user, rule->event,
                            &qp->async_events);
        }
    }
}

static void each_cq(struct region *r, const struct fault_rule *rule)
{
    for (uint32_t w = 0; w < TABLE_BITS(MAX_CQS); w++) {
        for (uint64_t bits = r->cq_bits[w]; bits; bits &= bits - 1) {
            uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(bits);
            struct cq *cq = &r->cq[i];

            if (is_wanted(rule, cq->device))
                event_async(r, cq->context, OBJ_CQ << 24 | i, cq->user, rule->event, &cq->async_events);
        }
    }
}

static void break_users_of_srq(struct region *r, uint32_t srq)
{
    for (uint32_t w = 0; w < TABLE_BITS(MAX_QPS); w++) {
        for (uint64_t bits = atomic_load(&r->qp_bits[w]); bits; bits &= bits - 1) {
            struct qp *qp = &r->qp[w * 64 + (uint32_t)__builtin_ctzll(bits)];

            if (qp->srq == srq)
                device_at((int)qp->device)->model->break_qp(r, qp);
        }
    }
}

/* The event of a limit comes once, and takes the limit away, as it does when it is reached. */
static void each_srq(struct region *r, const struct fault_rule *rule, uint32_t event, bool breaks)
{
    for (uint32_t w = 0; w < TABLE_BITS(MAX_SRQS); w++) {
        for (uint64_t bits = r->srq_bits[w]; bits; bits &= bits - 1) {
            uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(bits);
            struct srq *srq = &r->srq[i];

            if (!is_wanted(rule, srq->device))
                continue;
            if (event == ASYNC_SRQ_LIMIT) {
                lock_take(&srq->lock);
                srq->limit = 0;
                lock_give(&srq->lock);
            }
            event_async(r, srq->context, OBJ_SRQ << 24 | i, srq->user, event, &srq->async_events);
            if (breaks)
                break_users_of_srq(r, i);
        }
    }
}

static void raise_event(struct region *r, const struct fault_rule *rule, uint32_t qpn)
{
    switch (rule->event) {
    case ASYNC_CQ_ERR:
        each_cq(r, rule);
        break;
    case ASYNC_SRQ_ERR:
    case ASYNC_SRQ_LIMIT:
        each_srq(r, rule, rule->event, false);
        break;
    case ASYNC_DEVICE_FATAL:
    case ASYNC_PORT_ACTIVE:
    case ASYNC_PORT_ERR:
    case ASYNC_LID_CHANGE:
    case ASYNC_PKEY_CHANGE:
    case ASYNC_SM_CHANGE:
    case ASYNC_CLIENT_REREGISTER:
    case ASYNC_GID_CHANGE:
        for (int d = 0; d < device_count(); d++) {
            if (is_wanted(rule, (uint32_t)d))
                nic_raise(r, (uint32_t)d, rule->event);
        }
        break;
    default:
        each_qp(r, rule, qpn, false);
    }
}

static void change_nic(struct region *r, const struct fault_rule *rule, uint32_t device)
{
    if (rule->kind == FAULT_LINK)
        nic_set_link(r, device, rule->up);
    else if (rule->kind == FAULT_GID)
        nic_set_gid(r, device, rule->index, rule->gid);
    else if (rule->kind == FAULT_FATAL)
        nic_fail(r, device);
    else
        nic_remove(r, device);
}

void fault_act(struct region *r, const struct fault_rule *rule, uint32_t qpn)
{
    switch (rule->kind) {
    case FAULT_LINK:
    case FAULT_GID:
    case FAULT_FATAL:
    case FAULT_REMOVE:
        for (int d = 0; d < device_count(); d++) {
            if (is_wanted(rule, (uint32_t)d))
                change_nic(r, rule, (uint32_t)d);
        }
        break;
    case FAULT_QP_ERROR:
        each_qp(r, rule, qpn, true);
        break;
    case FAULT_SRQ_LIMIT:
        each_srq(r, rule, ASYNC_SRQ_LIMIT, false);
        break;
    case FAULT_SRQ_ERROR:
        each_srq(r, rule, ASYNC_SRQ_ERR, true);
        break;
    case FAULT_EVENT:
        raise_event(r, rule, qpn);
        break;
    case FAULT_DIE:
        kill(getpid(), SIGKILL);
        break;
    default:
        break;
    }
}

void fault_undo(struct region *r, const struct fault_rule *rule)
{
    for (int d = 0; d < device_count(); d++) {
        if (!is_wanted(rule, (uint32_t)d))
            continue;
        if (rule->kind == FAULT_LINK)
            nic_set_link(r, (uint32_t)d, !rule->up);
        else if (rule->kind == FAULT_GID)
            nic_set_gid(r, (uint32_t)d, rule->index,
                        rule->index < DEVICE_GIDS ? device_at(d)->gid[rule->index] : NULL);
        else if (rule->kind == FAULT_REMOVE || rule->kind == FAULT_FATAL)
            nic_restore(r, (uint32_t)d);
    }
}

/* Each queue that was marked: its queue pairs fail, and say so. The mark is the data path's, under cq.lock.
 */
static void break_users_of_cq(struct region *r, uint32_t cq)
{
    for (uint32_t w = 0; w < TABLE_BITS(MAX_QPS); w++) {
        for (uint64_t bits = atomic_load(&r->qp_bits[w]); bits; bits &= bits - 1) {
            struct qp *qp = &r->qp[w * 64 + (uint32_t)__builtin_ctzll(bits)];

            if (qp->send_cq == cq || qp->recv_cq == cq)
                break_qp(r, qp, ASYNC_QP_FATAL);
        }
    }
}

void fault_break_overrun(struct region *r)
{
    for (uint32_t w = 0; w < TABLE_BITS(MAX_CQS); w++) {
        for (uint64_t bits = r->cq_bits[w]; bits; bits &= bits - 1) {
            struct cq *cq = &r->cq[w * 64 + (uint32_t)__builtin_ctzll(bits)];
            bool mine;

            lock_take(&cq->lock);
            mine = cq->overrun == CQ_OVERRUN;
            if (mine)
                cq->overrun = CQ_OVERRUN_TOLD;
            lock_give(&cq->lock);
            if (mine)
                break_users_of_cq(r, (uint32_t)(cq - r->cq));
        }
    }
}
