/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WC: one completion. A small object without the collector's bookkeeping; its value never changes.
 *
 * A request that was flushed says nothing of the cause, so its completion carries the one that broke its queue pair,
 * where that was seen (core_qp_note_failure). That one carries none: the chain ends there, and so does deallocation.
 * Only completions that failed have room for it, behind the module's structure: the others cost nothing for it.
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

/* The size of the module's WC, which begins with the above; each module defines it. */
extern const size_t core_wc_size;

/*
 * A device's own number for a failure in words, and what to look for first; NULL where the module knows none. Each
 * module defines them.
 */
const char *core_wc_vendor_text(const struct ibv_wc *wc);
const char *core_wc_vendor_hint(const struct ibv_wc *wc);

/* A completion that the library gave, as an object: one that succeeded, and one that failed. */
PyObject *core_wc_new(struct core_state *state, const struct ibv_wc *wc);
PyObject *core_wc_new_failed(struct core_state *state, const struct ibv_wc *wc);

/* Where a completion that failed keeps its first error, a WC or NULL; NULL for one that succeeded. */
PyObject **core_wc_first_error(PyObject *wc);

/* Its status and where it came from, in words; of a flushed request also what broke its queue pair. */
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

PyObject *core_wc_construct(PyTypeObject *type, PyObject *args, PyObject *kwargs, const struct core_record *record);
PyObject *core_wc_repr(PyObject *self, const struct core_record *record);
PyObject *core_wc_reduce(PyObject *self, const struct core_record *record);
void core_wc_dealloc(PyObject *self);
PyObject *core_wc_get_first_error(PyObject *self, void *ignored);
PyObject *core_wc_get_is_success(PyObject *self, void *ignored);
PyObject *core_wc_get_status_str(PyObject *self, void *ignored);
PyObject *core_wc_method_raise_for_status(PyObject *self, PyObject *ignored);

#define CORE_WC_ROW(name, doc) {#name, core_field_get, NULL, doc, (void *)&core_wc_fields[CORE_WC_##name]},
#define CORE_WC_GETSET                                                                                                 \
    CORE_WC_FIELDS(CORE_WC_ROW)                                                                                        \
    {"first_error", core_wc_get_first_error, NULL, "Of a flushed request: what broke its queue pair, or None.", NULL}, \
        {"is_success", core_wc_get_is_success, NULL, "Whether the request succeeded.", NULL},                          \
        {"status_str", core_wc_get_status_str, NULL, "The status in the library's words.", NULL}

#define CORE_WC_METHODS                                                                                                \
    {"raise_for_status", core_wc_method_raise_for_status, METH_NOARGS,                                                 \
     "raise_for_status($self)\n--\n\nRaise CompletionError unless the request succeeded."}

/* The functions and slots of the class. */
#define CORE_WC_FUNCTIONS(record)                                                                                      \
    static PyObject *wc_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)                                      \
    {                                                                                                                  \
        return core_wc_construct(type, args, kwargs, &record);                                                         \
    }                                                                                                                  \
    static PyObject *wc_repr(PyObject *self)                                                                           \
    {                                                                                                                  \
        return core_wc_repr(self, &record);                                                                            \
    }                                                                                                                  \
    static PyObject *wc_reduce(PyObject *self, PyObject *ignored)                                                      \
    {                                                                                                                  \
        (void)ignored;                                                                                                 \
        return core_wc_reduce(self, &record);                                                                          \
    }                                                                                                                  \
    static PyObject *wc_compare(PyObject *self, PyObject *other, int op)                                               \
    {                                                                                                                  \
        return core_record_compare(self, other, op, &record);                                                          \
    }                                                                                                                  \
    static Py_hash_t wc_hash(PyObject *self)                                                                           \
    {                                                                                                                  \
        return core_record_hash(self, &record);                                                                        \
    }

#define CORE_WC_SLOTS                                                                                                  \
    {Py_tp_new, wc_new}, {Py_tp_dealloc, core_wc_dealloc}, {Py_tp_repr, wc_repr}, {Py_tp_richcompare, wc_compare},     \
        {Py_tp_hash, wc_hash}, {Py_tp_methods, wc_methods}

#endif
