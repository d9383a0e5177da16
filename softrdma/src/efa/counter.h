/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion counters: two numbers in the program's memory, that go up with each request of the kinds for which a queue
 * pair was attached. As of rdma-core 65; the front's numbers are given here, for headers lack them. */
#ifndef SOFTRDMA_EFA_COUNTER_H
#define SOFTRDMA_EFA_COUNTER_H

#include "../uverbs_table.h"
#include "efa.h"

enum { COUNTER_COMPLETED, COUNTER_FAILED }; /* which of the two */

enum { /* kinds of operation, as places in efa_qp.counter */
       COUNT_SEND,
       COUNT_RECV,
       COUNT_READ,
       COUNT_REMOTE_READ,
       COUNT_WRITE,
       COUNT_REMOTE_WRITE,
       COUNT_KINDS,
};
_Static_assert(COUNT_KINDS == EFA_COUNT_KINDS, "the record of a queue pair has a place for each");

/* Counts what became of one operation. Under a lock of the queue pair. */
void counter_note(struct region *r, const struct efa_qp *own, uint32_t kind, bool completed);
/* The queue pair goes; the caller holds region.lock. */
void counter_detach(struct region *r, struct efa_qp *own);

int counter_query_caps(struct call *c);
int counter_create(struct call *c);
int counter_destroy(struct call *c);
int counter_modify(struct call *c);
int counter_read(struct call *c);
int counter_attach(struct call *c);

enum { OBJECT_COUNTER = 19, DEVICE_QUERY_COUNTER_CAPS = 8, QP_ATTACH_COUNTER = 2 };
enum { COUNTER_CREATE, COUNTER_DESTROY, COUNTER_MODIFY, COUNTER_READ };
enum { CAPS_MAX_COUNTERS, CAPS_MAX_VALUE, CAPS_OPS };
enum { CREATE_HANDLE, CREATE_COMPLETED = 0x1000, CREATE_FAILED };
enum { MODIFY_HANDLE, MODIFY_ENTRY, MODIFY_OP, MODIFY_VALUE };
enum { READ_HANDLE, READ_ENTRY, READ_VALUE };
enum { ATTACH_QP, ATTACH_COUNTER, ATTACH_KINDS };

struct counter_buffer { /* struct ib_uverbs_buffer_desc */
    uint32_t type;
    int32_t fd;
    uint32_t flags, optional_flags;
    uint64_t addr, length; /* addr: an offset where there is a descriptor */
};

#define COUNTER_METHODS                                                                                      \
    DRIVER_METHOD(UVERBS_OBJECT_DEVICE, DEVICE_QUERY_COUNTER_CAPS, "QUERY_COMP_CNTR_CAPS", counter_query_caps, \
                  OUT(CAPS_MAX_COUNTERS, 4), OUT(CAPS_MAX_VALUE, 8), OUT(CAPS_OPS, 4)),                      \
        DRIVER_METHOD(OBJECT_COUNTER, COUNTER_CREATE, "COMP_CNTR_CREATE", counter_create,                    \
                      NEW_HANDLE(CREATE_HANDLE), IN(CREATE_COMPLETED, sizeof(struct counter_buffer)),        \
                      IN(CREATE_FAILED, sizeof(struct counter_buffer))),                                     \
        DRIVER_METHOD(OBJECT_COUNTER, COUNTER_DESTROY, "COMP_CNTR_DESTROY", counter_destroy, HANDLE(0)),     \
        DRIVER_METHOD(OBJECT_COUNTER, COUNTER_MODIFY, "COMP_CNTR_MODIFY", counter_modify,                    \
                      HANDLE(MODIFY_HANDLE), IN(MODIFY_ENTRY, 1), IN(MODIFY_OP, 1), IN(MODIFY_VALUE, 8)),    \
        DRIVER_METHOD(OBJECT_COUNTER, COUNTER_READ, "COMP_CNTR_READ", counter_read, HANDLE(READ_HANDLE),     \
                      IN(READ_ENTRY, 1), OUT(READ_VALUE, 8)),                                                \
        DRIVER_METHOD(UVERBS_OBJECT_QP, QP_ATTACH_COUNTER, "QP_ATTACH_COMP_CNTR", counter_attach,            \
                      HANDLE(ATTACH_QP), HANDLE(ATTACH_COUNTER), IN(ATTACH_KINDS, 4))

#endif
