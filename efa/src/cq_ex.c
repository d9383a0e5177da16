/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.CQEx and Context.create_cq_ex(): completion queues that are read field by field. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "classes.h"
#include "efa_context.h"
#include "efa_cq.h"
#include "error.h"
#include "makers.h"
#include "verbs.h"

#define STANDARD_FLAGS IBV_WC_STANDARD_FLAGS

/* ---- polling --------------------------------------------------------------------------------------------------------- */

static inline struct ibv_cq_ex *handle_of(const struct core_cq *self)
{
    return self->base.handle;
}

/* What only a receive tells; of a send these fields are others' bytes, or nothing. */
static void read_receive(struct efa_cq_ex *self, struct ibv_cq_ex *cq, uint32_t at)
{
    struct ibv_wc *wc = &self->base.core.ready[at];
    struct efa_wc_extra *extra = &self->extra[at];
    union ibv_gid gid;

    wc->wc_flags = cq->read_wc_flags(cq);
    if (self->wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
        wc->byte_len = cq->read_byte_len(cq);
    if (self->wc_flags & IBV_WC_EX_WITH_IMM && wc->wc_flags & IBV_WC_WITH_IMM)
        wc->imm_data = cq->read_imm_data(cq);
    if (self->wc_flags & IBV_WC_EX_WITH_SRC_QP)
        wc->src_qp = cq->read_src_qp(cq);
    if (self->wc_flags & IBV_WC_EX_WITH_SLID)
        wc->slid = (uint16_t)cq->read_slid(cq);
    if (self->wc_flags & IBV_WC_EX_WITH_SL)
        wc->sl = cq->read_sl(cq);
    if (self->wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
        wc->dlid_path_bits = cq->read_dlid_path_bits(cq);
    if (self->sgid && self->dv->wc_read_sgid(self->dv, &gid) == 0)
        memcpy(extra->sgid, gid.raw, sizeof extra->sgid);
    if (self->unsolicited)
        extra->unsolicited = self->dv->wc_is_unsolicited(self->dv);
}

/* The completion that the iterator stands on. Only what creation bought may be read: the rest are NULL. */
static inline void read_current(struct efa_cq_ex *self, struct ibv_cq_ex *cq, uint32_t at)
{
    struct ibv_wc *wc = &self->base.core.ready[at];

    wc->wr_id = cq->wr_id;
    wc->status = cq->status;
    wc->opcode = cq->read_opcode(cq);
    if (wc->status != IBV_WC_SUCCESS)
        wc->vendor_err = cq->read_vendor_err(cq);
    if (self->wc_flags & IBV_WC_EX_WITH_QP_NUM || at >= CORE_CQ_LEAVE_AT)
        wc->qp_num = cq->read_qp_num(cq);
    if (self->tells_more)
        memset(&self->extra[at], 0, sizeof self->extra[at]);
    if (wc->opcode & IBV_WC_RECV)
        read_receive(self, cq, at);
}

/* Reads on while the iterator is open, which holds the queue's lock: into `ready` from `at` on, up to `end`. */
static uint32_t read_all(struct efa_cq_ex *self, uint32_t at, uint32_t end, bool one_by_one)
{
    struct ibv_cq_ex *cq = handle_of(&self->base.core);
    int err = 0;

    while (!err) {
        read_current(self, cq, at);
        if (++at == end || one_by_one)
            break;
        do
            err = cq->next_poll(cq);
        while (err == EINVAL && efadv_release.skips_stale); /* one whose queue pair is gone: on to the next */
    }
    cq->end_poll(cq);
    return at;
}

/*
 * Completions of destroyed queue pairs are passed over: each is an EINVAL. Before rdma-core 59 next_poll and end_poll
 * after such a one hand the previous request back a second time, so there the iterator is opened anew for each
 * completion as soon as a queue pair of the queue was destroyed.
 */
static int reap_library(struct core_cq *op, uint32_t at, uint32_t most, uint32_t *ret_found)
{
    struct efa_cq_ex *self = (struct efa_cq_ex *)op;
    struct ibv_poll_cq_attr attr = {0};
    struct ibv_cq_ex *cq = handle_of(op);
    uint32_t next = at, end = at + most, stale = 0;

    if (self->unreadable)
        return ENODATA;
    while (next < end) {
        int err = cq->start_poll(cq, &attr);
        /* Asked under the queue's lock: whoever destroys a queue pair tells us, and then takes that. */
        bool lost_qps = __atomic_load_n(&op->lost_qps, __ATOMIC_RELAXED);
        bool one_by_one = lost_qps && !efadv_release.skips_stale;

        if (err == EINVAL && lost_qps && stale++ <= (uint32_t)core_cq_handle(op)->cqe)
            continue;
        if (err == ENOENT || (err && next > at)) /* the error comes again with the next call */
            break;
        if (err)
            return verbs_errno(err);
        next = read_all(self, next, end, one_by_one);
        if (!one_by_one)
            break;
    }
    *ret_found = next - at;
    return 0;
}

static int reap(struct core_cq *op, uint32_t at, uint32_t most, uint32_t *ret_found)
{
    struct efa_cq_ex *self = (struct efa_cq_ex *)op;
    struct ibv_wc *wc = &op->ready[at];

    if (efa_spill_has_any(&self->base.spill)) {
        *ret_found = efa_spill_take(&self->base.spill, wc, &self->extra[at], most);
        for (uint32_t i = 0; i < *ret_found && !(self->wc_flags & IBV_WC_EX_WITH_QP_NUM); i++)
            wc[i].qp_num = 0; /* which only we asked for */
        if (*ret_found)
            return 0;
    }
    return reap_library(op, at, most, ret_found);
}

static void leave(struct core_cq *op, uint32_t qp_num, bool gone)
{
    struct efa_cq_ex *self = (struct efa_cq_ex *)op;

    if (!self->unreadable)
        efa_cq_spill(&self->base, reap_library, self->extra);
    if (gone)
        efa_spill_drop(&self->base.spill, qp_num);
}

static void add(struct core_cq *self, uint32_t at, PyObject *wc)
{
    const struct efa_cq_ex *cq = (struct efa_cq_ex *)self;

    if (cq->tells_more)
        ((struct efa_wc *)wc)->extra = cq->extra[at];
    else
        memset(&((struct efa_wc *)wc)->extra, 0, sizeof(struct efa_wc_extra));
}

static const struct core_cq_source source = {"ibv_start_poll", reap, add, true, leave};

/* ---- making ----------------------------------------------------------------------------------------------------------- */

enum { CQE, CHANNEL, COMP_VECTOR, WC_FLAGS, SGID, UNSOLICITED, DMABUF_FD, DMABUF_OFFSET, DMABUF_LENGTH, BUFFER, PARAMS };

static const struct core_params create_cq_ex_params = {
    "Context.create_cq_ex",
    PARAMS,
    1,
    {CORE_NAME_cqe, CORE_NAME_channel, CORE_NAME_comp_vector, CORE_NAME_wc_flags, CORE_NAME_sgid, CORE_NAME_unsolicited,
     CORE_NAME_dmabuf_fd, CORE_NAME_dmabuf_offset, CORE_NAME_dmabuf_length, CORE_NAME_buffer}};

/* The queue's own memory, in a dma-buf; nothing where no descriptor is given. */
static int read_memory(struct core_state *state, PyObject **values, struct dv_cq_init_attr *ret)
{
    uint64_t fd, addr = 0;

    if (!values[DMABUF_FD] || values[DMABUF_FD] == Py_None)
        return 0;
    if (core_integer(state, values[DMABUF_FD], "dmabuf_fd", 0, INT_MAX, &fd) < 0 ||
        (values[DMABUF_OFFSET] &&
         core_u64(state, values[DMABUF_OFFSET], "dmabuf_offset", &ret->ext_mem_dmabuf.offset) < 0) ||
        (values[DMABUF_LENGTH] &&
         core_u64(state, values[DMABUF_LENGTH], "dmabuf_length", &ret->ext_mem_dmabuf.length) < 0) ||
        (values[BUFFER] && core_u64(state, values[BUFFER], "buffer", &addr) < 0))
        return -1;
    ret->flags = DV_CQ_EXT_MEM_DMABUF;
    ret->ext_mem_dmabuf.fd = (int32_t)fd;
    ret->ext_mem_dmabuf.buffer = (uint8_t *)(uintptr_t)addr;
    return 0;
}

static int read_wanted(struct core_state *state, PyObject **values, struct ibv_cq_init_attr_ex *attr,
                       struct dv_cq_init_attr *efa)
{
    int sgid = values[SGID] ? PyObject_IsTrue(values[SGID]) : 0;
    int unsolicited = values[UNSOLICITED] && sgid >= 0 ? PyObject_IsTrue(values[UNSOLICITED]) : 0;
    uint64_t flags = STANDARD_FLAGS;

    if (sgid < 0 || unsolicited < 0)
        return -1;
    if (values[WC_FLAGS] && values[WC_FLAGS] != Py_None) {
        if (core_u64(state, values[WC_FLAGS], "wc_flags", &flags) < 0)
            return -1;
        if (flags & ~(uint64_t)STANDARD_FLAGS) {
            PyErr_Format(PyExc_ValueError, "wc_flags may have the bits of CreateCQWCFlags.STANDARD (0x%x), got %s",
                         STANDARD_FLAGS, core_hex(flags).text);
            return -1;
        }
    }
    attr->wc_flags = flags;
    efa->wc_flags = (sgid ? DV_WC_WITH_SGID : 0u) | (unsolicited ? DV_WC_WITH_IS_UNSOLICITED : 0u);
    return read_memory(state, values, efa);
}

/* Whether device and library have what is wanted beyond the ordinary; asked before, because refusals do not say. */
static int check_capable(struct efa_context *context, const struct dv_device_attr *device,
                         const struct dv_cq_init_attr *efa)
{
    static const struct {
        uint64_t wc_flag, flag;
        uint32_t cap;
        const char *what;
        unsigned since;
    } needs[] = {
        {DV_WC_WITH_SGID, 0, DV_CAP_CQ_WITH_SGID, "sgid=True", 43},
        {DV_WC_WITH_IS_UNSOLICITED, 0, DV_CAP_UNSOLICITED_WRITE_RECV, "unsolicited=True", 52},
        {0, DV_CQ_EXT_MEM_DMABUF, DV_CAP_CQ_WITH_EXT_MEM_DMABUF, "dmabuf_fd", 59},
    };

    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        if (!(efa->wc_flags & needs[i].wc_flag || efa->flags & needs[i].flag) || device->device_caps & needs[i].cap)
            continue;
        return efa_raise_unavailable(context, "efadv_create_cq", needs[i].what, needs[i].since);
    }
    return 0;
}

PyObject *efa_context_create_cq_ex(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct efa_context *context = (struct efa_context *)op;
    struct core_state *state = context->core.base.state;
    struct ibv_cq_init_attr_ex attr = {0};
    struct dv_cq_init_attr efa = {0};
    const struct dv_device_attr *device;
    struct core_cq_request request;
    char memory[112];
    PyObject *values[PARAMS];
    struct efa_cq_ex *self;
    struct ibv_cq_ex *cq;
    int err;

    if (core_parse(state, &create_cq_ex_params, args, nargs, kwnames, values) < 0 ||
        read_wanted(state, values, &attr, &efa) < 0 ||
        core_cq_read_request(&context->core, values, "create_cq_ex", &request) < 0 ||
        efa_context_ask(context, "create_cq_ex", &device) < 0)
        return NULL;
    if (!efadv.create_cq || !efadv.cq_from_ibv_cq_ex)
        return core_raise_unsupported(state, &efadv_library, "efadv_create_cq");
    if (!device)
        return core_raise_format(state, EOPNOTSUPP, "efadv_create_cq", "%s is not an EFA device", context->core.name);
    if (check_capable(context, device, &efa) < 0)
        return NULL;

    self = (struct efa_cq_ex *)core_cq_begin(&context->core, EFA_TYPE_CQ_EX, &source, &request, "create_cq_ex");
    if (!self)
        return NULL;
    attr.cqe = request.cqe;
    attr.comp_vector = request.comp_vector;
    attr.channel = request.channel ? request.channel->handle : NULL;
    self->wc_flags = attr.wc_flags;
    attr.wc_flags |= IBV_WC_EX_WITH_QP_NUM; /* for leave() */
    self->sgid = efa.wc_flags & DV_WC_WITH_SGID;
    self->unsolicited = efa.wc_flags & DV_WC_WITH_IS_UNSOLICITED;
    self->tells_more = efa.wc_flags != 0;
    self->unreadable = efa.flags && !efa.ext_mem_dmabuf.buffer;
    if (efa.flags) {
        snprintf(memory, sizeof memory, "dmabuf_fd=%d, dmabuf_offset=%llu, dmabuf_length=%llu", efa.ext_mem_dmabuf.fd,
                 (unsigned long long)efa.ext_mem_dmabuf.offset, (unsigned long long)efa.ext_mem_dmabuf.length);
        request.detail = memory;
    }

    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    cq = efadv.create_cq(context->core.base.handle, &attr, &efa, sizeof efa);
    err = cq ? 0 : verbs_last_errno();
    if (cq)
        self->dv = efadv.cq_from_ibv_cq_ex(cq);
    Py_END_ALLOW_THREADS
    return core_cq_finish(&self->base.core, cq ? ibv_cq_ex_to_cq(cq) : NULL, err, "efadv_create_cq", &request);
}

/* ---- the class -------------------------------------------------------------------------------------------------------- */

static PyObject *get_sgid_enabled(PyObject *op, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((struct efa_cq_ex *)op)->sgid);
}

static PyObject *get_unsolicited_enabled(PyObject *op, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((struct efa_cq_ex *)op)->unsolicited);
}

static PyGetSetDef cq_ex_getset[] = {
    {"sgid_enabled", get_sgid_enabled, NULL, "Whether completions tell the GID of a sender that no AH covers.", NULL},
    {"unsolicited_enabled", get_unsolicited_enabled, NULL,
     "Whether completions tell that a write with immediate used up no receive.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot cq_ex_slots[] = {
    {Py_tp_doc, "CQEx()\n--\n\nAn extended completion queue; Context.create_cq_ex() makes one."},
    {Py_tp_new, core_cq_no_constructor},
    {Py_tp_traverse, core_object_traverse},
    {Py_tp_dealloc, efa_cq_dealloc},
    {Py_tp_getset, cq_ex_getset},
    {0, NULL},
};

const PyType_Spec efa_cq_ex_spec = {
    .basicsize = sizeof(struct efa_cq_ex),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = cq_ex_slots,
};
