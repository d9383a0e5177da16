/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QP: a queue pair. Keeps what it was granted, so that requests can be checked before they are posted. The class is
 * the module's: how a QP is made and taken through its states differs; posting, queries and life are shared.
 */
#ifndef CORE_QP_H
#define CORE_QP_H

#include <infiniband/verbs.h>

#include "context.h"
#include "object.h"
#include "post.h"
#include "wr.h"

struct core_qp {
    struct core_object base;
    struct core_object *send_cq; /* these three are held as parents */
    struct core_object *recv_cq;
    struct core_object *srq; /* NULL where it has receives of its own */
    struct wr_limits limits;
    uint32_t qp_num;
    uint8_t port_num; /* from the last modify that named one */
    bool sq_sig_all;
    bool once;     /* the provider cannot start it anew: what was in RTS may not come out of RESET again */
    bool was_sent; /* it has been in RTS */
    PyObject *first_error; /* the first completion since it was reset that says what went wrong: a WC, or NULL */
};

/* ---- for the module's own way of making one (qp_make.c): new, fill in init_attr, begin, its verb, finish ----------- */

/*
 * A QP without a handle in a PD, with the queues that `init` names (read by attribute), checked; an SRQ only where the
 * module has them. A qp_type of None is `default_type`, 0 for none.
 */
struct core_qp *core_qp_new(struct core_object *pd, PyObject *init, uint32_t default_type,
                            struct ibv_qp_init_attr *ret_init, const char *method);

/* Further attributes of `init`, for the module's own. Return 0 or -1 with an exception. */
int core_qp_init_number(struct core_state *state, PyObject *init, enum core_name name, const char *text, uint32_t *ret);
int core_qp_init_truth(struct core_state *state, PyObject *init, enum core_name name, int *ret);

/* Holds its parents, puts their handles into `init`, and keeps room in the map. Returns 0; or -1, and it is gone. */
int core_qp_begin(struct core_qp *self, struct ibv_qp_init_attr *init, const char *method);

/*
 * Takes the handle (NULL: the verb failed with `err`, which is raised with `detail` or, where that is empty, with what
 * is over the device's limits).
 */
PyObject *core_qp_finish(struct core_qp *self, struct ibv_qp *qp, int err, const char *verb, const char *detail,
                         const struct ibv_qp_init_attr *init);

/* Its completions may outlive it, or its state: its queues hear of it (core_cq_source.leave). Without the GIL. */
void core_qp_tell_cqs(struct core_qp *self, bool gone);

/* ---- states ---------------------------------------------------------------------------------------------------------- */

/* ibv_modify_qp without the GIL; on failure the error says from which state to which, and with what. 0 or -1. */
int core_qp_modify(struct core_qp *self, struct ibv_qp_attr *attr, uint32_t mask, const char *method);

/* ibv_query_qp without the GIL. Returns 0, or -1 with an exception. */
int core_qp_query(struct core_qp *self, uint32_t mask, struct ibv_qp_attr *ret_attr, struct ibv_qp_init_attr *ret_init,
                  const char *method);

/*
 * What every completion that failed is shown to before it is delivered: the first that says more than "flushed" stays
 * with its queue pair, and goes with each later one that was flushed.
 */
void core_qp_note_failure(struct core_context *context, PyObject *wc);

/* ---- posting: the methods, to a queue of the module's own; what its queue may be made of ---------------------------- */

PyObject *core_qp_post_send(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                            const struct core_post_queue *queue);
PyObject *core_qp_post_recv(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                            const struct core_post_queue *queue);
int core_qp_submit_recv(struct core_object *self, void *chain, Py_ssize_t count, void **ret_bad_wr);
void core_qp_explain_send(struct core_object *self, int err, char *text, size_t size);
void core_qp_explain_recv(struct core_object *self, int err, char *text, size_t size);

/* ---- rows for the module's class ------------------------------------------------------------------------------------- */

PyObject *core_qp_method_post_send(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_qp_method_post_recv(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *core_qp_get_state(PyObject *self, void *ignored);
PyObject *core_qp_get_qp_num(PyObject *self, void *ignored);
PyObject *core_qp_get_qp_type(PyObject *self, void *ignored);
PyObject *core_qp_get_first_error(PyObject *self, void *ignored);
PyObject *core_qp_get_send_cq(PyObject *self, void *ignored);
PyObject *core_qp_get_recv_cq(PyObject *self, void *ignored);
PyObject *core_qp_get_srq(PyObject *self, void *ignored);
PyObject *core_qp_repr(PyObject *self, const char *type_name);

/*
 * modify(attr_mask, **fields): fields of struct ibv_qp_attr by keyword, and the first of them by position after the mask
 * where the module takes it so (NULL where not).
 */
PyObject *core_qp_method_modify(PyObject *self, PyObject *args, PyObject *kwargs, const char *second);

/* query(): (a dict of the fields called `names`, or of all where that is NULL; a QPCap). */
PyObject *core_qp_method_query(PyObject *self, uint32_t mask, const char *const *names);
PyObject *core_qp_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs);

#define CORE_QP_POST_SEND_METHOD                                                                                       \
    CORE_METHOD("post_send", core_qp_method_post_send,                                                                 \
                "post_send($self, wrs)\n--\n\n"                                                                        \
                "Post one SendWR, or every one of an iterable, to the send queue. ibv_post_send.")
#define CORE_QP_POST_RECV_METHOD                                                                                       \
    CORE_METHOD("post_recv", core_qp_method_post_recv,                                                                 \
                "post_recv($self, wrs)\n--\n\n"                                                                        \
                "Post one RecvWR, or every one of an iterable, to the receive queue. ibv_post_recv.")

#define CORE_QP_GETSET                                                                                                 \
    {"state", core_qp_get_state, NULL, "The state it is in, asked of the device: a QPState value.", NULL},             \
        {"qp_num", core_qp_get_qp_num, NULL, "The number that a peer names it by.", NULL},                             \
        {"qp_type", core_qp_get_qp_type, NULL, "The transport, a QPType value.", NULL},                                \
        {"send_cq", core_qp_get_send_cq, NULL, "The CQ of its sends.", NULL},                                          \
        {"recv_cq", core_qp_get_recv_cq, NULL, "The CQ of its receives.", NULL},                                       \
        {"first_error", core_qp_get_first_error, NULL,                                                                 \
         "The first completion since it was reset that says what went wrong, or None.", NULL},                         \
        {"pd", core_object_get_parent, NULL, "The PD it belongs to.", NULL}
#define CORE_QP_SRQ_ROW {"srq", core_qp_get_srq, NULL, "The SRQ it receives from, or None.", NULL}

#endif
