/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.SendWR */
#include "efa_send_wr.h"

#include "args.h"
#include "classes.h"
#include "destination.h"

static const struct core_field hints_field = CORE_FIELD(efa_send_wr, processing_hints, "processing_hints");

static const struct core_params new_params = {
    "SendWR",
    12,
    0,
    {CORE_NAME_wr_id, CORE_NAME_sg_list, CORE_NAME_opcode, CORE_NAME_send_flags, CORE_NAME_remote_addr, CORE_NAME_rkey,
     CORE_NAME_imm_data, CORE_NAME_ah, CORE_NAME_remote_qpn, CORE_NAME_remote_qkey, CORE_NAME_dest,
     CORE_NAME_processing_hints}};

/* Where the parameters that this file looks at stand among those. */
enum { OPCODE = 2, DEST = 10, HINTS = 11, CORE_PARAMS = DEST };

/* One of the three attributes of a destination, a new reference. */
static PyObject *read_one(struct core_state *state, PyObject *dest, enum core_name name)
{
    return core_get_attr(state, dest, name, "dest", "a Peer or an object with ah, qp_num and qkey");
}

static int read_number(struct core_state *state, PyObject *dest, enum core_name name, const char *text, uint64_t most,
                       uint32_t *ret)
{
    PyObject *value = read_one(state, dest, name);
    uint64_t number;
    int failed = value ? core_integer(state, value, text, 0, most, &number) : -1;

    Py_XDECREF(value);
    if (!failed)
        *ret = (uint32_t)number;
    return failed;
}

/* Whether it is a Peer itself, whose fields need not be asked for by name: a class of the program's may answer otherwise. */
static bool is_peer(struct core_state *state, PyObject *dest)
{
    return core_is(state, dest, EFA_TYPE_DESTINATION) &&
           PyType_GetSlot(Py_TYPE(dest), Py_tp_base) == (void *)state->types[EFA_TYPE_DESTINATION];
}

/* Copies a destination into a request that has none yet. Returns 0 or -1 with an exception. */
static int take_destination(struct core_state *state, struct core_send_wr *self, PyObject *dest)
{
    struct wr_send *fields = &self->fields;
    PyObject *ah;
    int failed;

    if (self->ah || fields->remote_qpn || fields->remote_qkey) {
        PyErr_SetString(PyExc_ValueError,
                        "the destination was given twice: as dest, and as ah, remote_qpn, remote_qkey");
        return -1;
    }
    if (is_peer(state, dest)) { /* checked when it was made */
        struct efa_destination *peer = (struct efa_destination *)dest;

        if (!peer->ah) {
            PyErr_Format(PyExc_ValueError, "dest has no ah: %R is closed", dest);
            return -1;
        }
        Py_INCREF(peer->ah);
        self->ah = peer->ah;
        fields->remote_qpn = peer->qp_num;
        fields->remote_qkey = peer->qkey;
        return 0;
    }
    ah = read_one(state, dest, CORE_NAME_ah);
    if (!ah)
        return -1;
    if (!core_is(state, ah, CORE_TYPE_AH)) {
        if (ah == Py_None)
            PyErr_Format(PyExc_ValueError, "dest has no ah: %R is closed", dest);
        else
            core_raise_type("dest.ah", "an AH", ah);
        Py_DECREF(ah);
        return -1;
    }
    failed = core_send_wr_set_ah((PyObject *)self, ah, NULL); /* code that was asked may have found it and set one */
    Py_DECREF(ah);
    if (failed)
        return -1;
    return read_number(state, dest, CORE_NAME_qp_num, "dest.qp_num", WR_QPN_MOST, &fields->remote_qpn) < 0
               ? -1
               : read_number(state, dest, CORE_NAME_qkey, "dest.qkey", UINT32_MAX, &fields->remote_qkey);
}

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    PyObject *self = core_send_wr_new(state, type, new_params.names, values, CORE_PARAMS);

    if (!self)
        return NULL;
    if (!values[OPCODE])
        ((struct core_send_wr *)self)->fields.opcode = IBV_WR_SEND;
    if ((values[DEST] && values[DEST] != Py_None &&
         take_destination(state, (struct core_send_wr *)self, values[DEST]) < 0) ||
        (values[HINTS] && core_field_store(state, self, &hints_field, values[HINTS]) < 0))
        Py_CLEAR(self);
    return self;
}

static PyObject *send_wr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_construct(type, args, kwargs, &new_params, make);
}

static PyGetSetDef send_wr_getset[] = {
    CORE_SEND_WR_FIELDS(CORE_SEND_WR_ROW) CORE_SEND_WR_SG_LIST_ROW,
    CORE_SEND_WR_AH_ROW,
    {"processing_hints", core_field_get, core_field_set, "ProcessingHints bits, for a queue pair that was made for them.",
     (void *)&hints_field},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot send_wr_slots[] = {
    {Py_tp_doc, "SendWR(wr_id=0, sg_list=None, opcode=2, send_flags=0, remote_addr=0, rkey=0, imm_data=0, ah=None, "
                "remote_qpn=0, remote_qkey=0, dest=None, processing_hints=0)\n--\n\n"
                "A send request, to be posted any number of times. What a struct ibv_qp_ex is told by ibv_wr_*."},
    {Py_tp_new, send_wr_new},
    CORE_SEND_WR_SLOTS,
    {Py_tp_getset, send_wr_getset},
    {0, NULL},
};

const PyType_Spec efa_send_wr_spec = {
    .basicsize = sizeof(struct efa_send_wr),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = send_wr_slots,
};
