/* SPDX-License-Identifier: BSD-3-Clause */
/* The classes of what libefa's queries say. See attrs.h. */
#include "attrs.h"

#include "classes.h"
#include "field.h"

#define NUMBER CORE_FIELD_UNSIGNED

struct device_attr {
    PyObject_HEAD
    struct dv_device_attr attr;
};

#define DEVICE_ATTR(X, o)                                                                                              \
    X(o, max_sq_wr, max_sq_wr, NUMBER, "Requests that a send queue can hold.")                                         \
    X(o, max_rq_wr, max_rq_wr, NUMBER, "Receives of one entry that a receive queue can hold.")                         \
    X(o, max_sq_sge, max_sq_sge, NUMBER, "Entries that a send can have.")                                              \
    X(o, max_rq_sge, max_rq_sge, NUMBER, "Entries that a receive can have.")                                           \
    X(o, inline_buf_size, inline_buf_size, NUMBER, "Bytes that a request of the ordinary size can carry inline.")      \
    X(o, device_caps, device_caps, NUMBER, "What device and library can do together: EfaDeviceCaps bits.")             \
    X(o, max_rdma_size, max_rdma_size, NUMBER, "Bytes that one RDMA request can move.")                                \
    X(o, inline_buf_size_ex, inline_buf_size_ex, NUMBER, "Bytes that a request of twice that size can carry inline.")

CORE_ATTR_CLASS(device_attr, DEVICE_ATTR)

static PyType_Slot device_attr_slots[] = {
    {Py_tp_doc, "EfaDeviceAttr(*values, **fields)\n--\n\n"
                "Limits and capabilities of an EFA device; Context.query_efa_device() gives them. efadv_query_device."},
    CORE_ATTR_SLOTS(device_attr),
    {0, NULL},
};

const PyType_Spec efa_device_attr_spec = {
    .basicsize = sizeof(struct device_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = device_attr_slots,
};

PyObject *efa_device_attr_new(struct core_state *state, const struct dv_device_attr *attr)
{
    return core_attr_new(state, EFA_TYPE_DEVICE_ATTR, attr, sizeof *attr);
}

struct mr_attr {
    PyObject_HEAD
    struct dv_mr_attr attr;
};

#define MR_ATTR(X, o)                                                                                                  \
    X(o, ic_id_validity, ic_id_validity, NUMBER, "Which of the others mean something: 1 recv, 2 read, 4 recv of RDMA.") \
    X(o, recv_ic_id, recv_ic_id, NUMBER, "The interconnect that data of receives comes in by.")                        \
    X(o, rdma_read_ic_id, rdma_read_ic_id, NUMBER, "The interconnect that RDMA reads fetch data by.")                  \
    X(o, rdma_recv_ic_id, rdma_recv_ic_id, NUMBER, "The interconnect that RDMA reads put data in by.")

CORE_ATTR_CLASS(mr_attr, MR_ATTR)

static PyType_Slot mr_attr_slots[] = {
    {Py_tp_doc, "MRAttr(*values, **fields)\n--\n\n"
                "Which interconnects reach a memory region; MR.query_efa() gives them. efadv_query_mr."},
    CORE_ATTR_SLOTS(mr_attr),
    {0, NULL},
};

const PyType_Spec efa_mr_attr_spec = {
    .basicsize = sizeof(struct mr_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = mr_attr_slots,
};

PyObject *efa_mr_attr_new(struct core_state *state, const struct dv_mr_attr *attr)
{
    return core_attr_new(state, EFA_TYPE_MR_ATTR, attr, sizeof *attr);
}

struct cq_attr {
    PyObject_HEAD
    struct dv_cq_attr attr;
};

#define CQ_ATTR(X, o)                                                                                                  \
    X(o, buffer_addr, buffer, NUMBER, "Where the ring lies in this process.")                                          \
    X(o, entry_size, entry_size, NUMBER, "Bytes of an entry.")                                                         \
    X(o, num_entries, num_entries, NUMBER, "Entries of the ring.")                                                     \
    X(o, doorbell_addr, doorbell, NUMBER, "Where its doorbell lies; 0 where it has none.")

CORE_ATTR_CLASS(cq_attr, CQ_ATTR)

static PyType_Slot cq_attr_slots[] = {
    {Py_tp_doc, "CQAttr(*values, **fields)\n--\n\n"
                "The ring behind a completion queue; CQ.query_efa() gives it. efadv_query_cq."},
    CORE_ATTR_SLOTS(cq_attr),
    {0, NULL},
};

const PyType_Spec efa_cq_attr_spec = {
    .basicsize = sizeof(struct cq_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = cq_attr_slots,
};

PyObject *efa_cq_attr_new(struct core_state *state, const struct dv_cq_attr *attr)
{
    return core_attr_new(state, EFA_TYPE_CQ_ATTR, attr, sizeof *attr);
}

struct wq_attr {
    PyObject_HEAD
    struct dv_wq_attr attr;
};

#define WQ_ATTR(X, o)                                                                                                  \
    X(o, buffer_addr, buffer, NUMBER, "Where the ring lies in this process.")                                          \
    X(o, entry_size, entry_size, NUMBER, "Bytes of an entry.")                                                         \
    X(o, num_entries, num_entries, NUMBER, "Entries of the ring.")                                                     \
    X(o, doorbell_addr, doorbell, NUMBER, "Where its doorbell lies.")                                                  \
    X(o, max_batch, max_batch, NUMBER, "Entries that one ring of the doorbell may announce.")                          \
    X(o, caps, caps, NUMBER, "1: requests carry numbers of 64 bits.")

CORE_ATTR_CLASS(wq_attr, WQ_ATTR)

static PyType_Slot wq_attr_slots[] = {
    {Py_tp_doc, "WQAttr(*values, **fields)\n--\n\n"
                "The ring behind a send or receive queue; QP.query_wqs() gives them. efadv_query_qp_wqs."},
    CORE_ATTR_SLOTS(wq_attr),
    {0, NULL},
};

const PyType_Spec efa_wq_attr_spec = {
    .basicsize = sizeof(struct wq_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = wq_attr_slots,
};

PyObject *efa_wq_attr_new(struct core_state *state, const struct dv_wq_attr *attr)
{
    return core_attr_new(state, EFA_TYPE_WQ_ATTR, attr, sizeof *attr);
}
