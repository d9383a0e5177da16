/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WC: one completion. A small object without the collector's bookkeeping; its value never changes.
 *
 * The class itself is the module's, which may add attributes; the rows and functions here are what both share.
 */
#ifndef CORE_WC_H
#define CORE_WC_H

#include <infiniband/verbs.h>

#include "field.h"
#include "state.h"

struct core_wc {
    PyObject_HEAD
    struct ibv_wc wc; /* imm_data in host byte order */
};

/* The completion that the library gave, as an object. */
PyObject *core_wc_new(struct core_state *state, const struct ibv_wc *wc);

/* Its status and where it came from, in words. */
PyObject *core_wc_describe(PyObject *wc);

/* Name and meaning of every field, in the order of struct ibv_wc. */
#define CORE_WC_FIELDS(X)                                                                                              \
    X(wr_id, "The number that the request carried.")                                                                   \
    X(status, "How it ended, a WCStatus value.")                                                                       \
    X(opcode, "What it was, a WCOpcode value.")                                                                        \
    X(vendor_err, "The device's own number for a failure.")                                                            \
    X(byte_len, "How many bytes came in, or were read.")                                                               \
    X(imm_data, "The integer that the sender gave as imm_data, where wc_flags has WITH_IMM.")                          \
    X(qp_num, "The number of the local queue pair.")                                                                   \
    X(src_qp, "The number of the sender's queue pair, on UD.")                                                         \
    X(wc_flags, "WCFlags bits.")                                                                                       \
    X(pkey_index, "Which partition key it came with, on GSI queue pairs.")                                             \
    X(slid, "The sender's local identifier, on UD.")                                                                   \
    X(sl, "The service level, on UD.")                                                                                 \
    X(dlid_path_bits, "The low bits of the LID it was sent to, on UD.")

enum core_wc_index {
#define CORE_WC_INDEX(name, doc) CORE_WC_##name,
    CORE_WC_FIELDS(CORE_WC_INDEX)
#undef CORE_WC_INDEX
        CORE_WC_FIELD_COUNT
};

extern const struct core_field core_wc_fields[CORE_WC_FIELD_COUNT];

PyObject *core_wc_get_is_success(PyObject *self, void *ignored);
PyObject *core_wc_get_status_str(PyObject *self, void *ignored);
PyObject *core_wc_method_raise_for_status(PyObject *self, PyObject *ignored);

#define CORE_WC_ROW(name, doc) {#name, core_field_get, NULL, doc, (void *)&core_wc_fields[CORE_WC_##name]},
#define CORE_WC_GETSET                                                                                                 \
    CORE_WC_FIELDS(CORE_WC_ROW)                                                                                        \
    {"is_success", core_wc_get_is_success, NULL, "Whether the request succeeded.", NULL},                              \
        {"status_str", core_wc_get_status_str, NULL, "The status in the library's words.", NULL}

#define CORE_WC_METHODS                                                                                                \
    {"raise_for_status", core_wc_method_raise_for_status, METH_NOARGS,                                                 \
     "raise_for_status($self)\n--\n\nRaise CompletionError unless the request succeeded."}

#endif
