/* SPDX-License-Identifier: BSD-3-Clause */
/* Send requests as objects. See send_wr.h. */
#include "send_wr.h"

#include "args.h"
#include "sge.h"

const struct core_field core_send_wr_fields[CORE_SEND_WR_FIELD_COUNT] = {
#define FIELD(name, most, doc) CORE_FIELD_LIMITED(core_send_wr, fields.name, #name, most),
    CORE_SEND_WR_FIELDS(FIELD) CORE_SEND_WR_ATOMIC_FIELDS(FIELD)
#undef FIELD
};

/* ---- attributes that hold objects ---------------------------------------------------------------------------------- */

PyObject *core_send_wr_get_sg_list(PyObject *op, void *ignored)
{
    (void)ignored;
    return core_sg_list_get(&((struct core_send_wr *)op)->sg_list);
}

int core_send_wr_set_sg_list(PyObject *op, PyObject *value, void *ignored)
{
    (void)ignored;
    return core_sg_list_set(&((struct core_send_wr *)op)->sg_list, value);
}

PyObject *core_send_wr_get_ah(PyObject *op, void *ignored)
{
    PyObject *ah = ((struct core_send_wr *)op)->ah;

    (void)ignored;
    if (!ah)
        Py_RETURN_NONE;
    Py_INCREF(ah);
    return ah;
}

static int store_ah(struct core_state *state, struct core_send_wr *self, PyObject *value)
{
    PyObject *old = self->ah;

    if (value == Py_None) {
        value = NULL;
    } else if (!core_is(state, value, CORE_TYPE_AH)) {
        core_raise_type("ah", "an AH or None", value);
        return -1;
    }
    Py_XINCREF(value);
    self->ah = value;
    Py_XDECREF(old);
    return 0;
}

int core_send_wr_set_ah(PyObject *op, PyObject *value, void *ignored)
{
    struct core_state *state;

    (void)ignored;
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "ah cannot be deleted");
        return -1;
    }
    state = core_state_of(Py_TYPE(op));
    return state ? store_ah(state, (struct core_send_wr *)op, value) : -1;
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

/* The integer field that has a parameter's name; NULL for sg_list and ah. A table, which costs no jump for each. */
static inline const struct core_field *field_of(uint8_t name)
{
    static const uint8_t places[CORE_NAME_COUNT] = { /* in core_send_wr_fields, counted from 1 */
#define PLACE(name_, most, doc) [CORE_NAME_##name_] = CORE_SEND_WR_##name_ + 1,
        CORE_SEND_WR_FIELDS(PLACE) CORE_SEND_WR_ATOMIC_FIELDS(PLACE)
#undef PLACE
    };

    return places[name] ? &core_send_wr_fields[places[name] - 1] : NULL;
}

static int store(struct core_state *state, struct core_send_wr *self, uint8_t name, PyObject *value)
{
    const struct core_field *field = field_of(name);

    if (field)
        return core_field_store(state, (PyObject *)self, field, value);
    if (name == CORE_NAME_ah)
        return store_ah(state, self, value);
    return core_sg_list_copy(state, &self->sg_list, value);
}

PyObject *core_send_wr_new(struct core_state *state, PyTypeObject *type, const uint8_t *names, PyObject **values,
                           int count)
{
    struct core_send_wr *self = (struct core_send_wr *)PyType_GenericAlloc(type, 0);

    for (int i = 0; self && i < count; i++)
        if (values[i] && store(state, self, names[i], values[i]) < 0)
            Py_CLEAR(self);
    return (PyObject *)self;
}

int core_send_wr_traverse(PyObject *op, visitproc visit, void *arg)
{
    struct core_send_wr *self = (struct core_send_wr *)op;

    Py_VISIT(self->sg_list);
    Py_VISIT(self->ah);
    Py_VISIT(Py_TYPE(op));
    return 0;
}

int core_send_wr_clear(PyObject *op)
{
    struct core_send_wr *self = (struct core_send_wr *)op;

    Py_CLEAR(self->sg_list);
    Py_CLEAR(self->ah);
    return 0;
}

void core_send_wr_dealloc(PyObject *op)
{
    PyObject_GC_UnTrack(op);
    core_send_wr_clear(op);
    core_watched_value_dealloc(op);
}

PyObject *core_send_wr_repr(PyObject *op)
{
    struct core_send_wr *self = (struct core_send_wr *)op;
    const struct wr_send *f = &self->fields;
    PyObject *list = core_sg_list_get(&self->sg_list), *text = NULL;

    if (list)
        text = PyUnicode_FromFormat(
            "<SendWR wr_id=%llu opcode=%u send_flags=0x%x sg_list=%R remote_addr=%s rkey=0x%x>",
            (unsigned long long)f->wr_id, f->opcode, f->send_flags, list, core_hex(f->remote_addr).text, f->rkey);
    Py_XDECREF(list);
    return text;
}
