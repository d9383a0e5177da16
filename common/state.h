/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What hangs on a module: its classes, its exceptions, and the interned names that calls are read with. First
 * member of each module's state.
 *
 * The state dies with its module, and an object can outlive both (a collected cycle, an exit). Whoever keeps a
 * pointer to it keeps the module too and lets go of that last; deallocation uses neither.
 */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include <stdbool.h>

#include "pyapi.h"

/* Every name that a parameter or an attribute looked up from C may have. */
#define CORE_NAMES(X)                                                                                                  \
    X(wrs) X(num_entries) X(solicited_only) X(nevents) X(timeout) X(raw) X(name) X(guid) X(target) X(length) X(lkey)   \
    X(rkey) X(offset) X(addr) X(access) X(iova) X(fd) X(owner) X(attr) X(init_attr) X(cqe) X(channel) X(comp_vector)   \
    X(port_num) X(index) X(ev) X(wr_id) X(sg_list) X(opcode) X(send_flags) X(remote_addr) X(imm_data) X(compare_add)   \
    X(swap) X(ah) X(remote_qpn) X(remote_qkey) X(send_cq) X(recv_cq) X(qp_type) X(max_send_wr) X(max_recv_wr)          \
    X(max_send_sge) X(max_recv_sge) X(max_inline_data) X(srq) X(sq_sig_all) X(max_wr) X(max_sge) X(srq_limit) X(port)  \
    X(pkey_index) X(qkey) X(remote) X(sgid_index) X(mtu) X(hop_limit) X(min_rnr_timer) X(max_dest_rd_atomic) X(sl)     \
    X(traffic_class) X(is_global) X(psn) X(retry_cnt) X(rnr_retry) X(max_rd_atomic) X(attr_mask) X(ah_attr)            \
    X(operation) X(err) X(detail) X(wc) X(mr) X(qp_num) X(gid) X(lid) X(posted) X(_value2member_map_) X(_inverted_)    \
    X(hold) X(dest) X(wc_flags) X(sgid) X(unsolicited) X(send_ops_flags) X(unsolicited_write_recv) X(inline_write)      \
    X(processing_hints) X(dmabuf_fd) X(dmabuf_offset) X(dmabuf_length) X(buffer) X(count_bytes) X(comp_memory) X(err_memory) X(cntr) X(ops) X(value) X(spin) X(source)

enum core_name {
#define CORE_NAME_ID(name) CORE_NAME_##name,
    CORE_NAMES(CORE_NAME_ID)
#undef CORE_NAME_ID
        CORE_NAME_COUNT
};

/* The classes that code in common/ asks for; those that only one module has are numbered by it, from CORE_TYPE_OWN on. */
enum core_type {
    CORE_TYPE_AH,
    CORE_TYPE_AH_ATTR,
    CORE_TYPE_ASYNC_EVENT,
    CORE_TYPE_CHANNEL,
    CORE_TYPE_COMPLETION_ERROR,
    CORE_TYPE_CONTEXT,
    CORE_TYPE_CQ,
    CORE_TYPE_DEVICE,
    CORE_TYPE_DEVICE_ATTR,
    CORE_TYPE_FLAG_OPS,
    CORE_TYPE_GID,
    CORE_TYPE_GID_ENTRY,
    CORE_TYPE_MR,
    CORE_TYPE_PD,
    CORE_TYPE_PORT_ATTR,
    CORE_TYPE_QP,
    CORE_TYPE_QP_CAP,
    CORE_TYPE_QP_INIT_ATTR,
    CORE_TYPE_RANGE_ERROR,
    CORE_TYPE_RECV_WR,
    CORE_TYPE_SEND_WR,
    CORE_TYPE_SGE,
    CORE_TYPE_SRQ, /* the class is one module's; QPs and events here know its objects */
    CORE_TYPE_UNSUPPORTED_ERROR,
    CORE_TYPE_VERBS_ERROR,
    CORE_TYPE_WAITER,
    CORE_TYPE_WC,
    CORE_TYPE_OWN,
    CORE_TYPE_COUNT = CORE_TYPE_OWN + 12
};

struct core_state {
    PyObject *names[CORE_NAME_COUNT];
    PyTypeObject *types[CORE_TYPE_COUNT];
};

/* One class of a module: which of the above it is, the name it goes by, and what it derives from. */
struct core_class {
    int type; /* a core_type, or one of the module's own */
    const char *name; /* "ibverbs.Gid"; must live for ever */
    const PyType_Spec *spec;
    int base;            /* a core_type, or -1 */
    PyObject **more[2];  /* further bases: where each is found, or NULL */
};

/* The definition of the module that this copy of the core is linked into; each module defines it. */
extern struct PyModuleDef core_module_def;

/* Fills an all-zero state. Returns 0, or -1 with an exception; the module's free function undoes what was done. */
int core_state_init(struct core_state *state);

/* Makes a class, keeps it in the state and adds it to the module under the last part of its name. */
int core_add_class(PyObject *module, struct core_state *state, const struct core_class *class);

int core_state_traverse(struct core_state *state, visitproc visit, void *arg);
void core_state_free(struct core_state *state);

/* The state behind a module, or behind a class that came from it or derives from one; NULL with SystemError. */
struct core_state *core_state_of_module(PyObject *module);
struct core_state *core_state_of(PyTypeObject *type);

/* The module behind such a class, borrowed; NULL with SystemError. */
PyObject *core_module_of(PyTypeObject *type);

/* Whether an object is of a class or of one derived from it. */
static inline bool core_is(const struct core_state *state, PyObject *object, enum core_type type)
{
    return Py_TYPE(object) == state->types[type] || PyType_IsSubtype(Py_TYPE(object), state->types[type]);
}

#endif
