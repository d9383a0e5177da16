/* SPDX-License-Identifier: BSD-3-Clause */
/* Status numbers in words. See status.h. */
#include "status.h"

#include <stddef.h>

struct status {
    const char *text;
    const char *hint;
};

static const struct status statuses[] = {
    [1] = {"flushed: the queue pair was destroyed or went to ERR before the request's turn came", NULL},
    [2] = {"local: the queue pair failed inside of the device", NULL},
    [3] = {"local: the device does not support the operation", NULL},
    [4] = {"local: the address handle is not valid",
           "the AH must be open, and made from the same PD as the queue pair, until the request has completed"},
    [5] = {"local: the lkey is wrong, or its region does not cover or allow the access",
           "check that the SGE lies in a region that is still registered, and that what is written to has LOCAL_WRITE"},
    [6] = {"local: the message is longer than the transport takes",
           "a send holds at most query_port().max_msg_sz bytes: longer data go by RDMA, in pieces of at most "
           "query_efa_device().max_rdma_size"},
    [7] = {"remote: the rkey is wrong, or its region does not cover or allow the access",
           "check rkey and remote_addr with the peer, and that its region has REMOTE_WRITE or REMOTE_READ"},
    [8] = {"remote: the peer aborted the operation", "the peer's queue pair may have been destroyed or reset"},
    [9] = {"remote: there is no such queue pair, or its qkey is another one",
           "check qp_num and qkey: the peer may have made a new queue pair since it sent its EndpointInfo"},
    [10] = {"remote: the peer had no receive posted, however often it was tried",
            "post more receives, or set rnr_retry (QP.prepare) higher; 7 tries for ever"},
    [11] = {"remote: the peer's receive buffer is too short for the message", NULL},
    [12] = {"remote: the peer answered with something unexpected", NULL},
    [13] = {"unresponsive: no answer came from the peer in time",
            "where no peer ever answers, the security group of the instances has to let them reach themselves: all "
            "traffic, in and out, from and to the group itself; else the peer's process or instance may be gone"},
    [14] = {"unknown peer: the target does not know the sender",
            "the target needs an address handle for the initiator before RDMA can reach it: exchange EndpointInfo both "
            "ways, and keep the Peer open at the target"},
    [15] = {"unreachable: there is no way to the peer",
            "both instances must be in one subnet of one availability zone, in a security group that lets them reach "
            "themselves"},
    [18] = {"feature mismatch: the two ends do not support the operation between them",
            "compare efa.capabilities() at both ends"},
};

static const struct status *find(uint32_t status)
{
    static const struct status unknown;

    return status < sizeof statuses / sizeof *statuses ? &statuses[status] : &unknown;
}

const char *efa_status_text(uint32_t status)
{
    return find(status)->text;
}

const char *efa_status_hint(uint32_t status)
{
    return find(status)->hint;
}
