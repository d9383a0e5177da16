/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The moves of a queue pair between its states: which there are, what each needs and what it may carry, as the
 * InfiniBand specification and the kernel have it; and words for states and attributes. Knows no Python.
 *
 * Nothing is refused by these rules: they explain what a device refused.
 */
#ifndef CORE_QP_RULES_H
#define CORE_QP_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Attributes as IBV_QP_ bits, without IBV_QP_STATE. */
struct qp_move {
    uint32_t need;
    uint32_t may; /* beside what is needed */
};

/* Whether the rules for this type of queue pair (IBV_QPT_; DRIVER is EFA's SRD) are known. */
bool qp_rules_known(uint32_t qp_type);

/* Whether a queue pair of a type with known rules can go from one state to the other, and with what. */
bool qp_move_find(uint32_t qp_type, uint32_t from, uint32_t to, struct qp_move *ret_move);

/* "INIT, ERR or RESET": where it can go from a state; what fits is written. */
void qp_ways_text(uint32_t qp_type, uint32_t from, char *text, size_t size);

/* "RTR" for IBV_QPS_RTR; "?" for what is none. */
const char *qp_state_name(uint32_t qp_state);

/* "STATE|PORT" for a mask of IBV_QP_ bits; what fits is written. */
void qp_mask_text(uint32_t mask, char *text, size_t size);

#endif
