/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SendWR: a send request. Its fields lie side by side, not overlaid as in struct ibv_send_wr; posting copies them and
 * never writes to the object. The class is the module's, which chooses the parameters; rows and functions are shared.
 */
#ifndef CORE_SEND_WR_H
#define CORE_SEND_WR_H

#include "field.h"
#include "state.h"
#include "wr.h"

struct core_send_wr {
    PyObject_HEAD
    struct wr_send fields;
    PyObject *sg_list; /* as sge.h says */
    PyObject *ah;      /* an AH, or NULL */
};

/* Name, largest value and meaning of every integer field: those of all packages, and those of atomics. */
#define CORE_SEND_WR_FIELDS(X)                                                                                         \
    X(wr_id, UINT64_MAX, "A number of the program's own, which the completion carries.")                               \
    X(opcode, UINT32_MAX, "What to do, a WROpcode value.")                                                             \
    X(send_flags, 0x1f, "SendFlags bits.")                                                                             \
    X(remote_addr, UINT64_MAX, "Where at the peer, for RDMA and atomics.")                                             \
    X(rkey, UINT32_MAX, "The peer's key for that memory.")                                                             \
    X(imm_data, UINT32_MAX, "An integer that the peer's completion carries, for the _WITH_IMM opcodes.")               \
    X(remote_qpn, WR_QPN_MOST, "The destination's queue pair number, for datagrams.")                                  \
    X(remote_qkey, UINT32_MAX, "The destination's Q_Key, for datagrams.")
#define CORE_SEND_WR_ATOMIC_FIELDS(X)                                                                                  \
    X(compare_add, UINT64_MAX, "What an atomic compares with, or adds.")                                               \
    X(swap, UINT64_MAX, "What an atomic compare-and-swap stores.")

enum core_send_wr_index {
#define CORE_SEND_WR_INDEX(name, most, doc) CORE_SEND_WR_##name,
    CORE_SEND_WR_FIELDS(CORE_SEND_WR_INDEX) CORE_SEND_WR_ATOMIC_FIELDS(CORE_SEND_WR_INDEX)
#undef CORE_SEND_WR_INDEX
        CORE_SEND_WR_FIELD_COUNT
};

extern const struct core_field core_send_wr_fields[CORE_SEND_WR_FIELD_COUNT];

/* A new object from arguments that were parsed: `values[i]` goes to the attribute `names[i]`, NULL is left alone. */
PyObject *core_send_wr_new(struct core_state *state, PyTypeObject *type, const uint8_t *names, PyObject **values,
                           int count);

PyObject *core_send_wr_get_sg_list(PyObject *self, void *ignored);
int core_send_wr_set_sg_list(PyObject *self, PyObject *value, void *ignored);
PyObject *core_send_wr_get_ah(PyObject *self, void *ignored);
int core_send_wr_set_ah(PyObject *self, PyObject *value, void *ignored);
int core_send_wr_traverse(PyObject *self, visitproc visit, void *arg);
int core_send_wr_clear(PyObject *self);
void core_send_wr_dealloc(PyObject *self);
PyObject *core_send_wr_repr(PyObject *self);

#define CORE_SEND_WR_ROW(name, most, doc)                                                                              \
    {#name, core_field_get, core_field_set, doc, (void *)&core_send_wr_fields[CORE_SEND_WR_##name]},
#define CORE_SEND_WR_SG_LIST_ROW                                                                                       \
    {"sg_list", core_send_wr_get_sg_list, core_send_wr_set_sg_list, "The list of SGEs; it may be changed.", NULL}
#define CORE_SEND_WR_AH_ROW                                                                                            \
    {"ah", core_send_wr_get_ah, core_send_wr_set_ah, "The destination's address handle, for datagrams.", NULL}

#define CORE_SEND_WR_SLOTS                                                                                             \
    {Py_tp_traverse, core_send_wr_traverse}, {Py_tp_clear, core_send_wr_clear},                                        \
        {Py_tp_dealloc, core_send_wr_dealloc}, {Py_tp_repr, core_send_wr_repr}

#endif
