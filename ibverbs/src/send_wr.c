/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.SendWR */
#include "send_wr.h"

#include "args.h"
#include "classes.h"

static const struct core_params new_params = {
    "SendWR",
    12,
    0,
    {CORE_NAME_wr_id, CORE_NAME_sg_list, CORE_NAME_opcode, CORE_NAME_send_flags, CORE_NAME_remote_addr, CORE_NAME_rkey,
     CORE_NAME_imm_data, CORE_NAME_compare_add, CORE_NAME_swap, CORE_NAME_ah, CORE_NAME_remote_qpn,
     CORE_NAME_remote_qkey}};

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    return core_send_wr_new(state, type, new_params.names, values, new_params.count);
}

static PyObject *send_wr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_construct(type, args, kwargs, &new_params, make);
}

static PyGetSetDef send_wr_getset[] = {
    CORE_SEND_WR_FIELDS(CORE_SEND_WR_ROW) CORE_SEND_WR_ATOMIC_FIELDS(CORE_SEND_WR_ROW) CORE_SEND_WR_SG_LIST_ROW,
    CORE_SEND_WR_AH_ROW,
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot send_wr_slots[] = {
    {Py_tp_doc, "SendWR(wr_id=0, sg_list=None, opcode=0, send_flags=0, remote_addr=0, rkey=0, imm_data=0, compare_add=0, "
                "swap=0, ah=None, remote_qpn=0, remote_qkey=0)\n--\n\n"
                "A send request, to be posted any number of times. struct ibv_send_wr."},
    {Py_tp_new, send_wr_new},
    CORE_SEND_WR_SLOTS,
    {Py_tp_getset, send_wr_getset},
    {0, NULL},
};

const PyType_Spec ibverbs_send_wr_spec = {
    .basicsize = sizeof(struct core_send_wr),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = send_wr_slots,
};
