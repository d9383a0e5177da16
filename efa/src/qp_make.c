/* SPDX-License-Identifier: BSD-3-Clause */
/* PD.create_qp(): how an SRD or UD queue pair is made, and why one was refused. */
#include <errno.h>
#include <string.h>

#include "args.h"
#include "cause.h"
#include "efa_context.h"
#include "efa_qp.h"
#include "error.h"
#include "makers.h"
#include "verbs.h"

#define VERB "efadv_create_qp_ex"
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
    if (attr->send_ops_flags & IBV_QP_EX_WITH_RDMA_READ & ~ops && attr->qp_type != IBV_QPT_UD)
        return efa_raise_unavailable(context, VERB, "RDMA read", 27);
    if (attr->send_ops_flags & WRITE_OPS & ~ops && attr->qp_type != IBV_QPT_UD)
        return efa_raise_unavailable(context, VERB, "RDMA write", 46);
    if (unsolicited && !(device->device_caps & DV_CAP_UNSOLICITED_WRITE_RECV))
        return efa_raise_unavailable(context, VERB, "unsolicited_write_recv=True", 52);
    if (inline_write && (!efadv.get_max_sq_depth || !(device->device_caps & DV_CAP_RDMA_WRITE)))
        return efa_raise_unavailable(context, VERB, "inline_write=True", 63);
    if (hints && !efadv.qp_from_ibv_qp_ex)
        return efa_raise_unavailable(context, VERB, "processing_hints=True", 64);

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
    /* no release before 63 looks at it, nor need the kernel refuse it: inline data then run into the next request */
    if (!efadv.get_max_sq_depth && cap->max_inline_data > device->inline_buf_size_ex) {
        core_raise_method(pd, EINVAL, "create_qp",
                          "max_inline_data=%u is over the %u bytes that a request has room for before rdma-core 63",
                          cap->max_inline_data, device->inline_buf_size_ex);
        return -1;
    }
    if ((uint64_t)cap->max_recv_sge * cap->max_recv_wr <= device->max_rq_wr || cap->max_recv_sge > device->max_rq_sge)
        return 0;
    core_raise_method(pd, EINVAL, "create_qp", "max_recv_wr=%u is too deep: with max_recv_sge=%u the device holds %u",
                      cap->max_recv_wr, cap->max_recv_sge, device->max_rq_wr / cap->max_recv_sge);
    return -1;
}

/* ---- why it was refused ------------------------------------------------------------------------------------------------ */

/* How deep the queues could be with these entries and this much inline, where the library can tell. Without the GIL. */
static void add_depths(struct cause *cause, struct ibv_context *context, const struct request *request)
{
    const struct ibv_qp_cap *cap = &request->attr.cap;
    bool inline_write = request->efa.flags & DV_QP_INLINE_WRITE;
    struct dv_sq_depth_attr sq = {
        .flags = inline_write ? DV_SQ_DEPTH_INLINE_WRITE : 0,
        .max_send_sge = cap->max_send_sge,
        .max_rdma_sge = request->attr.send_ops_flags & ~(uint64_t)SEND_OPS ? EFA_RDMA_SGE : 0, /* a device may have none */
        .max_inline_data = cap->max_inline_data,
    };
    struct dv_rq_depth_attr rq = {.max_recv_sge = cap->max_recv_sge};
    int depth;

    depth = efadv.get_max_sq_depth ? efadv.get_max_sq_depth(context, &sq, sizeof sq) : -1;
    if (depth > 0 && cap->max_send_wr > (uint32_t)depth)
        cause_add(cause, "max_send_wr=%u is too deep: with max_send_sge=%u and max_inline_data=%u%s the device holds %d",
                  cap->max_send_wr, cap->max_send_sge, cap->max_inline_data, inline_write ? " in writes too" : "",
                  depth);
    depth = efadv.get_max_rq_depth && rq.max_recv_sge ? efadv.get_max_rq_depth(context, &rq, sizeof rq) : -1;
    if (depth > 0 && cap->max_recv_wr > (uint32_t)depth)
        cause_add(cause, "max_recv_wr=%u is too deep: with max_recv_sge=%u the device holds %d", cap->max_recv_wr,
                  cap->max_recv_sge, depth);
}

static void explain_refusal(struct cause *cause, struct ibv_context *context, const struct dv_device_attr *device,
                            const struct request *request)
{
    const struct ibv_qp_cap *cap = &request->attr.cap;
    uint64_t unavailable = request->attr.send_ops_flags & ~available_ops(request->attr.qp_type, device);

    cause_of_excess(cause, "max_send_sge", cap->max_send_sge, "max_sq_sge", device->max_sq_sge);
    cause_of_excess(cause, "max_recv_sge", cap->max_recv_sge, "max_rq_sge", device->max_rq_sge);
    cause_of_excess(cause, "max_inline_data", cap->max_inline_data, "inline_buf_size_ex", device->inline_buf_size_ex);
    add_depths(cause, context, request);
    if (!strstr(cause->text, "max_send_wr"))
        cause_of_excess(cause, "max_send_wr", cap->max_send_wr, "max_sq_wr", device->max_sq_wr);
    if (!strstr(cause->text, "max_recv_wr"))
        cause_of_excess(cause, "max_recv_wr", cap->max_recv_wr, "max_rq_wr", device->max_rq_wr);
    if (unavailable)
        cause_add(cause, "send_ops_flags 0x%llx are not for this type of queue pair, device or library",
                  (unsigned long long)unavailable);
    if (request->efa.sl && !efadv.query_cq)
        cause_add(cause, "sl=%u needs rdma-core 55", request->efa.sl);
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
    struct cause cause = {0};
    struct efa_qp *self;
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
    verb = init.qp_type == IBV_QPT_UD ? "ibv_create_qp_ex" : VERB;

    Py_BEGIN_ALLOW_THREADS
    qp = create(context, &request, self, &err);
    if (!qp)
        explain_refusal(&cause, context, device, &request);
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
    return core_qp_finish(&self->core, qp, err, verb, cause.text, &init);

err_self:
    Py_DECREF(self);
    return NULL;
}
