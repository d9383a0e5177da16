/* SPDX-License-Identifier: BSD-3-Clause */
/* What the connection manager keeps in a region: open files of /dev/infiniband/rdma_cm, identifiers, events that nobody
 * has read yet, memberships of groups. Everything here is under cm.lock, except where a comment says otherwise.
 *
 * An identifier has two states, as in the kernel: that of its life as the program sees it (cma.c there) and that of its
 * exchange of messages with a peer (cm.c). connect, accept and events go by the first; disconnect, reject and
 * INIT_QP_ATTR by the second. */
#ifndef SOFTRDMA_CM_STATE_H
#define SOFTRDMA_CM_STATE_H

#include "../base.h"

#include <pthread.h>
#include <rdma/rdma_user_cm.h>

#define CM_FILES 4096
#define CM_IDS 16384
#define CM_EVENTS 32768
#define CM_GROUPS 1024
#define CM_PROCS 256 /* MAX_PROCS of region.h */
#define CM_KNOWN 16
#define CM_MAX_BACKLOG 1024

enum cm_state {
    CM_IDLE,
    CM_ADDR_QUERY,
    CM_ADDR_RESOLVED,
    CM_ROUTE_RESOLVED,
    CM_CONNECT,
    CM_DISCONNECT,
    CM_BOUND,
    CM_LISTEN,
    CM_REMOVED, /* its device has gone: all that is left is to destroy it */
};

enum cm_link {
    LINK_NONE, /* never tried */
    LINK_IDLE,
    LINK_LISTEN,
    LINK_REQ_SENT,
    LINK_REQ_RCVD,
    LINK_REP_SENT,
    LINK_REP_RCVD,
    LINK_ESTABLISHED,
    LINK_DREQ_SENT,
    LINK_DREQ_RCVD,
    LINK_TIMEWAIT,
    LINK_SIDR_SENT,
    LINK_SIDR_RCVD,
};

/* enum rdma_cm_event_type of librdmacm, which the kernel's headers lack. */
enum cm_event_type {
    EVENT_ADDR_RESOLVED,
    EVENT_ADDR_ERROR,
    EVENT_ROUTE_RESOLVED,
    EVENT_ROUTE_ERROR,
    EVENT_CONNECT_REQUEST,
    EVENT_CONNECT_RESPONSE,
    EVENT_CONNECT_ERROR,
    EVENT_UNREACHABLE,
    EVENT_REJECTED,
    EVENT_ESTABLISHED,
    EVENT_DISCONNECTED,
    EVENT_DEVICE_REMOVAL,
    EVENT_MULTICAST_JOIN,
    EVENT_MULTICAST_ERROR,
    EVENT_ADDR_CHANGE,
    EVENT_TIMEWAIT_EXIT,
};

/* Why a REJ was sent, and what an answer to a SIDR request says. */
enum { REJ_TIMEOUT = 4, REJ_INVALID_COMM_ID = 6, REJ_INVALID_SERVICE_ID = 8, REJ_CONSUMER_DEFINED = 28, REJ_VENDOR = 35 };
enum { SIDR_SUCCESS, SIDR_UNSUPPORTED, SIDR_REJECT };

enum cm_timer { TIMER_NONE, TIMER_ADDR, TIMER_RESEND, TIMER_NOBODY, TIMER_ANSWER, TIMER_TIMEWAIT };

union cm_addr {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    uint8_t raw[48]; /* a struct sockaddr_ib is the longest */
};

/* An identifier of any region. It may be gone, and another may be in its place. */
struct cm_ref {
    uint64_t instance; /* of the region; 0: nobody */
    uint32_t slot, id, generation;
    uint32_t proc; /* the one that opened its file */
};

struct cm_id {
    uint32_t used, generation;
    uint32_t file;
    uint32_t state, link; /* enum cm_state, enum cm_link */
    uint32_t ps, qp_type;
    int32_t device;    /* -1: none yet */
    uint64_t uid;      /* 0: a request that nobody has accepted */
    uint32_t reported; /* events that were read */
    struct cm_ref peer;
    union cm_addr src, dst;
    uint16_t port;   /* it holds; 0: none */
    int32_t backlog; /* room for requests that nobody has read */
    uint8_t reuse, af_only, tos, has_timeout, timeout;
    uint8_t life; /* of a packet, as the path record says it */
    uint8_t has_route;
    uint8_t refused; /* iWARP: nobody listens; connect itself says so */
    uint8_t rr, idp, retry, rnr;
    uint32_t qpn, psn, peer_qpn, peer_psn;
    struct rdma_ucm_conn_param param; /* of the request or answer that was sent */
    uint32_t timer, tries;            /* enum cm_timer */
    uint64_t timer_at;                /* now_ns */
};

struct cm_event {
    uint32_t next;   /* index + 1; 0: the last */
    uint32_t id;     /* for whom it counts */
    uint32_t child;  /* of a CONNECT_REQUEST; NONE */
    uint32_t group;  /* of the events about one; NONE */
    struct rdma_ucm_event_resp resp;
};

struct cm_file {
    _Atomic uint32_t used, generation;
    uint32_t proc;    /* the one that opened it; commands of others are refused */
    int32_t write_fd; /* in that process: of the pipe whose reading end is the program's descriptor */
    _Atomic uint32_t closed; /* there: nobody can read events */
    uint32_t head, tail;     /* unread events; index + 1 */
    uint32_t owed;           /* bytes that the pipe lacks: its process's service thread writes them */
    uint32_t uid[3], gid[3]; /* of the opener */
    _Atomic uint64_t holders[CM_PROCS / 64];
};

struct cm_group {
    uint32_t used, id, reported;
    uint64_t uid;
};

struct cm_table {
    uint32_t count, next;
};

struct cm {
    pthread_mutex_t lock;
    _Atomic uint32_t nlisteners; /* hint, read without the lock */
    _Atomic uint32_t nabandoned; /* hint: files whose last holder has died */
    _Atomic uint32_t nowed;      /* hint: events whose byte is owed */
    uint32_t generation;
    _Atomic uint64_t due[CM_PROCS];             /* when each process's service thread will look at timers by itself */
    _Atomic uint32_t strangers[CM_PROCS];       /* it may have peers that it does not watch yet (watch.h) */
    _Atomic uint64_t known[CM_PROCS][CM_KNOWN]; /* some of those that it watches */
    uint64_t id_bits[CM_IDS / 64], event_bits[CM_EVENTS / 64];
    uint32_t nfiles; /* above it none is used */
    struct cm_file file[CM_FILES];
    struct cm_id id[CM_IDS];
    struct cm_event event[CM_EVENTS];
    struct cm_group group[CM_GROUPS];
};

#endif
