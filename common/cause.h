/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a verb may have failed, where errno alone does not say: what was asked for, beside what the device, the port and
 * the process allow. Called after the failure; nothing here refuses anything. Knows no Python.
 *
 * A function that takes a context calls the library, so it needs an object that is entered, and not the GIL; what it
 * cannot find out it leaves out. The others only compare.
 */
#ifndef CORE_CAUSE_H
#define CORE_CAUSE_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/* Findings in words, joined by "; ". All zero is none. What does not fit is cut. */
struct cause {
    size_t used;
    char text[600];
};

void cause_add(struct cause *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The limit on locked memory of this process, soft and hard. */
void cause_of_locked_memory(struct cause *self);

/* Sizes over the device's limits; one below 0 is none. */
void cause_of_excess(struct cause *self, const char *name, uint32_t asked, const char *limit_name, int64_t limit);
void cause_of_qp_sizes(struct cause *self, const struct ibv_device_attr *limits, const struct ibv_qp_cap *cap);
void cause_of_cq_size(struct cause *self, const struct ibv_device_attr *limits, uint32_t cqe);
void cause_of_srq_sizes(struct cause *self, const struct ibv_device_attr *limits, const struct ibv_srq_attr *attr);

/* A registration: the length and the rights, and where the memory is. */
void cause_of_region(struct cause *self, struct ibv_context *context, uint64_t addr, uint64_t length, uint32_t access,
                     int err);

/* A port that is asked about, and an entry of its GID table (-1 for none): those that there are not. */
void cause_of_port(struct cause *self, struct ibv_context *context, uint8_t port_num, int64_t gid_index);

/* An address vector, for a port. */
void cause_of_address(struct cause *self, struct ibv_context *context, const struct ibv_ah_attr *attr, uint8_t port_num,
                      int err);

/*
 * ibv_modify_qp with this mask in state `from`: the way, what is missing, what is too much, and values that the device
 * does not have. `port_num` is the queue pair's, 0 if it has none yet.
 */
void cause_of_modify(struct cause *self, struct ibv_context *context, uint32_t qp_type, uint32_t from,
                     const struct ibv_qp_attr *attr, uint32_t mask, uint8_t port_num, int err);

/* The state that the device says a queue pair is in; `otherwise` where it does not say. Calls the library. */
uint32_t cause_qp_state(struct ibv_qp *qp, uint32_t otherwise);

#endif
