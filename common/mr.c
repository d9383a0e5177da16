/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration of memory, and what a region can do. See mr.h. */
#include "mr.h"

#include <errno.h>
#include <limits.h>

#include "args.h"
#include "cause.h"
#include "error.h"
#include "sge.h"
#include "verbs.h"

/* ---- life ------------------------------------------------------------------------------------------------------ */

static int mr_destroy(struct core_object *self)
{
    return verbs_errno(verbs.dereg_mr(self->handle));
}

static void mr_release(struct core_object *op, void *handle)
{
    struct core_mr *self = (struct core_mr *)op;

    (void)handle;
    if (op->left_behind) /* the device may write there as long as the process lives: the memory must not be freed */
        self->kept = NULL;
    Py_CLEAR(self->kept);
}

static const struct core_kind mr_kind = {CORE_KIND_MR, "ibv_dereg_mr", mr_destroy, NULL, mr_release};

int core_mr_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((struct core_mr *)self)->kept);
    return core_object_traverse(self, visit, arg);
}

void core_mr_finalize(PyObject *op)
{
    struct core_object *self = (struct core_object *)op; /* it has no children: it may go before its parent */

    if (self->open_in && !self->in_use) /* else a __del__ gave it to another thread, which is inside of it */
        core_object_finalize(self);
}

int core_mr_clear(PyObject *self)
{
    core_object_finalize((struct core_object *)self); /* one whose turn to be finalized was over, and which lived on */
    return 0;
}

PyObject *core_mr_no_constructor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "PD.reg_mr()");
}

/* ---- registration ---------------------------------------------------------------------------------------------- */

static PyObject *raise_refused(struct core_state *state, int err, const char *verb, uint64_t addr, uint64_t length,
                               uint32_t access, const struct cause *cause)
{
    return core_raise_format(state, err, verb, "address %s, %llu bytes, access 0x%x%s%s", core_hex(addr).text,
                             (unsigned long long)length, access, cause->used ? ": " : "", cause->text);
}

/* A region without a registration yet, begun. */
static struct core_mr *mr_begin(struct core_object *pd, PyObject *owner, PyObject *hold, uint64_t addr,
                                uint64_t length, const char *method)
{
    struct core_mr *self = (struct core_mr *)core_object_new(pd->state, pd->module, CORE_TYPE_MR, &mr_kind);

    if (!self)
        return NULL;
    core_object_add_parent(&self->base, pd);
    self->addr = addr;
    self->length = length;
    if (owner || hold) {
        self->kept = PyTuple_Pack(2, owner ? owner : Py_None, hold ? hold : Py_None);
        if (!self->kept) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return core_object_begin(&self->base, method) < 0 ? NULL : self;
}

static int check_wrap(struct core_state *state, uint64_t addr, uint64_t length)
{
    if (addr + length >= addr)
        return 0;
    core_raise_range_format(state, "addr %s + length %llu is beyond the 64-bit address space",
                            core_hex(addr).text, (unsigned long long)length);
    return -1;
}

/* Without the GIL. */
static void explain(struct cause *cause, const struct core_object *pd, uint64_t addr, uint64_t length, uint32_t access,
                    int err)
{
    struct ibv_context *context = ((struct ibv_pd *)pd->handle)->context;

    cause_of_region(cause, context, addr, length, access, err);
    core_mr_explain(cause, context, access, err);
}

static const struct core_params reg_mr_params = {
    "PD.reg_mr", 5, 3, {CORE_NAME_addr, CORE_NAME_length, CORE_NAME_access, CORE_NAME_owner, CORE_NAME_hold}};

PyObject *core_pd_method_reg_mr(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_object *pd = (struct core_object *)op;
    struct core_state *state = pd->state;
    PyObject *values[5], *result;
    uint64_t addr, length;
    uint32_t access;
    struct cause cause = {0};
    struct core_mr *self;
    struct ibv_mr *mr;
    int err;

    if (core_parse(state, &reg_mr_params, args, nargs, kwnames, values) < 0 ||
        core_u64(state, values[0], "addr", &addr) < 0 || core_u64(state, values[1], "length", &length) < 0 ||
        core_u32(state, values[2], "access", &access) < 0 || check_wrap(state, addr, length) < 0 ||
        core_check_open(pd, "reg_mr") < 0)
        return NULL;

    self = mr_begin(pd, values[3], values[4], addr, length, "reg_mr");
    if (!self)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    mr = verbs_reg_mr(pd->handle, addr, length, access);
    err = mr ? 0 : verbs_last_errno();
    if (err)
        explain(&cause, pd, addr, length, access, err);
    Py_END_ALLOW_THREADS
    result = core_object_finish(&self->base, mr);
    return err ? raise_refused(state, err, "ibv_reg_mr", addr, length, access, &cause) : result;
}

static const struct core_params reg_dmabuf_mr_params = {
    "PD.reg_dmabuf_mr",
    6,
    5,
    {CORE_NAME_offset, CORE_NAME_length, CORE_NAME_iova, CORE_NAME_fd, CORE_NAME_access, CORE_NAME_owner}};

PyObject *core_pd_method_reg_dmabuf_mr(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_object *pd = (struct core_object *)op;
    struct core_state *state = pd->state;
    PyObject *values[6], *result;
    uint64_t offset, length, iova, fd;
    uint32_t access;
    struct cause cause = {0};
    struct core_mr *self;
    struct ibv_mr *mr;
    int err;

    if (core_parse(state, &reg_dmabuf_mr_params, args, nargs, kwnames, values) < 0 ||
        core_u64(state, values[0], "offset", &offset) < 0 || core_u64(state, values[1], "length", &length) < 0 ||
        core_u64(state, values[2], "iova", &iova) < 0 || core_integer(state, values[3], "fd", 0, INT_MAX, &fd) < 0 ||
        core_u32(state, values[4], "access", &access) < 0 || check_wrap(state, iova, length) < 0 ||
        core_check_open(pd, "reg_dmabuf_mr") < 0)
        return NULL;
    if (!verbs.reg_dmabuf_mr)
        return core_raise_unsupported(state, &verbs_library, "ibv_reg_dmabuf_mr");

    self = mr_begin(pd, values[5], NULL, iova, length, "reg_dmabuf_mr");
    if (!self)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    mr = verbs.reg_dmabuf_mr(pd->handle, offset, length, iova, (int)fd, (int)access);
    err = mr ? 0 : verbs_last_errno();
    if (err)
        explain(&cause, pd, iova, length, access, err);
    Py_END_ALLOW_THREADS
    result = core_object_finish(&self->base, mr);
    return err ? raise_refused(state, err, "ibv_reg_dmabuf_mr", iova, length, access, &cause) : result;
}

/* ---- use ------------------------------------------------------------------------------------------------------- */

int core_mr_check_range(struct core_state *state, uint64_t region, uint64_t offset, uint64_t length)
{
    if (offset <= region && length <= region - offset)
        return 0;
    core_raise_range_format(state, "offset %llu + length %llu is beyond the region's %llu bytes",
                            (unsigned long long)offset, (unsigned long long)length, (unsigned long long)region);
    return -1;
}

static const struct core_params sge_params = {"MR.sge", 2, 0, {CORE_NAME_length, CORE_NAME_offset}};

PyObject *core_mr_method_sge(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_mr *self = (struct core_mr *)op;
    struct core_state *state = self->base.state;
    uint64_t offset = 0, length = 0;
    PyObject *values[2];

    if (core_parse(state, &sge_params, args, nargs, kwnames, values) < 0 ||
        (values[1] && core_u64(state, values[1], "offset", &offset) < 0) ||
        (values[0] && values[0] != Py_None && core_u64(state, values[0], "length", &length) < 0) ||
        core_check_open(&self->base, "sge") < 0 || core_mr_check_range(state, self->length, offset, length) < 0)
        return NULL;
    if (!values[0] || values[0] == Py_None)
        length = self->length - offset;
    if (length > UINT32_MAX)
        return core_raise_range_format(state, "length %llu is beyond the %llu bytes that one SGE can hold",
                                       (unsigned long long)length, (unsigned long long)UINT32_MAX);
    return core_sge_new(state, self, self->addr + offset, (uint32_t)length);
}

static const struct core_params keep_params = {"MR._keep", 2, 2, {CORE_NAME_owner, CORE_NAME_hold}};

PyObject *core_mr_method_keep(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct core_mr *self = (struct core_mr *)op;
    PyObject *values[2], *kept;

    if (core_parse(self->base.state, &keep_params, args, nargs, kwnames, values) < 0)
        return NULL;
    kept = PyTuple_Pack(2, values[0], values[1]); /* before the looks: the collector may run code that closes it */
    if (!kept)
        return NULL;
    if (core_check_open(&self->base, "_keep") < 0) {
        Py_DECREF(kept);
        return NULL;
    }
    if (self->kept) {
        Py_DECREF(kept);
        Py_RETURN_FALSE;
    }
    self->kept = kept;
    Py_RETURN_TRUE;
}

PyObject *core_mr_get_addr(PyObject *op, void *ignored)
{
    struct core_mr *self = (struct core_mr *)op;

    (void)ignored;
    return core_check_open(&self->base, "addr") < 0 ? NULL : PyLong_FromUnsignedLongLong(self->addr);
}

PyObject *core_mr_get_length(PyObject *op, void *ignored)
{
    struct core_mr *self = (struct core_mr *)op;

    (void)ignored;
    return core_check_open(&self->base, "length") < 0 ? NULL : PyLong_FromUnsignedLongLong(self->length);
}

PyObject *core_mr_get_lkey(PyObject *op, void *ignored)
{
    struct core_mr *self = (struct core_mr *)op;

    (void)ignored;
    return core_check_open(&self->base, "lkey") < 0 ? NULL : PyLong_FromUnsignedLong(core_mr_handle(self)->lkey);
}

PyObject *core_mr_get_rkey(PyObject *op, void *ignored)
{
    struct core_mr *self = (struct core_mr *)op;

    (void)ignored;
    return core_check_open(&self->base, "rkey") < 0 ? NULL : PyLong_FromUnsignedLong(core_mr_handle(self)->rkey);
}

PyObject *core_mr_get_handle(PyObject *op, void *ignored)
{
    struct core_mr *self = (struct core_mr *)op;

    (void)ignored;
    return core_check_open(&self->base, "handle") < 0 ? NULL : PyLong_FromUnsignedLong(core_mr_handle(self)->handle);
}

PyObject *core_mr_get_owner(PyObject *op, void *ignored)
{
    PyObject *kept = ((struct core_mr *)op)->kept;
    PyObject *owner = kept ? PyTuple_GetItem(kept, 0) : Py_None;

    (void)ignored;
    Py_INCREF(owner);
    return owner;
}

PyObject *core_mr_repr(PyObject *op)
{
    struct core_mr *self = (struct core_mr *)op;

    if (!self->base.handle)
        return PyUnicode_FromString("<MR, closed>");
    return PyUnicode_FromFormat("<MR addr=%s length=%llu lkey=0x%x rkey=0x%x>", core_hex(self->addr).text,
                                (unsigned long long)self->length, core_mr_handle(self)->lkey,
                                core_mr_handle(self)->rkey);
}
