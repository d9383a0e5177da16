/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.SendWR */
#include "efa_send_wr.h"

#include "args.h"
#include "classes.h"

static const struct core_field hints_field = CORE_FIELD(efa_send_wr, processing_hints, "processing_hints");

static const struct core_params new_params = {
    "SendWR",
    12,
    0,
    {CORE_NAME_wr_id, CORE_NAME_sg_list, CORE_NAME_opcode, CORE_NAME_send_flags, CORE_NAME_remote_addr, CORE_NAME_rkey,
     CORE_NAME_imm_data, CORE_NAME_ah, CORE_NAME_remote_qpn, CORE_NAME_remote_qkey, CORE_NAME_dest,
     CORE_NAME_processing_hints}};

/* Where the parameters that this file looks at stand among those. */
enum { OPCODE = 2, AH = 7, REMOTE_QPN, REMOTE_QKEY, DEST, HINTS, CORE_PARAMS = DEST };

/* The three values that a destination gives, new references; -1 with an exception where one is missing. */
static int read_destination(struct core_state *state, PyObject *dest, PyObject **ret_values)
{
    static const enum core_name names[] = {CORE_NAME_ah, CORE_NAME_qp_num, CORE_NAME_qkey};

    for (int i = 0; i < 3; i++) {
        ret_values[i] = core_get_attr(state, dest, names[i], "dest", "a Peer or an object with ah, qp_num and qkey");
        if (!ret_values[i])
            return -1;
    }
    if (ret_values[0] != Py_None)
        return 0;
    PyErr_Format(PyExc_ValueError, "dest has no ah: %R is closed", dest);
    return -1;
}

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **given)
{
    PyObject *values[CORE_PARAMS], *destination[3] = {NULL}, *dest = given[DEST], *self = NULL;

    memcpy(values, given, sizeof values);
    if (dest && dest != Py_None) {
        if ((given[AH] && given[AH] != Py_None) || given[REMOTE_QPN] || given[REMOTE_QKEY]) {
            PyErr_SetString(PyExc_ValueError, "the destination was given twice: as dest, and as ah, remote_qpn, remote_qkey");
            return NULL;
        }
        if (read_destination(state, dest, destination) < 0)
            goto done;
        memcpy(&values[AH], destination, sizeof destination);
    }

    self = core_send_wr_new(state, type, new_params.names, values, CORE_PARAMS);
    if (self && !given[OPCODE])
        ((struct core_send_wr *)self)->fields.opcode = IBV_WR_SEND;
    if (self && given[HINTS] && core_field_store(state, self, &hints_field, given[HINTS]) < 0)
        Py_CLEAR(self);
done:
    for (int i = 0; i < 3; i++)
        Py_XDECREF(destination[i]);
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
