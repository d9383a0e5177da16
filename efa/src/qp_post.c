/* SPDX-License-Identifier: BSD-3-Clause */
/* QP.post_send() and QP.post_recv(): this package's own forms of requests, and the way of sends through the builders. */
#include <errno.h>

#include "args.h"
#include "efa_qp.h"
#include "efa_send_wr.h"
#include "error.h"
#include "recv_wr.h"

/* ---- sending ------------------------------------------------------------------------------------------------------------ */

static int raise_send_fault(struct core_state *state, enum efa_wr_fault fault, const struct efa_qp *self,
                            const struct efa_wr *wr, Py_ssize_t index)
{
    static const char verb[] = "ibv_wr_complete";
    const struct efa_wr_limits *limits = &self->limits;
    uint32_t opcode = wr->fields.opcode;

    switch (fault) {
    case EFA_WR_BAD_OPCODE:
        PyErr_Format(PyExc_ValueError, "request %zd: EFA has no opcode %u", index, opcode);
        break;
    case EFA_WR_NOT_ENABLED:
        PyErr_Format(PyExc_ValueError,
                     "request %zd: opcode %u is not among the operations that the queue pair was made for "
                     "(send_ops_flags=%s)%s",
                     index, opcode, core_hex(limits->ops).text,
                     opcode > IBV_WR_RDMA_WRITE_WITH_IMM || self->core.limits.qp_type == IBV_QPT_UD ? ""
                     : "; RDMA write needs a device that has it and rdma-core 46 or newer, see efa.capabilities()");
        break;
    case EFA_WR_NO_DESTINATION:
        PyErr_Format(PyExc_ValueError, "request %zd has no destination: give dest, or ah, remote_qpn and remote_qkey",
                     index);
        break;
    case EFA_WR_BAD_FLAGS:
        core_raise_format(state, EINVAL, verb, "request %zd: EFA has no send flags but SIGNALED and INLINE, got 0x%x",
                          index, wr->fields.send_flags);
        break;
    case EFA_WR_UNSIGNALED:
        core_raise_format(state, EINVAL, verb,
                          "request %zd is not SIGNALED, which EFA needs unless the queue pair has sq_sig_all", index);
        break;
    case EFA_WR_TOO_MANY_SGE:
        core_raise_range_format(state, "request %zd: sg_list has %u entries, more than the queue's max_send_sge=%u",
                                index, wr->num_sge, limits->max_send_sge);
        break;
    case EFA_WR_TOO_MANY_RDMA_SGE:
        core_raise_range_format(state, "request %zd: sg_list has %u entries; an RDMA request of EFA takes %d", index,
                                wr->num_sge, EFA_RDMA_SGE);
        break;
    case EFA_WR_RDMA_TOO_LONG:
        core_raise_range_format(state, "request %zd: %llu bytes are more than the device's max_rdma_size=%u", index,
                                (unsigned long long)wr_total_length(wr->sge, wr->num_sge), limits->max_rdma_size);
        break;
    case EFA_WR_INLINE_READ:
        PyErr_Format(PyExc_ValueError, "request %zd: an RDMA read sends no data, so it cannot be INLINE", index);
        break;
    case EFA_WR_INLINE_WRITE:
        PyErr_Format(PyExc_ValueError,
                     "request %zd: an INLINE write needs a queue pair made with inline_write=True (rdma-core 63)", index);
        break;
    case EFA_WR_NO_HINTS:
        PyErr_Format(PyExc_ValueError,
                     "request %zd: processing hints need a queue pair made with processing_hints=True (rdma-core 64)",
                     index);
        break;
    default:
        core_raise_range_format(state, "request %zd: %llu bytes inline are more than the queue's max_inline_data=%u",
                                index, (unsigned long long)wr_total_length(wr->sge, wr->num_sge),
                                limits->max_inline_data);
    }
    return -1;
}

/*
 * An address handle is a number to the provider, and each device counts its own: one of another device would reach a
 * stranger. Of another PD of this device it is refused by the device itself.
 */
static int check_ah(struct core_object *qp, const struct core_object *ah, Py_ssize_t index)
{
    if (ah->parents[0] == qp->parents[0] || ah->parents[0]->parents[0] == qp->parents[0]->parents[0])
        return 0;
    PyErr_Format(PyExc_ValueError, "request %zd: its ah belongs to another Context than the queue pair", index);
    return -1;
}

static int put_send(struct core_object *op, const struct wr_limits *ignored, PyObject *item, Py_ssize_t index,
                    struct ibv_sge *sge, uint32_t num_sge, void *place)
{
    const struct efa_send_wr *request = (struct efa_send_wr *)item;
    struct efa_qp *self = (struct efa_qp *)op;
    struct efa_wr *wr = place;
    enum efa_wr_fault fault;

    (void)ignored;
    if (core_send_ah(op, item, index, &wr->ah) < 0 ||
        (wr->ah && check_ah(op, (struct core_object *)request->core.ah, index) < 0))
        return -1;
    wr->fields = request->core.fields;
    wr->sge = sge;
    wr->num_sge = num_sge;
    wr->hints = request->processing_hints;
    fault = efa_wr_check(wr, &self->limits);
    return fault == EFA_WR_OK ? 0 : raise_send_fault(op->state, fault, self, wr, index);
}

/* Every request names an address handle, which another thread could close if it had the GIL. */
static bool never(const struct wr_limits *limits, const void *chain, Py_ssize_t count)
{
    (void)limits;
    (void)chain;
    (void)count;
    return false;
}

static int submit_send(struct core_object *op, void *chain, Py_ssize_t count, void **ret_bad_wr)
{
    struct efa_qp *self = (struct efa_qp *)op;

    (void)ret_bad_wr;
    return efa_wr_submit(self->ex, self->dv, chain, (size_t)count);
}

static const struct core_post_form sends = {
    CORE_TYPE_SEND_WR, "a SendWR", sizeof(struct efa_wr), offsetof(struct core_send_wr, sg_list), put_send, never,
};
static const struct core_post_queue send_queue = {"post_send", "ibv_wr_complete", &sends,
                                                  true,        submit_send,       core_qp_explain_send};

PyObject *efa_qp_post_send(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_qp_post_send(self, args, nargs, kwnames, &send_queue);
}

/* ---- receiving ---------------------------------------------------------------------------------------------------------- */

#define RECEIVE_MOST UINT16_MAX /* the device's field for the length of a receive's entry */

static int put_recv(struct core_object *self, const struct wr_limits *limits, PyObject *item, Py_ssize_t index,
                    struct ibv_sge *sge, uint32_t num_sge, void *place)
{
    if (!num_sge) {
        PyErr_Format(PyExc_ValueError,
                     "request %zd: sg_list is empty; the device never uses such a receive, and its place is lost", index);
        return -1;
    }
    for (uint32_t i = 0; efadv_release.cuts_receives && i < num_sge; i++) {
        if (sge[i].length <= RECEIVE_MOST)
            continue;
        core_raise_range_format(self->state,
                                "request %zd: sg_list[%u] has %u bytes, of which the installed libefa would use the "
                                "length modulo 65536; give at most %d (rdma-core 57 does so itself)",
                                index, i, sge[i].length, RECEIVE_MOST);
        return -1;
    }
    return core_post_receives.put(self, limits, item, index, sge, num_sge, place);
}

static const struct core_post_form receives = {
    CORE_TYPE_RECV_WR, "a RecvWR", sizeof(struct ibv_recv_wr), offsetof(struct core_recv_wr, sg_list),
    put_recv,          core_receives_are_self_contained,
};
static const struct core_post_queue recv_queue = {"post_recv", "ibv_post_recv",     &receives,
                                                  false,       core_qp_submit_recv, core_qp_explain_recv};

PyObject *efa_qp_post_recv(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_qp_post_recv(self, args, nargs, kwnames, &recv_queue);
}
