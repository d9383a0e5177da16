/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.AHAttr */
#include "ah_attr.h"

#include "classes.h"
#include "field.h"

/* Attribute, member of struct ibv_ah_attr, largest value, meaning; in the order of the constructor, after dgid. */
#define AH_ATTR_FIELDS(X)                                                                                              \
    X(sgid_index, grh.sgid_index, UINT8_MAX, "Which entry of the port's GID table is the source.")                     \
    X(dlid, dlid, UINT16_MAX, "The destination's LID, on InfiniBand.")                                                 \
    X(is_global, is_global, 1, "Whether packets carry a global route (GRH); always on Ethernet.")                      \
    X(port_num, port_num, UINT8_MAX, "The local port.")                                                                \
    X(hop_limit, grh.hop_limit, UINT8_MAX, "How many routers a packet may pass, plus one.")                            \
    X(traffic_class, grh.traffic_class, UINT8_MAX, "The traffic class: DSCP and ECN, on RoCE v2.")                     \
    X(sl, sl, 15, "The service level.")                                                                                \
    X(flow_label, grh.flow_label, 0xfffff, "The flow label, 20 bits.")                                                 \
    X(src_path_bits, src_path_bits, 0x7f, "The low bits of the source LID.")                                           \
    X(static_rate, static_rate, UINT8_MAX, "The largest rate, enum ibv_rate; 0 is the port's.")

enum field_index {
    AT_dgid,
#define INDEX(name, member, most, doc) AT_##name,
    AH_ATTR_FIELDS(INDEX)
#undef INDEX
        FIELD_COUNT
};

static const struct core_field fields[] = {
    CORE_FIELD_OF_KIND(core_ah_attr, attr.grh.dgid, "dgid", CORE_FIELD_GID),
#define FIELD(name, member, most, doc) CORE_FIELD_LIMITED(core_ah_attr, attr.member, #name, most),
    AH_ATTR_FIELDS(FIELD)
#undef FIELD
};
static const struct core_record record = {fields, FIELD_COUNT};

CORE_RECORD_FUNCTIONS(ah_attr, record)

static PyMethodDef ah_attr_methods[] = {CORE_RECORD_METHOD(ah_attr), {NULL, NULL, 0, NULL}};

/* The record's constructor, with the defaults that are not zero. */
static PyObject *ah_attr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct core_state *state = core_state_of(type);
    struct core_ah_attr *self = state ? (struct core_ah_attr *)PyType_GenericAlloc(type, 0) : NULL;

    if (!self)
        return NULL;
    self->attr.is_global = 1;
    self->attr.port_num = 1;
    self->attr.grh.hop_limit = 1;
    if (core_record_fill(state, (PyObject *)self, args, kwargs, &record) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyGetSetDef ah_attr_getset[] = {
    {"dgid", core_field_get, core_field_set, "The destination's GID, or None.", (void *)&fields[AT_dgid]},
#define ROW(name, member, most, doc) {#name, core_field_get, core_field_set, doc, (void *)&fields[AT_##name]},
    AH_ATTR_FIELDS(ROW)
#undef ROW
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot ah_attr_slots[] = {
    {Py_tp_doc, "AHAttr(dgid=None, sgid_index=0, dlid=0, is_global=1, port_num=1, hop_limit=1, traffic_class=0, sl=0, "
                "flow_label=0, src_path_bits=0, static_rate=0)\n--\n\n"
                "An address vector: where packets go, and how. struct ibv_ah_attr."},
    CORE_RECORD_SLOTS(ah_attr, ah_attr_new, PyObject_HashNotImplemented),
    {Py_tp_getset, ah_attr_getset},
    {0, NULL},
};

const PyType_Spec ibverbs_ah_attr_spec = {
    .basicsize = sizeof(struct core_ah_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = ah_attr_slots,
};
