/* SPDX-License-Identifier: BSD-3-Clause */
/* The RecvWR class. See recv_wr.h. */
#include "recv_wr.h"

#include "args.h"
#include "field.h"
#include "sge.h"

static const struct core_field wr_id_field = CORE_FIELD(core_recv_wr, wr_id, "wr_id");
static const struct core_params new_params = {"RecvWR", 2, 0, {CORE_NAME_wr_id, CORE_NAME_sg_list}};

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    struct core_recv_wr *self = (struct core_recv_wr *)PyType_GenericAlloc(type, 0);

    if (!self)
        return NULL;
    if ((values[0] && core_field_store(state, (PyObject *)self, &wr_id_field, values[0]) < 0) ||
        (values[1] && core_sg_list_copy(state, &self->sg_list, values[1]) < 0))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *recv_wr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_construct(type, args, kwargs, &new_params, make);
}

static int recv_wr_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(((struct core_recv_wr *)op)->sg_list);
    Py_VISIT(Py_TYPE(op));
    return 0;
}

static int recv_wr_clear(PyObject *op)
{
    Py_CLEAR(((struct core_recv_wr *)op)->sg_list);
    return 0;
}

static void recv_wr_dealloc(PyObject *op)
{
    PyObject_GC_UnTrack(op);
    recv_wr_clear(op);
    core_watched_value_dealloc(op);
}

static PyObject *recv_wr_get_sg_list(PyObject *op, void *ignored)
{
    (void)ignored;
    return core_sg_list_get(&((struct core_recv_wr *)op)->sg_list);
}

static int recv_wr_set_sg_list(PyObject *op, PyObject *value, void *ignored)
{
    (void)ignored;
    return core_sg_list_set(&((struct core_recv_wr *)op)->sg_list, value);
}

static PyObject *recv_wr_repr(PyObject *op)
{
    struct core_recv_wr *self = (struct core_recv_wr *)op;
    PyObject *list = core_sg_list_get(&self->sg_list), *text = NULL;

    if (list)
        text = PyUnicode_FromFormat("<RecvWR wr_id=%llu sg_list=%R>", (unsigned long long)self->wr_id, list);
    Py_XDECREF(list);
    return text;
}

static PyGetSetDef recv_wr_getset[] = {
    {"wr_id", core_field_get, core_field_set, "A number of the program's own, which the completion carries.",
     (void *)&wr_id_field},
    {"sg_list", recv_wr_get_sg_list, recv_wr_set_sg_list, "The list of SGEs; it may be changed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot recv_wr_slots[] = {
    {Py_tp_doc, "RecvWR(wr_id=0, sg_list=None)\n--\n\nA receive request: where a message is to be put. struct ibv_recv_wr."},
    {Py_tp_new, recv_wr_new},
    {Py_tp_dealloc, recv_wr_dealloc},
    {Py_tp_traverse, recv_wr_traverse},
    {Py_tp_clear, recv_wr_clear},
    {Py_tp_repr, recv_wr_repr},
    {Py_tp_getset, recv_wr_getset},
    {0, NULL},
};

const PyType_Spec core_recv_wr_spec = {
    .basicsize = sizeof(struct core_recv_wr),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = recv_wr_slots,
};
