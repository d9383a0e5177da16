/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: the table of moves has the shortest way up for every type of queue pair, RESET and ERR from everywhere, no
 * way back, and no attribute both needed and merely allowed; its words fit into what they are given.
 */
#include "qp_rules.h"

#include <infiniband/verbs.h>

#include "check.h"

static const uint32_t types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_DRIVER};

static void check_ways_up(uint32_t type)
{
    struct qp_move move;

    CHECK(qp_rules_known(type));
    CHECK(qp_move_find(type, IBV_QPS_RESET, IBV_QPS_INIT, &move) && move.need & IBV_QP_PORT);
    CHECK(qp_move_find(type, IBV_QPS_INIT, IBV_QPS_INIT, &move) && !move.need);
    CHECK(qp_move_find(type, IBV_QPS_INIT, IBV_QPS_RTR, &move));
    CHECK(qp_move_find(type, IBV_QPS_RTR, IBV_QPS_RTS, &move) && move.need & IBV_QP_SQ_PSN);
    for (uint32_t from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
        CHECK(qp_move_find(type, from, IBV_QPS_RESET, &move) && !move.need && !move.may);
        CHECK(qp_move_find(type, from, IBV_QPS_ERR, &move) && !move.need && !move.may);
        CHECK(from == IBV_QPS_RESET || from == IBV_QPS_INIT || !qp_move_find(type, from, IBV_QPS_INIT, &move));
        CHECK(from == IBV_QPS_INIT || !qp_move_find(type, from, IBV_QPS_RTR, &move));
    }
}

static void check_attributes(uint32_t type)
{
    struct qp_move move;

    for (uint32_t from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++)
        for (uint32_t to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
            if (!qp_move_find(type, from, to, &move))
                continue;
            CHECK(!(move.need & move.may));
            CHECK(!((move.need | move.may) & IBV_QP_STATE));
            if (type == IBV_QPT_UD)
                CHECK(!(move.need & (IBV_QP_AV | IBV_QP_RQ_PSN | IBV_QP_ACCESS_FLAGS)));
        }
    CHECK(qp_move_find(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, &move) && move.need & IBV_QP_MIN_RNR_TIMER);
    CHECK(qp_move_find(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, &move) && !(move.need & IBV_QP_MIN_RNR_TIMER));
    CHECK(qp_move_find(IBV_QPT_UC, IBV_QPS_SQE, IBV_QPS_RTS, &move) && !qp_move_find(IBV_QPT_RC, IBV_QPS_SQE, 3, &move));
}

static void check_words(void)
{
    char text[400], small[12];

    qp_ways_text(IBV_QPT_RC, IBV_QPS_RTS, text, sizeof text);
    CHECK(strcmp(text, "RTS, SQD, ERR or RESET") == 0);
    qp_ways_text(IBV_QPT_RC, IBV_QPS_ERR, text, sizeof text);
    CHECK(strcmp(text, "ERR or RESET") == 0);
    qp_mask_text(IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_RATE_LIMIT, text, sizeof text);
    CHECK(strcmp(text, "STATE|DEST_QPN|RATE_LIMIT") == 0);
    qp_mask_text(UINT32_MAX, text, sizeof text);
    check_says(text, "MAX_DEST_RD_ATOMIC|PATH_MIG_STATE|CAP|DEST_QPN|RATE_LIMIT");
    qp_mask_text(UINT32_MAX, small, sizeof small);
    CHECK(strlen(small) == sizeof small - 1);
    qp_ways_text(IBV_QPT_RC, IBV_QPS_RTS, small, sizeof small);
    CHECK(strlen(small) == sizeof small - 1);
    CHECK(strcmp(qp_state_name(IBV_QPS_SQE), "SQE") == 0 && strcmp(qp_state_name(99), "?") == 0);
}

int main(void)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        check_ways_up(types[i]);
        check_attributes(types[i]);
    }
    CHECK(!qp_rules_known(IBV_QPT_RAW_PACKET) && !qp_rules_known(77));
    check_words();
    return 0;
}
