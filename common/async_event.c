/* SPDX-License-Identifier: BSD-3-Clause */
/* The AsyncEvent class. See async_event.h. */
#include "async_event.h"

#include "args.h"
#include "field.h"
#include "verbs.h"

/* What the union of struct ibv_async_event holds. */
enum subject { SUBJECT_NONE, SUBJECT_CQ, SUBJECT_QP, SUBJECT_SRQ, SUBJECT_PORT };

struct core_async_event {
    PyObject_HEAD
    PyObject *object; /* the CQ, QP or SRQ; NULL where it is closed, or the event is about none */
    int event_type;
    int port_num;
    enum subject subject;
};

static enum subject subject_of(int event_type)
{
    switch (event_type) {
    case IBV_EVENT_CQ_ERR:
        return SUBJECT_CQ;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return SUBJECT_QP;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return SUBJECT_SRQ;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
        return SUBJECT_PORT;
    default:
        return SUBJECT_NONE;
    }
}

PyObject *core_async_event_new(struct core_state *state)
{
    return PyType_GenericAlloc(state->types[CORE_TYPE_ASYNC_EVENT], 0);
}

void core_async_event_fill(PyObject *op, const struct core_context *context, const struct ibv_async_event *event)
{
    struct core_async_event *self = (struct core_async_event *)op;

    self->event_type = (int)event->event_type;
    self->subject = subject_of(self->event_type);
    if (self->subject == SUBJECT_PORT)
        self->port_num = event->element.port_num;
    else if (self->subject != SUBJECT_NONE)
        self->object = (PyObject *)core_context_find(context, core_pointer_key(event->element.cq));
    Py_XINCREF(self->object);
}

static PyObject *async_event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_no_constructor(type, "Context.get_async_event()");
}

static void async_event_dealloc(PyObject *op)
{
    Py_XDECREF(((struct core_async_event *)op)->object);
    core_value_dealloc(op);
}

static PyObject *get_event_type(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(((struct core_async_event *)self)->event_type);
}

static PyObject *get_event_type_str(PyObject *self, void *ignored)
{
    const char *text = verbs.event_type_str((enum ibv_event_type)((struct core_async_event *)self)->event_type);

    (void)ignored;
    return PyUnicode_FromString(text ? text : "unknown");
}

static PyObject *get_port_num(PyObject *op, void *ignored)
{
    struct core_async_event *self = (struct core_async_event *)op;

    (void)ignored;
    if (self->subject != SUBJECT_PORT)
        Py_RETURN_NONE;
    return PyLong_FromLong(self->port_num);
}

static PyObject *get_object(PyObject *op, void *subject)
{
    struct core_async_event *self = (struct core_async_event *)op;

    if (!self->object || self->subject != (enum subject)(uintptr_t)subject)
        Py_RETURN_NONE;
    Py_INCREF(self->object);
    return self->object;
}

static PyObject *async_event_repr(PyObject *op)
{
    struct core_async_event *self = (struct core_async_event *)op;
    PyObject *text = get_event_type_str(op, NULL), *repr = NULL;

    if (text && self->subject == SUBJECT_PORT)
        repr = PyUnicode_FromFormat("<AsyncEvent %d: %U, port %d>", self->event_type, text, self->port_num);
    else if (text && self->object)
        repr = PyUnicode_FromFormat("<AsyncEvent %d: %U, %R>", self->event_type, text, self->object);
    else if (text)
        repr = PyUnicode_FromFormat("<AsyncEvent %d: %U>", self->event_type, text);
    Py_XDECREF(text);
    return repr;
}

static PyGetSetDef async_event_getset[] = {
    {"event_type", get_event_type, NULL, "What happened, an enum ibv_event_type value.", NULL},
    {"event_type_str", get_event_type_str, NULL, "What happened, in the library's words.", NULL},
    {"port_num", get_port_num, NULL, "The port it is about, or None.", NULL},
    {"qp", get_object, NULL, "The QP it is about, or None.", (void *)SUBJECT_QP},
    {"cq", get_object, NULL, "The CQ it is about, or None.", (void *)SUBJECT_CQ},
    {"srq", get_object, NULL, "The SRQ it is about, or None.", (void *)SUBJECT_SRQ},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot async_event_slots[] = {
    {Py_tp_doc, "AsyncEvent()\n--\n\nAn asynchronous event; Context.get_async_event() gives one."},
    {Py_tp_new, async_event_new},
    {Py_tp_dealloc, async_event_dealloc},
    {Py_tp_repr, async_event_repr},
    {Py_tp_getset, async_event_getset},
    {0, NULL},
};

const PyType_Spec core_async_event_spec = {
    .basicsize = sizeof(struct core_async_event),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = async_event_slots,
};
