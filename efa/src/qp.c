/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.QP: how an SRD or UD queue pair is made, taken through its states, and given requests. */
#include "qp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "attrs.h"
#include "classes.h"
#include "comp_cntr.h"
#include "efa_context.h"
#include "efa_send_wr.h"
#include "efa_wr.h"
#include "error.h"
#include "makers.h"
#include "recv_wr.h"
#include "verbs.h"

struct efa_qp {
    struct core_qp core;
    struct ibv_qp_ex *ex; /* the library's, behind the queue pair, for builders */
    struct dv_qp *dv;     /* NULL where it was not made for processing hints */
    struct efa_wr_limits limits;
    PyObject *counters; /* a list of those that it was attached to, which live as long as it; NULL without any */
};

#define SEND_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define WRITE_OPS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define ALL_OPS (SEND_OPS | WRITE_OPS | IBV_QP_EX_WITH_RDMA_READ)

/* ---- what is asked for ------------------------------------------------------------------------------------------------- */

struct request {
    struct ibv_qp_init_attr_ex attr;
    struct dv_qp_init_attr efa;
};

/* An attribute that an object may lack, a new reference; NULL without an exception where it does or says None. */
static PyObject *optional_attr(struct core_state *state, PyObject *init, enum core_name name)
{
    PyObject *value = PyObject_GetAttr(init, state->names[name]);

    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    if (value == Py_None)
        Py_CLEAR(value);
    return value;
}

static int optional_number(struct core_state *state, PyObject *init, enum core_name name, const char *text,
                           uint64_t most, uint64_t *ret)
{
    PyObject *value = optional_attr(state, init, name);
    int failed = value ? core_integer(state, value, text, 0, most, ret) : 0;

    if (!value && PyErr_Occurred())
        return -1;
    Py_XDECREF(value);
    return failed;
}

static int optional_truth(struct core_state *state, PyObject *init, enum core_name name, int *ret)
{
    PyObject *value = optional_attr(state, init, name);

    if (!value && PyErr_Occurred())
        return -1;
    *ret = value ? PyObject_IsTrue(value) : 0;
    Py_XDECREF(value);
    return *ret < 0 ? -1 : 0;
}

/* What the QP type, the device and the library can send together. */
static uint64_t available_ops(uint32_t qp_type, const struct dv_device_attr *device)
{
    uint64_t ops = SEND_OPS;

    if (qp_type == IBV_QPT_UD)
        return ops;
    if (device->device_caps & DV_CAP_RDMA_READ)
        ops |= IBV_QP_EX_WITH_RDMA_READ;
    if (device->device_caps & DV_CAP_RDMA_WRITE)
        ops |= WRITE_OPS;
    return ops;
}

static int raise_unavailable(struct core_state *state, const struct core_context *context, const char *what,
                             const char *since)
{
    core_raise_unsupported_format(state, "efadv_create_qp_ex",
                                  "%s: device %s or the installed libefa cannot do it; rdma-core %s brings it", what,
                                  context->name, since);
    return -1;
}

/* Reads what only this package's queue pairs have, and checks it against device and library. */
static int read_request(struct efa_context *context, PyObject *init, const struct dv_device_attr *device,
                        struct request *request)
{
    struct core_state *state = context->core.base.state;
    struct ibv_qp_init_attr_ex *attr = &request->attr;
    uint64_t ops = available_ops(attr->qp_type, device), sl = 0;
    int unsolicited, inline_write, hints;

    attr->send_ops_flags = ops;
    if (optional_number(state, init, CORE_NAME_send_ops_flags, "send_ops_flags", UINT64_MAX, &attr->send_ops_flags) < 0 ||
        optional_number(state, init, CORE_NAME_sl, "sl", UINT8_MAX, &sl) < 0 ||
        optional_truth(state, init, CORE_NAME_unsolicited_write_recv, &unsolicited) < 0 ||
        optional_truth(state, init, CORE_NAME_inline_write, &inline_write) < 0 ||
        optional_truth(state, init, CORE_NAME_processing_hints, &hints) < 0)
        return -1;

    if (attr->send_ops_flags & ~(uint64_t)ALL_OPS) {
        PyErr_Format(PyExc_ValueError, "send_ops_flags may have the bits 0x%x of QPExSendOpsFlags, got %s",
                     (unsigned)ALL_OPS, core_hex(attr->send_ops_flags).text);
        return -1;
    }
    if (attr->qp_type == IBV_QPT_UD && (sl || unsolicited || inline_write || hints)) {
        PyErr_SetString(PyExc_ValueError,
                        "sl, unsolicited_write_recv, inline_write and processing_hints are for SRD queue pairs");
        return -1;
    }
    if (attr->send_ops_flags & WRITE_OPS & ~ops && attr->qp_type != IBV_QPT_UD)
        return raise_unavailable(state, &context->core, "RDMA write", "46");
    if (unsolicited && !(device->device_caps & DV_CAP_UNSOLICITED_WRITE_RECV))
        return raise_unavailable(state, &context->core, "unsolicited_write_recv=True", "52");
    if (inline_write && (!efadv.get_max_sq_depth || !(device->device_caps & DV_CAP_RDMA_WRITE)))
        return raise_unavailable(state, &context->core, "inline_write=True", "63");
    if (hints && !efadv.qp_from_ibv_qp_ex)
        return raise_unavailable(state, &context->core, "processing_hints=True", "64");

    request->efa.driver_qp_type = DV_QP_SRD;
    request->efa.sl = (uint8_t)sl;
    request->efa.flags = (uint16_t)((unsolicited ? DV_QP_UNSOLICITED_WRITE_RECV : 0) |
                                    (inline_write ? DV_QP_INLINE_WRITE : 0));
    request->efa.wr_flags = hints ? DV_WR_WITH_PROCESSING_HINTS : 0;
    return 0;
}

/* What libraries get wrong instead of refusing it. */
static int check_sizes(struct core_object *pd, const struct ibv_qp_cap *cap, const struct dv_device_attr *device)
{
    if (!cap->max_recv_sge) {
        PyErr_SetString(PyExc_ValueError, "max_recv_sge must be at least 1: libefa divides by it");
        return -1;
    }
    if ((uint64_t)cap->max_recv_sge * cap->max_recv_wr <= device->max_rq_wr || cap->max_recv_sge > device->max_rq_sge)
        return 0;
    core_raise_method(pd, EINVAL, "create_qp", "max_recv_wr=%u is too deep: with max_recv_sge=%u the device holds %u",
                      cap->max_recv_wr, cap->max_recv_sge, device->max_rq_wr / cap->max_recv_sge);
    return -1;
}

/* ---- why it was refused ------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list values;

    if (used && used < size - 2) {
        memcpy(text + used, ", ", 3);
        used += 2;
    }
    va_start(values, format);
    vsnprintf(text + used, size - used, format, values);
    va_end(values);
}

static void append_excess(char *text, size_t size, const char *name, uint32_t asked, const char *limit, uint32_t most)
{
    if (asked > most)
        append(text, size, "%s=%u is over the device's %s=%u", name, asked, limit, most);
}

/* How deep the queues could be with these entries and this much inline, where the library can tell. Without the GIL. */
static void append_depths(char *text, size_t size, struct ibv_context *context, const struct request *request)
{
    const struct ibv_qp_cap *cap = &request->attr.cap;
    bool inline_write = request->efa.flags & DV_QP_INLINE_WRITE;
    struct dv_sq_depth_attr sq = {
        .flags = inline_write ? DV_SQ_DEPTH_INLINE_WRITE : 0,
        .max_send_sge = cap->max_send_sge,
        .max_rdma_sge = EFA_RDMA_SGE,
        .max_inline_data = cap->max_inline_data,
    };
    struct dv_rq_depth_attr rq = {.max_recv_sge = cap->max_recv_sge};
    int depth;

    depth = efadv.get_max_sq_depth ? efadv.get_max_sq_depth(context, &sq, sizeof sq) : -1;
    if (depth > 0 && cap->max_send_wr > (uint32_t)depth)
        append(text, size, "max_send_wr=%u is too deep: with max_send_sge=%u and max_inline_data=%u%s the device holds %d",
               cap->max_send_wr, cap->max_send_sge, cap->max_inline_data, inline_write ? " in writes too" : "", depth);
    depth = efadv.get_max_rq_depth && rq.max_recv_sge ? efadv.get_max_rq_depth(context, &rq, sizeof rq) : -1;
    if (depth > 0 && cap->max_recv_wr > (uint32_t)depth)
        append(text, size, "max_recv_wr=%u is too deep: with max_recv_sge=%u the device holds %d", cap->max_recv_wr,
               cap->max_recv_sge, depth);
}

static void explain_refusal(char *text, size_t size, struct ibv_context *context, const struct dv_device_attr *device,
                            const struct request *request)
{
    const struct ibv_qp_cap *cap = &request->attr.cap;
    uint64_t unavailable = request->attr.send_ops_flags & ~available_ops(request->attr.qp_type, device);

    append_excess(text, size, "max_send_sge", cap->max_send_sge, "max_sq_sge", device->max_sq_sge);
    append_excess(text, size, "max_recv_sge", cap->max_recv_sge, "max_rq_sge", device->max_rq_sge);
    append_excess(text, size, "max_inline_data", cap->max_inline_data, "inline_buf_size",
                  device->inline_buf_size_ex);
    append_depths(text, size, context, request);
    if (!strstr(text, "max_send_wr"))
        append_excess(text, size, "max_send_wr", cap->max_send_wr, "max_sq_wr", device->max_sq_wr);
    if (!strstr(text, "max_recv_wr"))
        append_excess(text, size, "max_recv_wr", cap->max_recv_wr, "max_rq_wr", device->max_rq_wr);
    if (unavailable)
        append(text, size, "send_ops_flags 0x%llx are not for this type of queue pair, device or library",
               (unsigned long long)unavailable);
    if (request->efa.sl && !efadv.query_cq)
        append(text, size, "sl=%u needs rdma-core 55", request->efa.sl);
}

/* ---- making ------------------------------------------------------------------------------------------------------------- */

/* The queue pair with its builders; NULL with an errno. Without the GIL. */
static struct ibv_qp *create(struct ibv_context *context, struct request *request, struct efa_qp *self, int *ret_err)
{
    struct ibv_qp *qp;

    errno = 0;
    if (request->attr.qp_type == IBV_QPT_UD)
        qp = verbs_create_qp_ex(context, &request->attr);
    else
        qp = efadv.create_qp_ex(context, &request->attr, &request->efa, sizeof request->efa);
    if (!qp) {
        *ret_err = verbs_last_errno();
        return NULL;
    }
    self->ex = verbs.qp_to_qp_ex ? verbs.qp_to_qp_ex(qp) : NULL;
    if (!self->ex) { /* a library that forgot what it was asked for */
        verbs.destroy_qp(qp);
        *ret_err = EOPNOTSUPP;
        return NULL;
    }
    if (request->efa.wr_flags)
        self->dv = efadv.qp_from_ibv_qp_ex(self->ex);
    *ret_err = 0;
    return qp;
}

/* The device that queue pairs of this package can be made on; NULL with an exception for another. */
static const struct dv_device_attr *efa_device(struct efa_context *context)
{
    const struct dv_device_attr *device;

    if (efa_context_ask(context, "query_efa_device", &device) < 0)
        return NULL;
    if (!device)
        core_raise_format(context->core.base.state, EOPNOTSUPP, "PD.create_qp",
                          "%s is not an EFA device: the package ibverbs makes queue pairs on others",
                          context->core.name);
    return device;
}

static const struct core_params create_qp_params = {"PD.create_qp", 1, 1, {CORE_NAME_init_attr}};

PyObject *efa_pd_create_qp(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_object *pd = (struct core_object *)op;
    const struct dv_device_attr *device;
    struct request request = {0};
    struct ibv_qp_init_attr init;
    PyObject *init_attr;
    struct ibv_context *context;
    struct efa_qp *self;
    char detail[512] = "";
    struct ibv_qp *qp;
    const char *verb;
    int err;

    if (core_parse(pd->state, &create_qp_params, args, nargs, kwnames, &init_attr) < 0 ||
        core_check_open(pd, "create_qp") < 0)
        return NULL;
    device = efa_device(efa_context_of(pd));
    if (!device)
        return NULL;
    self = (struct efa_qp *)core_qp_new(pd, init_attr, IBV_QPT_DRIVER, &init, "create_qp");
    if (!self)
        return NULL;
    request.attr.qp_type = init.qp_type;
    request.attr.cap = init.cap;
    request.attr.sq_sig_all = init.sq_sig_all;
    request.attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if (init.qp_type != IBV_QPT_DRIVER && init.qp_type != IBV_QPT_UD) {
        PyErr_Format(PyExc_ValueError, "qp_type must be SRD (%d) or UD (%d), got %d", IBV_QPT_DRIVER, IBV_QPT_UD,
                     (int)init.qp_type);
        goto err_self;
    }
    if (read_request(efa_context_of(pd), init_attr, device, &request) < 0 || check_sizes(pd, &init.cap, device) < 0)
        goto err_self;
    if (core_qp_begin(&self->core, &init, "create_qp") < 0)
        return NULL;
    request.attr.pd = pd->handle;
    request.attr.send_cq = init.send_cq;
    request.attr.recv_cq = init.recv_cq;
    context = core_context_handle(&efa_context_of(pd)->core);
    verb = init.qp_type == IBV_QPT_UD ? "ibv_create_qp_ex" : "efadv_create_qp_ex";

    Py_BEGIN_ALLOW_THREADS
    qp = create(context, &request, self, &err);
    if (!qp)
        explain_refusal(detail, sizeof detail, context, device, &request);
    Py_END_ALLOW_THREADS
    self->core.once = true;
    self->limits = (struct efa_wr_limits){
        .ops = request.attr.send_ops_flags,
        .max_send_sge = request.attr.cap.max_send_sge,
        .max_inline_data = request.attr.cap.max_inline_data,
        .max_rdma_size = device->max_rdma_size,
        .sq_sig_all = request.attr.sq_sig_all,
        .inline_write = request.efa.flags & DV_QP_INLINE_WRITE,
        .hints = self->dv != NULL,
    };
    init.cap = request.attr.cap; /* as granted */
    return core_qp_finish(&self->core, qp, err, verb, detail, &init);

err_self:
    Py_DECREF(self);
    return NULL;
}

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

static int put_send(struct core_object *op, const struct wr_limits *ignored, PyObject *item, Py_ssize_t index,
                    struct ibv_sge *sge, uint32_t num_sge, void *place)
{
    const struct efa_send_wr *request = (struct efa_send_wr *)item;
    struct efa_qp *self = (struct efa_qp *)op;
    struct efa_wr *wr = place;
    enum efa_wr_fault fault;

    (void)ignored;
    if (core_send_ah(op, item, index, &wr->ah) < 0)
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
    CORE_TYPE_SEND_WR, "a SendWR", sizeof(struct efa_wr), core_send_list, put_send, never,
};
static const struct core_post_queue send_queue = {"post_send", "ibv_wr_complete", &sends,
                                                  true,        submit_send,       core_qp_explain_send};

static PyObject *qp_post_send(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
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
    CORE_TYPE_RECV_WR, "a RecvWR", sizeof(struct ibv_recv_wr), core_recv_list, put_recv, core_receives_are_self_contained,
};
static const struct core_post_queue recv_queue = {"post_recv", "ibv_post_recv",     &receives,
                                                  false,       core_qp_submit_recv, core_qp_explain_recv};

static PyObject *qp_post_recv(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return core_qp_post_recv(self, args, nargs, kwnames, &recv_queue);
}

/* ---- the states --------------------------------------------------------------------------------------------------------- */

static int to_init(struct core_qp *self, uint32_t qkey, uint8_t port, uint16_t pkey_index, const char *method)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .qkey = qkey, .port_num = port, .pkey_index = pkey_index};

    return core_qp_modify(self, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, method);
}

static int to_rtr(struct core_qp *self, const char *method)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

    return core_qp_modify(self, &attr, IBV_QP_STATE, method);
}

/* rnr_retry: -1 where it is left to the device. */
static int to_rts(struct core_qp *self, uint32_t psn, int rnr_retry, const char *method)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = psn};
    uint32_t mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (rnr_retry >= 0) {
        attr.rnr_retry = (uint8_t)rnr_retry;
        mask |= IBV_QP_RNR_RETRY;
    }
    return core_qp_modify(self, &attr, mask, method);
}

/* An rnr_retry that was given, else -1; refused where the device cannot be told it. */
static int read_rnr_retry(struct core_qp *self, PyObject *value, const char *method, int *ret)
{
    struct efa_context *context = efa_context_of(&self->base);
    const struct dv_device_attr *device;
    uint64_t number;

    *ret = -1;
    if (!value || value == Py_None)
        return 0;
    if (core_integer(self->base.state, value, "rnr_retry", 0, 7, &number) < 0 ||
        core_check_open(&self->base, method) < 0 || efa_context_ask(context, method, &device) < 0)
        return -1;
    if (device && !(device->device_caps & DV_CAP_RNR_RETRY)) {
        core_raise_unsupported_format(self->base.state, "ibv_modify_qp", "rnr_retry=%d: device %s cannot be told it",
                                      (int)number, context->core.name);
        return -1;
    }
    *ret = (int)number;
    return 0;
}

static const struct core_params to_init_params = {
    "QP.to_init", 3, 1, {CORE_NAME_qkey, CORE_NAME_port, CORE_NAME_pkey_index}};

static PyObject *qp_to_init(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_qp *self = (struct core_qp *)op;
    struct core_state *state = self->base.state;
    uint16_t pkey_index = 0;
    PyObject *values[3];
    uint8_t port = 1;
    uint32_t qkey;

    if (core_parse(state, &to_init_params, args, nargs, kwnames, values) < 0 ||
        core_u32(state, values[0], "qkey", &qkey) < 0 || (values[1] && core_u8(state, values[1], "port", &port) < 0) ||
        (values[2] && core_u16(state, values[2], "pkey_index", &pkey_index) < 0) ||
        to_init(self, qkey, port, pkey_index, "to_init") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *qp_to_rtr(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    if (to_rtr((struct core_qp *)self, "to_rtr") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static const struct core_params to_rts_params = {"QP.to_rts", 2, 0, {CORE_NAME_psn, CORE_NAME_rnr_retry}};

static PyObject *qp_to_rts(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_qp *self = (struct core_qp *)op;
    struct core_state *state = self->base.state;
    PyObject *values[2];
    uint64_t psn = 0;
    int rnr_retry;

    if (core_parse(state, &to_rts_params, args, nargs, kwnames, values) < 0 ||
        (values[0] && core_integer(state, values[0], "psn", 0, WR_PSN_MOST, &psn) < 0) ||
        read_rnr_retry(self, values[1], "to_rts", &rnr_retry) < 0 ||
        to_rts(self, (uint32_t)psn, rnr_retry, "to_rts") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static const struct core_params prepare_params = {
    "QP.prepare", 4, 1, {CORE_NAME_qkey, CORE_NAME_port, CORE_NAME_psn, CORE_NAME_rnr_retry}};

static PyObject *qp_prepare(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_qp *self = (struct core_qp *)op;
    struct core_state *state = self->base.state;
    PyObject *values[4];
    uint64_t psn = 0;
    uint8_t port = 1;
    uint32_t qkey;
    int rnr_retry;

    if (core_parse(state, &prepare_params, args, nargs, kwnames, values) < 0 ||
        core_u32(state, values[0], "qkey", &qkey) < 0 || (values[1] && core_u8(state, values[1], "port", &port) < 0) ||
        (values[2] && core_integer(state, values[2], "psn", 0, WR_PSN_MOST, &psn) < 0) ||
        read_rnr_retry(self, values[3], "prepare", &rnr_retry) < 0)
        return NULL;
    if (to_init(self, qkey, port, 0, "prepare") < 0 || to_rtr(self, "prepare") < 0 ||
        to_rts(self, (uint32_t)psn, rnr_retry, "prepare") < 0)
        return NULL;
    Py_INCREF(op);
    return op;
}

/* ---- the verbs themselves ----------------------------------------------------------------------------------------------- */

static PyObject *qp_modify(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return core_qp_method_modify(self, args, kwargs, NULL);
}

static PyObject *qp_query(PyObject *op, PyObject *ignored)
{
    static const char *const names[] = {"qp_state", "qkey", "sq_psn", "port_num", "pkey_index", "rnr_retry", NULL};
    uint32_t mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_SQ_PSN | IBV_QP_CAP;

    (void)ignored;
    if (efa_context_of((struct core_object *)op)->attr.device_caps & DV_CAP_RNR_RETRY)
        mask |= IBV_QP_RNR_RETRY;
    return core_qp_method_query(op, mask, names);
}

static PyObject *qp_query_wqs(PyObject *op, PyObject *ignored)
{
    struct core_object *self = (struct core_object *)op;
    struct dv_wq_attr send = {0}, receive = {0};
    PyObject *first, *second;
    int err;

    (void)ignored;
    if (core_check_open(self, "query_wqs") < 0)
        return NULL;
    if (!efadv.query_qp_wqs)
        return core_raise_unsupported(self->state, "libefa", "efadv_query_qp_wqs", efadv_since("efadv_query_qp_wqs"));
    err = verbs_errno(efadv.query_qp_wqs(self->handle, &send, &receive, sizeof send)); /* asks nobody but the library */
    if (err)
        return core_raise(self->state, err, "efadv_query_qp_wqs", NULL);
    first = efa_wq_attr_new(self->state, &send);
    second = first ? efa_wq_attr_new(self->state, &receive) : NULL;
    if (!second) {
        Py_XDECREF(first);
        return NULL;
    }
    return Py_BuildValue("(NN)", first, second);
}

static PyObject *qp_attach_comp_cntr(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return efa_comp_cntr_attach((struct core_object *)self, &((struct efa_qp *)self)->counters, args, nargs, kwnames);
}

/* The queue pair goes before its counters. None of them leads back to it, so the collector need not know of them. */
static void qp_dealloc(PyObject *self)
{
    PyObject *counters = ((struct efa_qp *)self)->counters;

    core_object_dealloc(self);
    Py_XDECREF(counters);
}

static PyObject *qp_get_send_ops_flags(PyObject *op, void *ignored)
{
    struct efa_qp *self = (struct efa_qp *)op;

    (void)ignored;
    return core_check_open(&self->core.base, "send_ops_flags") < 0 ? NULL
                                                                   : PyLong_FromUnsignedLongLong(self->limits.ops);
}

static PyObject *qp_repr(PyObject *self)
{
    return core_qp_repr(self, ((struct core_qp *)self)->limits.qp_type == IBV_QPT_UD ? "UD" : "SRD");
}

/* ---- the class ----------------------------------------------------------------------------------------------------------- */

static PyMethodDef qp_methods[] = {
    CORE_LIFETIME_METHODS,
    CORE_METHOD("post_send", qp_post_send,
                "post_send($self, wrs)\n--\n\n"
                "Post one SendWR, or every one of an iterable: all of them or none. ibv_wr_start, ibv_wr_complete."),
    CORE_METHOD("post_recv", qp_post_recv,
                "post_recv($self, wrs)\n--\n\n"
                "Post one RecvWR, or every one of an iterable, to the receive queue. ibv_post_recv."),
    CORE_METHOD("prepare", qp_prepare,
                "prepare($self, qkey, port=1, psn=0, rnr_retry=None)\n--\n\n"
                "Take the queue pair from RESET to RTS and return it. ibv_modify_qp, three times."),
    CORE_METHOD("to_init", qp_to_init,
                "to_init($self, qkey, port=1, pkey_index=0)\n--\n\n"
                "Take the queue pair from RESET to INIT. ibv_modify_qp."),
    {"to_rtr", qp_to_rtr, METH_NOARGS,
     "to_rtr($self)\n--\n\nTake the queue pair from INIT to RTR. ibv_modify_qp."},
    CORE_METHOD("to_rts", qp_to_rts,
                "to_rts($self, psn=0, rnr_retry=None)\n--\n\n"
                "Take the queue pair from RTR to RTS. ibv_modify_qp."),
    {"modify", (PyCFunction)(void (*)(void))qp_modify, METH_VARARGS | METH_KEYWORDS,
     "modify($self, attr_mask, **fields)\n--\n\n"
     "Set those fields of struct ibv_qp_attr that attr_mask names. ibv_modify_qp."},
    {"query", qp_query, METH_NOARGS,
     "query($self)\n--\n\nReturn a dict of the fields of struct ibv_qp_attr that EFA has, and a QPCap. ibv_query_qp."},
    CORE_METHOD("attach_comp_cntr", qp_attach_comp_cntr,
                "attach_comp_cntr($self, cntr, ops)\n--\n\n"
                "Have a CompCntr count what completes, CompCntrOps bits say what. ibv_qp_attach_comp_cntr."),
    {"query_wqs", qp_query_wqs, METH_NOARGS,
     "query_wqs($self)\n--\n\nReturn the rings behind the send and the receive queue, as WQAttr. efadv_query_qp_wqs."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef qp_getset[] = {
    CORE_LIFETIME_GETSET,
    CORE_QP_GETSET,
    {"send_ops_flags", qp_get_send_ops_flags, NULL, "The operations that it was made for: QPExSendOpsFlags bits.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef qp_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot qp_slots[] = {
    {Py_tp_doc, "QP()\n--\n\nA queue pair; PD.create_qp() makes one."},
    {Py_tp_new, core_qp_no_constructor},
    {Py_tp_traverse, core_object_traverse},
    {Py_tp_dealloc, qp_dealloc},
    {Py_tp_repr, qp_repr},
    {Py_tp_methods, qp_methods},
    {Py_tp_getset, qp_getset},
    {Py_tp_members, qp_members},
    {0, NULL},
};

const PyType_Spec efa_qp_spec = {
    .basicsize = sizeof(struct efa_qp),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = qp_slots,
};
