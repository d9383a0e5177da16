/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoding what is written to the descriptor: one function for each command, and one table. */
#include <fcntl.h>

#include "../config.h"
#include "../fault/fault.h"
#include "../fd.h"
#include "../guard.h"
#include "../libc.h"
#include "../lock.h"
#include "../process.h"
#include "address.h"
#include "attr.h"
#include "cm.h"
#include "connection.h"
#include "event.h"
#include "file.h"
#include "group.h"
#include "id.h"
#include "iwarp.h"
#include "option.h"
#include "port.h"
#include "query.h"
#include "resolve.h"

/* One command under way. */
struct order {
    struct region *r;
    uint32_t file;
    int fd;
    const void *in;      /* as many bytes as any command reads; what the program did not give is zero */
    uint32_t out_room;   /* for the answer */
    struct cm_id *id;    /* of commands that run under the lock */
    struct cm_id copy;
    int refused;
    struct cm_outbox out;
};

#define IN_MOST 512

static int respond(const struct order *o, uint64_t response, const void *answer, size_t size)
{
    return guard_copy((void *)(uintptr_t)response, answer, min_u64(size, o->out_room));
}

/* Runs a part of a command under the lock. */
static int with_id(struct order *o, uint32_t number, int (*part)(struct order *o))
{
    int err;

    lock_take(&o->r->cm.lock);
    err = cm_id_find(o->r, o->file, number, &o->id);
    if (!err && o->id->state == CM_REMOVED)
        err = ENXIO;
    if (!err)
        err = part(o);
    lock_give(&o->r->cm.lock);
    return err;
}

static int respond_number(const struct order *o, uint64_t response, uint32_t number)
{
    return respond(o, response, &number, sizeof(number));
}

/* ---- identifiers ---- */

static int create_id(struct order *o)
{
    const struct rdma_ucm_create_id *in = o->in;
    uint32_t qp_type = in->qp_type;
    struct cm_id *id;
    int err;

    if (in->ps == RDMA_PS_TCP)
        qp_type = IB_UVERBS_QPT_RC;
    else if (in->ps == RDMA_PS_UDP || in->ps == RDMA_PS_IPOIB)
        qp_type = IB_UVERBS_QPT_UD;
    else if (in->ps != RDMA_PS_IB)
        return EINVAL;
    lock_take(&o->r->cm.lock);
    id = cm_id_new(o->r, o->file);
    err = id ? 0 : ENOMEM;
    if (id) {
        id->uid = in->uid;
        id->ps = in->ps;
        id->qp_type = qp_type;
        err = respond_number(o, in->response, cm_id_number(o->r, id));
        if (err)
            cm_id_end(o->r, id, &o->out);
    }
    lock_give(&o->r->cm.lock);
    return err;
}

static int destroy_id(struct order *o)
{
    const struct rdma_ucm_destroy_id *in = o->in;
    uint32_t reported = 0;

    cm_id_end(o->r, o->id, &o->out);
    reported = o->id->reported;
    return respond_number(o, in->response, reported);
}

/* The number of an open file of this process; what is no file of ours is EINVAL. */
static int other_file(int fd, uint32_t *ret_file)
{
    if (libc_get()->fcntl(fd, F_GETFD) < 0)
        return ENOENT;
    return fd_kind(fd, ret_file) == FD_CM ? 0 : EINVAL;
}

/* Given to the new file, about an identifier of the old one. */
static int migrate_id(struct order *o)
{
    const struct rdma_ucm_migrate_id *in = o->in;
    uint32_t from;
    struct cm_id *id;
    int err = other_file((int)in->fd, &from);

    if (err)
        return err;
    lock_take(&o->r->cm.lock);
    err = cm_id_find(o->r, from, in->id, &id);
    if (!err) {
        id->file = o->file;
        if (from != o->file)
            cm_event_move(o->r, id, from, o->file);
        err = respond_number(o, in->response, id->reported);
    }
    lock_give(&o->r->cm.lock);
    return err;
}

static int get_event(struct order *o)
{
    const struct rdma_ucm_get_event *in = o->in;

    return cm_file_get_event(o->r, o->file, o->fd, in->response, o->out_room);
}

/* ---- addresses ---- */

/* size: what the program says it is. */
static bool take_addr(union cm_addr *ret, const void *from, uint32_t size)
{
    memcpy(ret, from, sizeof(*ret));
    return size && size == cm_addr_size(ret);
}

static int bind_ip(struct order *o)
{
    const struct rdma_ucm_bind_ip *in = o->in;
    union cm_addr a = {.in6 = in->addr};

    return cm_addr_size(&a) ? cm_port_bind(o->r, o->file, in->id, &a) : EINVAL;
}

static int bind_any(struct order *o)
{
    const struct rdma_ucm_bind *in = o->in;
    union cm_addr a;

    if (in->reserved || !take_addr(&a, &in->addr, in->addr_size))
        return EINVAL;
    return cm_port_bind(o->r, o->file, in->id, &a);
}

static int resolve_ip(struct order *o)
{
    const struct rdma_ucm_resolve_ip *in = o->in;
    union cm_addr src = {.in6 = in->src_addr}, dst = {.in6 = in->dst_addr};

    return cm_resolve_addr(o->r, o->file, in->id, &src, &dst, in->timeout_ms);
}

static int resolve_addr(struct order *o)
{
    const struct rdma_ucm_resolve_addr *in = o->in;
    union cm_addr src, dst;
    bool has_src = take_addr(&src, &in->src_addr, in->src_size);

    if (in->reserved || (in->src_size && !has_src) || !take_addr(&dst, &in->dst_addr, in->dst_size))
        return EINVAL;
    return cm_resolve_addr(o->r, o->file, in->id, &src, &dst, in->timeout_ms);
}

static int resolve_route(struct order *o)
{
    const struct rdma_ucm_resolve_route *in = o->in;

    return cm_resolve_route(o->r, o->id, in->timeout_ms);
}

static int listen_here(struct order *o)
{
    const struct rdma_ucm_listen *in = o->in;

    return cm_port_listen(o->r, o->file, in->id, (int32_t)in->backlog);
}

static int query_route(struct order *o)
{
    const struct rdma_ucm_query *in = o->in;
    struct rdma_ucm_query_route_resp answer = {0};

    cm_query_route(o->r, o->id, &answer);
    return respond(o, in->response, &answer, CM_ROUTE_ANSWER);
}

static int query(struct order *o)
{
    const struct rdma_ucm_query *in = o->in;
    struct rdma_ucm_query_addr_resp answer = {0};
    struct cm_path_answer path = {0};
    size_t size;

    switch (in->option) {
    case RDMA_USER_CM_QUERY_ADDR:
        cm_query_addr(o->r, o->id, &answer);
        return respond(o, in->response, &answer, CM_ADDR_ANSWER);
    case RDMA_USER_CM_QUERY_GID:
        cm_query_gid(o->r, o->id, &answer);
        return respond(o, in->response, &answer, CM_ADDR_ANSWER);
    case RDMA_USER_CM_QUERY_PATH:
        cm_query_path(o->r, o->id, &path, &size);
        return respond(o, in->response, &path, size);
    }
    return ENOSYS;
}

static int set_option(struct order *o)
{
    const struct rdma_ucm_set_option *in = o->in;
    uint8_t value[CM_OPTION_MOST];

    if (in->optlen > sizeof(value))
        return EINVAL;
    if (guard_copy(value, (const void *)(uintptr_t)in->optval, in->optlen))
        return EFAULT;
    return cm_option_set(o->id, in->level, in->optname, value, in->optlen);
}

/* ---- connections ---- */

static int connect_locked(struct order *o)
{
    const struct rdma_ucm_connect *in = o->in;

    return cm_connect(o->r, o->id, &in->conn_param, &o->out);
}

static int tell_refusal(struct order *o)
{
    bool refused = o->id->refused;

    o->id->refused = 0;
    return refused ? ECONNREFUSED : 0;
}

/* On iWARP the call itself meets the listener. */
static int connect_id(struct order *o)
{
    const struct rdma_ucm_connect *in = o->in;
    int err = with_id(o, in->id, connect_locked);

    cm_outbox_deliver(&o->out);
    return err ? err : with_id(o, in->id, tell_refusal);
}

static int accept_locked(struct order *o)
{
    const struct rdma_ucm_accept *in = o->in;

    if (o->refused) {
        cm_reject(o->r, o->id, REJ_CONSUMER_DEFINED, NULL, 0, &o->out);
        return o->refused;
    }
    return cm_accept(o->r, o->id, in->uid, &in->conn_param, &o->out);
}

static int copy_id(struct order *o)
{
    o->copy = *o->id;
    return 0;
}

/* On iWARP the queue pair is moved here, before the peer hears of it. */
static int accept_id(struct order *o)
{
    const struct rdma_ucm_accept *in = o->in;
    const struct rdma_ucm_conn_param *p = &in->conn_param;
    int err = with_id(o, in->id, copy_id);

    if (!err && p->valid && cm_is_iwarp(&o->copy) && o->copy.link == LINK_REQ_RCVD &&
        p->private_data_len <= CM_IWARP_DATA) {
        o->copy.qpn = p->qp_num & 0xffffff;
        o->copy.rr = p->responder_resources;
        o->copy.idp = p->initiator_depth;
        o->refused = cm_iwarp_move_qp(o->r, &o->copy);
    }
    return err ? err : with_id(o, in->id, accept_locked);
}

static int reject_id(struct order *o)
{
    const struct rdma_ucm_reject *in = o->in;
    uint32_t reason = in->reason ? in->reason : REJ_CONSUMER_DEFINED;

    if (reason != REJ_CONSUMER_DEFINED && reason != REJ_VENDOR)
        return EINVAL;
    return cm_reject(o->r, o->id, reason, in->private_data, in->private_data_len, &o->out);
}

static int disconnect_id(struct order *o)
{
    return cm_disconnect(o->r, o->id, &o->out);
}

static int notify(struct order *o)
{
    const struct rdma_ucm_notify *in = o->in;

    return cm_notify(o->r, o->id, in->event);
}

static int init_qp_attr(struct order *o)
{
    const struct rdma_ucm_init_qp_attr *in = o->in;
    struct ib_uverbs_qp_attr attr = {0};
    int err = cm_attr_init(o->r, o->id, in->qp_state, &attr);

    return err ? err : respond(o, in->response, &attr, sizeof(attr));
}

/* ---- groups ---- */

static int join(struct order *o, uint64_t uid, uint64_t response, const union cm_addr *addr)
{
    uint32_t group;
    int err = cm_group_join(o->r, o->id, uid, addr, &group);

    return err ? err : respond_number(o, response, group);
}

static int join_ip_mcast(struct order *o)
{
    const struct rdma_ucm_join_ip_mcast *in = o->in;
    union cm_addr a = {.in6 = in->addr};

    return join(o, in->uid, in->response, &a);
}

static int join_mcast(struct order *o)
{
    const struct rdma_ucm_join_mcast *in = o->in;
    union cm_addr a;

    if (!take_addr(&a, &in->addr, in->addr_size) || in->join_flags > RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
        return EINVAL;
    return join(o, in->uid, in->response, &a);
}

static int leave_mcast(struct order *o)
{
    const struct rdma_ucm_destroy_id *in = o->in;
    uint32_t reported;
    int err;

    lock_take(&o->r->cm.lock);
    err = cm_group_leave(o->r, o->file, in->id, &reported);
    lock_give(&o->r->cm.lock);
    return err ? err : respond_number(o, in->response, reported);
}

/* ---- the table ---- */

#define LOCKS_ITSELF UINT32_MAX

struct command {
    const char *name;
    int (*run)(struct order *o);
    uint32_t id_at;   /* where the identifier's number is in the command; LOCKS_ITSELF */
    uint32_t in, out; /* at least */
    bool when_removed; /* it works on an identifier whose NIC has gone */
};

#define ID_OF(type) offsetof(struct rdma_ucm_##type, id)
#define CMD(name) [RDMA_USER_CM_CMD_##name]

static const struct command commands[] = {
    CMD(CREATE_ID) = {"RDMA_CREATE_ID", create_id, LOCKS_ITSELF, 0, 4, false},
    CMD(DESTROY_ID) = {"RDMA_DESTROY_ID", destroy_id, ID_OF(destroy_id), 0, 4, true},
    CMD(BIND_IP) = {"RDMA_BIND_IP", bind_ip, LOCKS_ITSELF, 0, 0, false},
    CMD(RESOLVE_IP) = {"RDMA_RESOLVE_IP", resolve_ip, LOCKS_ITSELF, 0, 0, false},
    CMD(RESOLVE_ROUTE) = {"RDMA_RESOLVE_ROUTE", resolve_route, ID_OF(resolve_route), 0, 0, false},
    CMD(QUERY_ROUTE) = {"RDMA_QUERY_ROUTE", query_route, ID_OF(query), 0, CM_ROUTE_ANSWER, false},
    CMD(CONNECT) = {"RDMA_CONNECT", connect_id, LOCKS_ITSELF, offsetof(struct rdma_ucm_connect, ece), 0, false},
    CMD(LISTEN) = {"RDMA_LISTEN", listen_here, LOCKS_ITSELF, 0, 0, false},
    CMD(ACCEPT) = {"RDMA_ACCEPT", accept_id, LOCKS_ITSELF, offsetof(struct rdma_ucm_accept, ece), 0, false},
    CMD(REJECT) = {"RDMA_REJECT", reject_id, ID_OF(reject), 0, 0, false},
    CMD(DISCONNECT) = {"RDMA_DISCONNECT", disconnect_id, ID_OF(disconnect), 0, 0, false},
    CMD(INIT_QP_ATTR) = {"RDMA_INIT_QP_ATTR", init_qp_attr, ID_OF(init_qp_attr), 0, sizeof(struct ib_uverbs_qp_attr),
                         false},
    CMD(GET_EVENT) = {"RDMA_GET_EVENT", get_event, LOCKS_ITSELF, 0, 0, false},
    CMD(SET_OPTION) = {"RDMA_SET_OPTION", set_option, ID_OF(set_option), 0, 0, false},
    CMD(NOTIFY) = {"RDMA_NOTIFY", notify, ID_OF(notify), 0, 0, false},
    CMD(JOIN_IP_MCAST) = {"RDMA_JOIN_IP_MCAST", join_ip_mcast, ID_OF(join_ip_mcast), 0, 4, false},
    CMD(LEAVE_MCAST) = {"RDMA_LEAVE_MCAST", leave_mcast, LOCKS_ITSELF, 0, 4, false},
    CMD(MIGRATE_ID) = {"RDMA_MIGRATE_ID", migrate_id, LOCKS_ITSELF, 0, 4, false},
    CMD(QUERY) = {"RDMA_QUERY", query, ID_OF(query), 0, 8, false},
    CMD(BIND) = {"RDMA_BIND", bind_any, LOCKS_ITSELF, 0, 0, false},
    CMD(RESOLVE_ADDR) = {"RDMA_RESOLVE_ADDR", resolve_addr, LOCKS_ITSELF, 0, 0, false},
    CMD(JOIN_MCAST) = {"RDMA_JOIN_MCAST", join_mcast, ID_OF(join_mcast), 0, 4, false},
};

const char *cm_call_name(size_t i)
{
    size_t n = 0;

    for (size_t k = 0; k < NELEM(commands); k++) {
        if (commands[k].run && n++ == i)
            return commands[k].name;
    }
    return NULL;
}

static int run_locked(const struct command *c, struct order *o)
{
    uint32_t number;
    int err;

    memcpy(&number, (const uint8_t *)o->in + c->id_at, sizeof(number));
    lock_take(&o->r->cm.lock);
    err = cm_id_find(o->r, o->file, number, &o->id);
    if (!err && o->id->state == CM_REMOVED && !c->when_removed)
        err = ENXIO;
    if (!err)
        err = c->run(o);
    lock_give(&o->r->cm.lock);
    return err;
}

static int run(const struct rdma_ucm_cmd_hdr *head, struct order *o)
{
    const struct command *c = &commands[head->cmd];
    int err;

    if (!c->run)
        return ENOSYS;
    if (head->in < c->in)
        err = EINVAL;
    else if (head->out < c->out)
        err = ENOSPC;
    else
        err = fault_call(o->r, NONE, c->name);
    if (!err)
        err = c->id_at == LOCKS_ITSELF ? c->run(o) : run_locked(c, o);
    cm_outbox_deliver(&o->out);
    TRACE("cm %s: %d", c->name, err);
    return err;
}

ssize_t cm_write(uint32_t file, int fd, const void *buf, size_t length)
{
    uint64_t in[IN_MOST / 8] = {0};
    struct rdma_ucm_cmd_hdr head;
    struct order o = {.r = process.region, .file = file, .fd = fd, .in = in};
    int err = 0;

    if (!cm_file_allows(&o.r->cm.file[file]))
        err = EACCES;
    else if (length < sizeof(head))
        err = EINVAL;
    else if (guard_copy(&head, buf, sizeof(head)))
        err = EFAULT;
    else if (head.cmd >= NELEM(commands) || head.in + sizeof(head) > length)
        err = EINVAL;
    else if (guard_copy(in, (const uint8_t *)buf + sizeof(head), min_u64(length - sizeof(head), sizeof(in))))
        err = EFAULT;
    if (!err) {
        o.out_room = head.out;
        err = run(&head, &o);
    }
    if (!err)
        return (ssize_t)length;
    errno = err;
    return -1;
}
