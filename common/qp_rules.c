/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of moves. See qp_rules.h. */
#include "qp_rules.h"

#include <infiniband/verbs.h>
#include <stdio.h>

enum { RC, UC, UD, SRD, TYPES };

/* Attributes that come in groups. */
#define PORT (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define PATH (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RESPONDER (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define REQUESTER (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define ALTERNATE (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX)
#define RUNNING (IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE)
#define DATAGRAM (IBV_QP_CUR_STATE | IBV_QP_QKEY)
#define DRAINED (IBV_QP_AV | ALTERNATE | IBV_QP_PATH_MIG_STATE)

/* Beside these, RESET and ERR can be reached from everywhere, with nothing. */
static const struct {
    uint32_t from, to;
    struct qp_move move[TYPES];
    uint32_t types; /* bits of those that have it */
} moves[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT,
     {[RC] = {PORT | IBV_QP_ACCESS_FLAGS, 0}, [UC] = {PORT | IBV_QP_ACCESS_FLAGS, 0}, [UD] = {PORT | IBV_QP_QKEY, 0},
      [SRD] = {PORT | IBV_QP_QKEY, 0}}, 15},
    {IBV_QPS_INIT, IBV_QPS_INIT,
     {[RC] = {0, PORT | IBV_QP_ACCESS_FLAGS}, [UC] = {0, PORT | IBV_QP_ACCESS_FLAGS}, [UD] = {0, PORT | IBV_QP_QKEY},
      [SRD] = {0, PORT | IBV_QP_QKEY}}, 15},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     {[RC] = {PATH | RESPONDER, ALTERNATE}, [UC] = {PATH, ALTERNATE}, [UD] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
      [SRD] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}}, 15},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     {[RC] = {REQUESTER | IBV_QP_SQ_PSN, RUNNING | IBV_QP_MIN_RNR_TIMER}, [UC] = {IBV_QP_SQ_PSN, RUNNING},
      [UD] = {IBV_QP_SQ_PSN, DATAGRAM}, [SRD] = {IBV_QP_SQ_PSN, DATAGRAM | IBV_QP_RNR_RETRY}}, 15},
    {IBV_QPS_RTS, IBV_QPS_RTS,
     {[RC] = {0, RUNNING | IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT}, [UC] = {0, RUNNING | IBV_QP_RATE_LIMIT},
      [UD] = {0, DATAGRAM | IBV_QP_RATE_LIMIT}, [SRD] = {0, DATAGRAM}}, 15},
    {IBV_QPS_RTS, IBV_QPS_SQD,
     {[RC] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY}, [UC] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
      [UD] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY}, [SRD] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY}}, 15},
    {IBV_QPS_SQD, IBV_QPS_SQD,
     {[RC] = {0, DRAINED | IBV_QP_PORT | REQUESTER | RESPONDER}, [UC] = {0, DRAINED},
      [UD] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}, [SRD] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}}, 15},
    {IBV_QPS_SQD, IBV_QPS_RTS,
     {[RC] = {0, RUNNING | IBV_QP_MIN_RNR_TIMER}, [UC] = {0, RUNNING}, [UD] = {0, DATAGRAM}, [SRD] = {0, DATAGRAM}}, 15},
    {IBV_QPS_SQE, IBV_QPS_RTS,
     {[UC] = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS}, [UD] = {0, DATAGRAM}, [SRD] = {0, DATAGRAM}},
     1 << UC | 1 << UD | 1 << SRD},
};

static int row_of(uint32_t qp_type)
{
    switch (qp_type) {
    case IBV_QPT_RC:
        return RC;
    case IBV_QPT_UC:
        return UC;
    case IBV_QPT_UD:
        return UD;
    case IBV_QPT_DRIVER:
        return SRD;
    default:
        return -1;
    }
}

bool qp_rules_known(uint32_t qp_type)
{
    return row_of(qp_type) >= 0;
}

bool qp_move_find(uint32_t qp_type, uint32_t from, uint32_t to, struct qp_move *ret_move)
{
    int type = row_of(qp_type);

    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
        *ret_move = (struct qp_move){0, 0};
        return true;
    }
    for (size_t i = 0; type >= 0 && i < sizeof moves / sizeof *moves; i++) {
        if (moves[i].from != from || moves[i].to != to || !(moves[i].types & 1u << type))
            continue;
        *ret_move = moves[i].move[type];
        return true;
    }
    return false;
}

void qp_ways_text(uint32_t qp_type, uint32_t from, char *text, size_t size)
{
    struct qp_move move;
    size_t used = 0;

    *text = '\0';
    for (uint32_t to = IBV_QPS_INIT; to < IBV_QPS_ERR && used < size; to++)
        if (qp_move_find(qp_type, from, to, &move))
            used += (size_t)snprintf(text + used, size - used, "%s, ", qp_state_name(to));
    if (used < size)
        snprintf(text + used, size - used, "ERR or RESET");
}

const char *qp_state_name(uint32_t qp_state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

    return qp_state < sizeof names / sizeof *names ? names[qp_state] : "?";
}

void qp_mask_text(uint32_t mask, char *text, size_t size)
{
    static const char *const names[32] = {
        "STATE",     "CUR_STATE",        "EN_SQD_ASYNC_NOTIFY", "ACCESS_FLAGS",       "PKEY_INDEX",     "PORT", "QKEY",
        "AV",        "PATH_MTU",         "TIMEOUT",             "RETRY_CNT",          "RNR_RETRY",      "RQ_PSN",
        "MAX_QP_RD_ATOMIC", "ALT_PATH",  "MIN_RNR_TIMER",       "SQ_PSN",             "MAX_DEST_RD_ATOMIC",
        "PATH_MIG_STATE",   "CAP",       "DEST_QPN",            [25] = "RATE_LIMIT"};
    size_t used = 0;

    *text = '\0';
    for (size_t i = 0; i < 32 && used < size; i++)
        if (names[i] && mask & 1u << i)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "|" : "", names[i]);
}
