/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.CompCntr and Context.create_comp_cntr(). See comp_cntr.h. */
#include "comp_cntr.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "args.h"
#include "classes.h"
#include "efa_context.h"
#include "error.h"
#include "makers.h"
#include "qp_rules.h"
#include "verbs.h"

#define OPS_MOST 0x3f /* enum ibv_qp_attach_comp_cntr_op */

/* ---- life -------------------------------------------------------------------------------------------------------------- */

static int destroy(struct core_object *self)
{
    return verbs_errno(efadv.destroy_comp_cntr(self->handle));
}

static const struct core_kind kind = {CORE_KIND_COMP_CNTR, "ibv_destroy_comp_cntr", destroy, NULL, NULL};

static PyObject *no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "Context.create_comp_cntr()");
}

/* Memory of the program's for one of the two values: an address, or a dma-buf's descriptor and an offset. */
static int read_memory(struct core_state *state, PyObject *value, const char *name, uint32_t flag,
                       struct dv_comp_cntr_init_attr *efa, struct dv_memory_location *ret)
{
    uint64_t addr, fd;

    if (!value || value == Py_None)
        return 0;
    efa->flags |= flag;
    if (PyTuple_Check(value) && PyTuple_Size(value) == 2) {
        if (core_integer(state, PyTuple_GetItem(value, 0), name, 0, INT_MAX, &fd) < 0 ||
            core_u64(state, PyTuple_GetItem(value, 1), name, &ret->dmabuf.offset) < 0)
            return -1;
        ret->type = DV_MEMORY_DMABUF;
        ret->dmabuf.fd = (int32_t)fd;
        return 0;
    }
    if (core_u64(state, value, name, &addr) < 0)
        return -1;
    ret->type = DV_MEMORY_VA;
    ret->ptr = (uint8_t *)(uintptr_t)addr;
    return 0;
}

struct memory_text {
    char text[80];
};

/* Where a value was to lie, for messages. */
static struct memory_text memory_text(const struct dv_comp_cntr_init_attr *efa, uint32_t flag,
                                      const struct dv_memory_location *memory)
{
    struct memory_text ret;

    if (!(efa->flags & flag))
        snprintf(ret.text, sizeof ret.text, "the library's");
    else if (memory->type == DV_MEMORY_DMABUF)
        snprintf(ret.text, sizeof ret.text, "offset %llu of descriptor %d", (unsigned long long)memory->dmabuf.offset,
                 memory->dmabuf.fd);
    else
        snprintf(ret.text, sizeof ret.text, "0x%llx", (unsigned long long)(uintptr_t)memory->ptr);
    return ret;
}

/* Whether library and device have counters; raises UnsupportedError where not. */
static int check_capable(struct efa_context *context)
{
    const struct dv_device_attr *device;
    struct core_state *state = context->core.base.state;

    if (efa_context_ask(context, "create_comp_cntr", &device) < 0)
        return -1;
    if (!efadv.create_comp_cntr || !efadv.destroy_comp_cntr || !efadv.qp_attach_comp_cntr) {
        core_raise_unsupported(state, &efadv_library, "efadv_create_comp_cntr");
        return -1;
    }
    if (device && device->device_caps & DV_CAP_COMP_CNTR)
        return 0;
    core_raise_unsupported_format(state, "efadv_create_comp_cntr", "device %s has no completion counters",
                                  context->core.name);
    return -1;
}

static const struct core_params create_params = {
    "Context.create_comp_cntr", 3, 0, {CORE_NAME_count_bytes, CORE_NAME_comp_memory, CORE_NAME_err_memory}};

PyObject *efa_context_create_comp_cntr(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct efa_context *context = (struct efa_context *)op;
    struct core_object *base = &context->core.base, *self;
    struct dv_comp_cntr_init_attr efa = {0};
    struct dv_comp_cntr_attr attr = {0};
    struct dv_comp_cntr *cntr;
    PyObject *values[3], *result;
    int bytes = 0, err;

    if (core_parse(base->state, &create_params, args, nargs, kwnames, values) < 0 ||
        (values[0] && (bytes = PyObject_IsTrue(values[0])) < 0) ||
        read_memory(base->state, values[1], "comp_memory", DV_COMP_CNTR_COMP_MEMORY, &efa, &efa.comp_cntr_ext_mem) < 0 ||
        read_memory(base->state, values[2], "err_memory", DV_COMP_CNTR_ERR_MEMORY, &efa, &efa.err_cntr_ext_mem) < 0 ||
        check_capable(context) < 0)
        return NULL;
    attr.type = bytes ? 1 : 0;

    self = core_object_new(base->state, base->module, EFA_TYPE_COMP_CNTR, &kind);
    if (!self)
        return NULL;
    core_object_add_parent(self, base);
    if (core_object_begin(self, "create_comp_cntr") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    cntr = efadv.create_comp_cntr(base->handle, &attr, &efa, sizeof efa);
    err = cntr ? 0 : verbs_last_errno();
    Py_END_ALLOW_THREADS
    result = core_object_finish(self, cntr);
    if (!err)
        return result;
    if (err == EOPNOTSUPP && bytes)
        return core_raise_unsupported_format(base->state, "efadv_create_comp_cntr",
                                             "count_bytes=True: the installed libefa counts requests only");
    return core_raise_format(base->state, err, "efadv_create_comp_cntr",
                             "counting %s, comp_memory %s, err_memory %s", bytes ? "bytes" : "requests",
                             memory_text(&efa, DV_COMP_CNTR_COMP_MEMORY, &efa.comp_cntr_ext_mem).text,
                             memory_text(&efa, DV_COMP_CNTR_ERR_MEMORY, &efa.err_cntr_ext_mem).text);
}

/* ---- its two values ----------------------------------------------------------------------------------------------------- */

typedef int (*read_verb)(struct dv_comp_cntr *, uint64_t *);
typedef int (*write_verb)(struct dv_comp_cntr *, uint64_t);

static PyObject *read_value(PyObject *op, read_verb verb, const char *method, const char *name)
{
    struct core_object *self = (struct core_object *)op;
    uint64_t value = 0;
    int err;

    if (core_enter(self, method) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = verbs_errno(verb ? verb(self->handle, &value) : EOPNOTSUPP);
    Py_END_ALLOW_THREADS
    core_exit(self);
    return err ? core_raise(self->state, err, name,
                            err == EOPNOTSUPP && verb ? "the value lies in a dma-buf, which this process does not see" : NULL)
               : PyLong_FromUnsignedLongLong(value);
}

static PyObject *write_value(PyObject *op, PyObject *number, write_verb verb, const char *method, const char *name)
{
    struct core_object *self = (struct core_object *)op;
    uint64_t value;
    int err;

    if (core_u64(self->state, number, "value", &value) < 0 || core_enter(self, method) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = verbs_errno(verb ? verb(self->handle, value) : EOPNOTSUPP);
    Py_END_ALLOW_THREADS
    core_exit(self);
    if (err)
        return core_raise(self->state, err, name, NULL);
    Py_RETURN_NONE;
}

static const struct core_params value_params = {"CompCntr", 1, 1, {CORE_NAME_value}};

#define READ(method, verb)                                                                                             \
    static PyObject *cntr_##method(PyObject *self, PyObject *ignored)                                                  \
    {                                                                                                                  \
        (void)ignored;                                                                                                 \
        return read_value(self, efadv.verb, #method, "ibv_" #verb);                                                    \
    }
#define WRITE(method, verb)                                                                                            \
    static PyObject *cntr_##method(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)         \
    {                                                                                                                  \
        PyObject *value;                                                                                               \
                                                                                                                       \
        if (core_parse(((struct core_object *)self)->state, &value_params, args, nargs, kwnames, &value) < 0)          \
            return NULL;                                                                                               \
        return write_value(self, value, efadv.verb, #method, "ibv_" #verb);                                            \
    }

READ(read, read_comp_cntr)
READ(read_errors, read_err_comp_cntr)
WRITE(set, set_comp_cntr)
WRITE(set_errors, set_err_comp_cntr)
WRITE(add, inc_comp_cntr)
WRITE(add_errors, inc_err_comp_cntr)

/* ---- attaching ---------------------------------------------------------------------------------------------------------- */

/* 0; or -1 with an exception for what is no counter, or closed. */
static int check_counter(struct core_object *qp, PyObject *cntr)
{
    return core_check_argument(qp, cntr, EFA_TYPE_COMP_CNTR, "cntr", "a CompCntr", "attach_comp_cntr");
}

/* Without the GIL. Returns 0, an errno, or -1 with EBADF; and the queue pair's state. */
static int attach(struct core_object *qp, struct core_object *cntr, struct dv_attach_comp_cntr_attr *attr,
                  uint32_t *ret_state)
{
    int err;

    if (core_enter(qp, "attach_comp_cntr") < 0)
        return -1;
    if (!core_try_enter(cntr)) {
        core_exit(qp);
        return check_counter(qp, (PyObject *)cntr);
    }
    Py_BEGIN_ALLOW_THREADS
    err = verbs_errno(efadv.qp_attach_comp_cntr(qp->handle, cntr->handle, attr));
    *ret_state = ((struct ibv_qp *)qp->handle)->state;
    Py_END_ALLOW_THREADS
    core_exit(cntr);
    core_exit(qp);
    return err;
}

/* Takes the last mention of a counter off a queue pair's list; the exception that is set, if any, stays. */
static void forget(PyObject *kept, PyObject *cntr)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    for (Py_ssize_t i = PyList_Size(kept); i-- > 0;) {
        if (PyList_GetItem(kept, i) == cntr) {
            PyList_SetSlice(kept, i, i + 1, NULL);
            break;
        }
    }
    PyErr_Restore(type, value, traceback);
}

static const struct core_params attach_params = {"QP.attach_comp_cntr", 2, 2, {CORE_NAME_cntr, CORE_NAME_ops}};

PyObject *efa_comp_cntr_attach(struct core_object *qp, PyObject **kept, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames)
{
    struct dv_attach_comp_cntr_attr attr = {0};
    struct core_object *cntr;
    PyObject *values[2];
    uint32_t state;
    uint64_t ops;
    int err;

    if (core_parse(qp->state, &attach_params, args, nargs, kwnames, values) < 0 ||
        core_integer(qp->state, values[1], "ops", 1, OPS_MOST, &ops) < 0 ||
        check_counter(qp, values[0]) < 0)
        return NULL;
    cntr = (struct core_object *)values[0];
    if (cntr->parents[0] != (struct core_object *)core_context_of(qp)) {
        PyErr_SetString(PyExc_ValueError, "cntr belongs to another Context than the queue pair");
        return NULL;
    }
    if (!*kept && !(*kept = PyList_New(0)))
        return NULL;
    if (PyList_Append(*kept, values[0]) < 0) /* before it is attached: from then on it has to live */
        return NULL;

    attr.op_mask = (uint32_t)ops;
    err = attach(qp, cntr, &attr, &state);
    if (!err)
        Py_RETURN_NONE;
    forget(*kept, values[0]);
    if (err < 0)
        return NULL;
    return core_raise_format(qp->state, err, "ibv_qp_attach_comp_cntr", "ops 0x%x, QP in %s%s", attr.op_mask,
                             qp_state_name(state),
                             state == IBV_QPS_RESET || state == IBV_QPS_INIT ? "" : ": a counter has to be there before RTR");
}

/* ---- the class ---------------------------------------------------------------------------------------------------------- */

static PyMethodDef cntr_methods[] = {
    CORE_LIFETIME_METHODS,
    {"read", cntr_read, METH_NOARGS, "read($self)\n--\n\nReturn how much has succeeded. ibv_read_comp_cntr."},
    {"read_errors", cntr_read_errors, METH_NOARGS,
     "read_errors($self)\n--\n\nReturn how many requests have failed. ibv_read_err_comp_cntr."},
    CORE_METHOD("set", cntr_set, "set($self, value)\n--\n\nSet the count of successes. ibv_set_comp_cntr."),
    CORE_METHOD("set_errors", cntr_set_errors,
                "set_errors($self, value)\n--\n\nSet the count of failures. ibv_set_err_comp_cntr."),
    CORE_METHOD("add", cntr_add, "add($self, value)\n--\n\nAdd to the count of successes. ibv_inc_comp_cntr."),
    CORE_METHOD("add_errors", cntr_add_errors,
                "add_errors($self, value)\n--\n\nAdd to the count of failures. ibv_inc_err_comp_cntr."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef cntr_getset[] = {
    CORE_LIFETIME_GETSET,
    {"context", core_object_get_parent, NULL, "The Context it belongs to.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef cntr_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot cntr_slots[] = {
    {Py_tp_doc, "CompCntr()\n--\n\nA completion counter; Context.create_comp_cntr() makes one."},
    {Py_tp_new, no_constructor},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, core_object_repr},
    {Py_tp_methods, cntr_methods},
    {Py_tp_getset, cntr_getset},
    {Py_tp_members, cntr_members},
    {0, NULL},
};

const PyType_Spec efa_comp_cntr_spec = {
    .basicsize = sizeof(struct core_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = cntr_slots,
};
