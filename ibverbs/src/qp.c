/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.QP: how an RC, UC or UD queue pair is made and taken through its states. */
#include "qp.h"

#include <errno.h>
#include <string.h>

#include "ah_attr.h"
#include "args.h"
#include "classes.h"
#include "error.h"
#include "makers.h"
#include "verbs.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

static const struct core_params create_qp_params = {"PD.create_qp", 1, 1, {CORE_NAME_init_attr}};

PyObject *ibverbs_pd_create_qp(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_object *pd = (struct core_object *)op;
    struct ibv_qp_init_attr init;
    struct core_qp *self;
    PyObject *init_attr;
    struct ibv_qp *qp;
    int err;

    if (core_parse(pd->state, &create_qp_params, args, nargs, kwnames, &init_attr) < 0 ||
        core_check_open(pd, "create_qp") < 0)
        return NULL;
    self = core_qp_new(pd, init_attr, 0, &init, "create_qp");
    if (!self || core_qp_begin(self, &init, "create_qp") < 0)
        return NULL;

    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    qp = verbs.create_qp(pd->handle, &init);
    err = qp ? 0 : verbs_last_errno();
    Py_END_ALLOW_THREADS
    return core_qp_finish(self, qp, err, "ibv_create_qp", "", &init);
}

/* ---- the states, one by one ---------------------------------------------------------------------------------------- */

static const struct core_params to_init_params = {
    "QP.to_init", 4, 1, {CORE_NAME_port, CORE_NAME_access, CORE_NAME_pkey_index, CORE_NAME_qkey}};

static PyObject *qp_to_init(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_qp *self = (struct core_qp *)op;
    struct core_state *state = self->base.state;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    uint32_t mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    PyObject *values[4];

    if (core_parse(state, &to_init_params, args, nargs, kwnames, values) < 0 ||
        core_u8(state, values[0], "port", &attr.port_num) < 0 ||
        (values[1] && core_u32(state, values[1], "access", &attr.qp_access_flags) < 0) ||
        (values[2] && core_u16(state, values[2], "pkey_index", &attr.pkey_index) < 0) ||
        (values[3] && core_u32(state, values[3], "qkey", &attr.qkey) < 0))
        return NULL;
    mask |= self->limits.qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    if (core_qp_modify(self, &attr, mask, "to_init") < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* What to_rtr reads from the peer's information. */
static int read_remote(struct core_state *state, PyObject *remote, struct ibv_qp_attr *attr, bool need_mtu)
{
    enum { QP_NUM, PSN, LID, GID, MTU, COUNT };
    static const enum core_name names[COUNT] = {CORE_NAME_qp_num, CORE_NAME_psn, CORE_NAME_lid, CORE_NAME_gid,
                                                CORE_NAME_mtu};
    PyObject *values[COUNT] = {NULL};
    uint64_t qp_num, psn, mtu;
    int failed = -1;

    for (int i = 0; i < COUNT; i++) {
        values[i] = core_get_attr(state, remote, names[i], "remote", "a QPInfo or an object with its fields");
        if (!values[i])
            goto done;
    }
    if (core_integer(state, values[QP_NUM], "remote.qp_num", 0, WR_QPN_MOST, &qp_num) < 0 ||
        core_integer(state, values[PSN], "remote.psn", 0, WR_PSN_MOST, &psn) < 0 ||
        core_u16(state, values[LID], "remote.lid", &attr->ah_attr.dlid) < 0 ||
        core_gid_bytes(state, values[GID], "remote.gid", attr->ah_attr.grh.dgid.raw) < 0)
        goto done;
    attr->dest_qp_num = (uint32_t)qp_num;
    attr->rq_psn = (uint32_t)psn;
    if (need_mtu) {
        if (core_integer(state, values[MTU], "remote.mtu", IBV_MTU_256, IBV_MTU_4096, &mtu) < 0)
            goto done;
        attr->path_mtu = (enum ibv_mtu)mtu;
    }
    failed = 0;
done:
    for (int i = 0; i < COUNT; i++)
        Py_XDECREF(values[i]);
    return failed;
}

/* The port that an address vector names: that of to_init, or what the device says. */
static int find_port(struct core_qp *self, uint8_t *ret)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (!self->port_num) {
        if (core_qp_query(self, IBV_QP_PORT, &attr, &init, "to_rtr") < 0)
            return -1;
        self->port_num = attr.port_num;
    }
    *ret = self->port_num;
    return 0;
}

/*
 * Reads and atomics at once, before a device refuses them without a reason. One is what everything can, and is not asked
 * about. Returns 0 or -1 with an exception.
 */
static int check_depth(struct core_qp *self, const char *name, uint8_t depth, bool responder, const char *method)
{
    struct core_context *context = core_context_of(&self->base);
    struct ibv_device_attr limits;
    int most;

    if (depth <= 1)
        return 0;
    if (core_check_open(&self->base, method) < 0)
        return -1;
    if (!core_context_limits(context, &limits))
        return 0;
    most = responder ? limits.max_qp_rd_atom : limits.max_qp_init_rd_atom;
    if (depth <= most)
        return 0;
    core_raise_range_format(self->base.state, "%s must be between 0 and %d, the %s of device %s, got %d", name, most,
                            responder ? "max_qp_rd_atom" : "max_qp_init_rd_atom", context->name, depth);
    return -1;
}

static const struct core_params to_rtr_params = {
    "QP.to_rtr",
    9,
    2,
    {CORE_NAME_remote, CORE_NAME_sgid_index, CORE_NAME_mtu, CORE_NAME_hop_limit, CORE_NAME_min_rnr_timer,
     CORE_NAME_max_dest_rd_atomic, CORE_NAME_sl, CORE_NAME_traffic_class, CORE_NAME_is_global}};

static PyObject *qp_to_rtr(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_qp *self = (struct core_qp *)op;
    struct core_state *state = self->base.state;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .min_rnr_timer = 12,
        .max_dest_rd_atomic = 1,
        .ah_attr = {.is_global = 1, .grh = {.hop_limit = 1}},
    };
    uint32_t mask = IBV_QP_STATE;
    PyObject *values[9];
    uint64_t mtu;
    int truth;

    if (core_parse(state, &to_rtr_params, args, nargs, kwnames, values) < 0 ||
        core_u8(state, values[1], "sgid_index", &attr.ah_attr.grh.sgid_index) < 0 ||
        (values[3] && core_u8(state, values[3], "hop_limit", &attr.ah_attr.grh.hop_limit) < 0) ||
        (values[4] && core_u8_most(state, values[4], "min_rnr_timer", 31, &attr.min_rnr_timer) < 0) ||
        (values[5] && core_u8(state, values[5], "max_dest_rd_atomic", &attr.max_dest_rd_atomic) < 0) ||
        (values[6] && core_u8_most(state, values[6], "sl", 15, &attr.ah_attr.sl) < 0) ||
        (values[7] && core_u8(state, values[7], "traffic_class", &attr.ah_attr.grh.traffic_class) < 0))
        return NULL;
    if (values[8] && values[8] != Py_None) {
        if ((truth = PyObject_IsTrue(values[8])) < 0)
            return NULL;
        attr.ah_attr.is_global = (uint8_t)truth;
    }

    if (self->limits.qp_type != IBV_QPT_UD) {
        bool own_mtu = values[2] && values[2] != Py_None;

        if (values[0] == Py_None)
            return core_raise_type("remote", "a QPInfo on a connected queue pair", values[0]);
        if (read_remote(state, values[0], &attr, !own_mtu) < 0 || find_port(self, &attr.ah_attr.port_num) < 0)
            return NULL;
        if (own_mtu) {
            if (core_integer(state, values[2], "mtu", IBV_MTU_256, IBV_MTU_4096, &mtu) < 0)
                return NULL;
            attr.path_mtu = (enum ibv_mtu)mtu;
        }
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        if (self->limits.qp_type != IBV_QPT_UC) {
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
            if (check_depth(self, "max_dest_rd_atomic", attr.max_dest_rd_atomic, true, "to_rtr") < 0)
                return NULL;
        }
    }
    if (core_qp_modify(self, &attr, mask, "to_rtr") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static const struct core_params to_rts_params = {
    "QP.to_rts",
    5,
    1,
    {CORE_NAME_psn, CORE_NAME_timeout, CORE_NAME_retry_cnt, CORE_NAME_rnr_retry, CORE_NAME_max_rd_atomic}};

static PyObject *qp_to_rts(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_qp *self = (struct core_qp *)op;
    struct core_state *state = self->base.state;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    uint32_t mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    PyObject *values[5];
    uint64_t psn;

    if (core_parse(state, &to_rts_params, args, nargs, kwnames, values) < 0 ||
        core_integer(state, values[0], "psn", 0, WR_PSN_MOST, &psn) < 0 ||
        (values[1] && core_u8_most(state, values[1], "timeout", 31, &attr.timeout) < 0) ||
        (values[2] && core_u8_most(state, values[2], "retry_cnt", 7, &attr.retry_cnt) < 0) ||
        (values[3] && core_u8_most(state, values[3], "rnr_retry", 7, &attr.rnr_retry) < 0) ||
        (values[4] && core_u8(state, values[4], "max_rd_atomic", &attr.max_rd_atomic) < 0))
        return NULL;
    attr.sq_psn = (uint32_t)psn;
    if (self->limits.qp_type != IBV_QPT_UD && self->limits.qp_type != IBV_QPT_UC) {
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        if (check_depth(self, "max_rd_atomic", attr.max_rd_atomic, false, "to_rts") < 0)
            return NULL;
    }
    if (core_qp_modify(self, &attr, mask, "to_rts") < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- the verbs themselves ------------------------------------------------------------------------------------------ */

static PyObject *qp_modify(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return core_qp_method_modify(self, args, kwargs, "ah_attr");
}

typedef int multicast_verb(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* Membership of a multicast group, by a verb that the library may lack. */
static PyObject *multicast(struct core_qp *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                           const struct core_params *params, const char *method, const char *name,
                           multicast_verb *verb)
{
    struct core_state *state = self->base.state;
    union ibv_gid gid;
    PyObject *values[2];
    uint16_t lid = 0;
    int err;

    if (core_parse(state, params, args, nargs, kwnames, values) < 0 ||
        core_gid_bytes(state, values[0], "gid", gid.raw) < 0 ||
        (values[1] && core_u16(state, values[1], "lid", &lid) < 0))
        return NULL;
    if (!verb)
        return core_raise_unsupported(state, &verbs_library, name);
    if (core_enter(&self->base, method) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = verbs_errno(verb(self->base.handle, &gid, lid));
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    if (err)
        return core_raise_format(state, err, name, "lid %u, QP 0x%x", lid, self->qp_num);
    Py_RETURN_NONE;
}

static const struct core_params attach_mcast_params = {"QP.attach_mcast", 2, 1, {CORE_NAME_gid, CORE_NAME_lid}};
static const struct core_params detach_mcast_params = {"QP.detach_mcast", 2, 1, {CORE_NAME_gid, CORE_NAME_lid}};

static PyObject *qp_attach_mcast(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return multicast((struct core_qp *)self, args, nargs, kwnames, &attach_mcast_params, "attach_mcast",
                     "ibv_attach_mcast", verbs.attach_mcast);
}

static PyObject *qp_detach_mcast(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return multicast((struct core_qp *)self, args, nargs, kwnames, &detach_mcast_params, "detach_mcast",
                     "ibv_detach_mcast", verbs.detach_mcast);
}

static PyObject *qp_query(PyObject *self, PyObject *ignored)
{
    const uint32_t mask = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                          IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CAP | IBV_QP_DEST_QPN;

    (void)ignored;
    return core_qp_method_query(self, mask, NULL);
}

static PyObject *qp_repr(PyObject *self)
{
    static const char *const names[] = {[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD"};
    uint32_t type = ((struct core_qp *)self)->limits.qp_type;
    const char *name = type < sizeof names / sizeof *names ? names[type] : NULL;

    return core_qp_repr(self, name ? name : "of another type");
}

/* ---- the class --------------------------------------------------------------------------------------------------- */

static PyMethodDef qp_methods[] = {
    CORE_LIFETIME_METHODS,
    CORE_QP_POST_SEND_METHOD,
    CORE_QP_POST_RECV_METHOD,
    CORE_METHOD("to_init", qp_to_init,
                "to_init($self, port, access=0, pkey_index=0, qkey=0)\n--\n\n"
                "Take the queue pair from RESET to INIT. ibv_modify_qp."),
    CORE_METHOD("to_rtr", qp_to_rtr,
                "to_rtr($self, remote, sgid_index, mtu=None, hop_limit=1, min_rnr_timer=12, max_dest_rd_atomic=1, sl=0, "
                "traffic_class=0, is_global=None)\n--\n\n"
                "Take the queue pair from INIT to RTR, with its peer. ibv_modify_qp."),
    CORE_METHOD("to_rts", qp_to_rts,
                "to_rts($self, psn, timeout=14, retry_cnt=7, rnr_retry=7, max_rd_atomic=1)\n--\n\n"
                "Take the queue pair from RTR to RTS. ibv_modify_qp."),
    {"modify", (PyCFunction)(void (*)(void))qp_modify, METH_VARARGS | METH_KEYWORDS,
     "modify($self, attr_mask, ah_attr=None, **fields)\n--\n\n"
     "Set those fields of struct ibv_qp_attr that attr_mask names. ibv_modify_qp."},
    CORE_METHOD("attach_mcast", qp_attach_mcast,
                "attach_mcast($self, gid, lid=0)\n--\n\n"
                "Receive what is sent to a multicast group; UD only. ibv_attach_mcast."),
    CORE_METHOD("detach_mcast", qp_detach_mcast,
                "detach_mcast($self, gid, lid=0)\n--\n\nReceive it no more. ibv_detach_mcast."),
    {"query", qp_query, METH_NOARGS,
     "query($self)\n--\n\nReturn a dict of the fields of struct ibv_qp_attr, and a QPCap. ibv_query_qp."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef qp_getset[] = {
    CORE_LIFETIME_GETSET, CORE_QP_GETSET, CORE_QP_SRQ_ROW, {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef qp_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot qp_slots[] = {
    {Py_tp_doc, "QP()\n--\n\nA queue pair; PD.create_qp() makes one."},
    {Py_tp_new, core_qp_no_constructor},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, qp_repr},
    {Py_tp_methods, qp_methods},
    {Py_tp_getset, qp_getset},
    {Py_tp_members, qp_members},
    {0, NULL},
};

const PyType_Spec ibverbs_qp_spec = {
    .basicsize = sizeof(struct core_qp),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = qp_slots,
};
