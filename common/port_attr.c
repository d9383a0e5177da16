/* SPDX-License-Identifier: BSD-3-Clause */
/* The PortAttr class. See port_attr.h. */
#include "port_attr.h"

#include "field.h"

struct core_port_attr {
    PyObject_HEAD
    struct ibv_port_attr attr;
};

/* The members of struct ibv_port_attr that every supported header has, in its order. */
#define PORT_ATTR_FIELDS(X)                                                                                            \
    X(state, CORE_FIELD_UNSIGNED, "The logical state, a PortState value.")                                             \
    X(max_mtu, CORE_FIELD_UNSIGNED, "The largest MTU the port can have, an MTU value.")                                \
    X(active_mtu, CORE_FIELD_UNSIGNED, "The MTU it has, an MTU value.")                                                \
    X(gid_tbl_len, CORE_FIELD_SIGNED, "How many entries the GID table has.")                                           \
    X(port_cap_flags, CORE_FIELD_UNSIGNED, "Capabilities, enum ibv_port_cap_flags.")                                   \
    X(max_msg_sz, CORE_FIELD_UNSIGNED, "The longest message, in bytes.")                                               \
    X(bad_pkey_cntr, CORE_FIELD_UNSIGNED, "How many packets came with a wrong partition key.")                         \
    X(qkey_viol_cntr, CORE_FIELD_UNSIGNED, "How many packets came with a wrong Q_Key.")                                \
    X(pkey_tbl_len, CORE_FIELD_UNSIGNED, "How many entries the partition table has.")                                  \
    X(lid, CORE_FIELD_UNSIGNED, "The local identifier; 0 on Ethernet.")                                                \
    X(sm_lid, CORE_FIELD_UNSIGNED, "The subnet manager's local identifier.")                                           \
    X(lmc, CORE_FIELD_UNSIGNED, "How many low bits of the LID choose a path.")                                         \
    X(max_vl_num, CORE_FIELD_UNSIGNED, "How many virtual lanes there are, encoded.")                                   \
    X(sm_sl, CORE_FIELD_UNSIGNED, "The service level to the subnet manager.")                                          \
    X(subnet_timeout, CORE_FIELD_UNSIGNED, "The subnet's propagation delay: 4.096 us << value.")                       \
    X(init_type_reply, CORE_FIELD_UNSIGNED, "How the subnet manager initialised the port.")                            \
    X(active_width, CORE_FIELD_UNSIGNED, "The link's width, encoded: 1 1x, 2 4x, 4 8x, 8 12x, 16 2x.")                 \
    X(active_speed, CORE_FIELD_UNSIGNED, "The speed of a lane, encoded: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR ...")     \
    X(phys_state, CORE_FIELD_UNSIGNED, "The physical state: 3 disabled, 5 link up ...")                                \
    X(link_layer, CORE_FIELD_UNSIGNED, "0 unspecified, 1 InfiniBand, 2 Ethernet.")                                     \
    X(flags, CORE_FIELD_UNSIGNED, "1: every address vector needs a global route.")                                     \
    X(port_cap_flags2, CORE_FIELD_UNSIGNED, "Further capabilities, enum ibv_port_cap_flags2.")

enum port_attr_index {
#define INDEX(name, kind, doc) AT_##name,
    PORT_ATTR_FIELDS(INDEX)
#undef INDEX
        FIELD_COUNT
};

static const struct core_field fields[] = {
#define FIELD(name, kind, doc) CORE_FIELD_OF_KIND(core_port_attr, attr.name, #name, kind),
    PORT_ATTR_FIELDS(FIELD)
#undef FIELD
};
static const struct core_record record = {fields, FIELD_COUNT};

PyObject *core_port_attr_new(struct core_state *state, const struct ibv_port_attr *attr)
{
    struct core_port_attr *self = (struct core_port_attr *)core_record_alloc(state, CORE_TYPE_PORT_ATTR);

    if (self)
        self->attr = *attr;
    return (PyObject *)self;
}

CORE_CONSTANT_RECORD_FUNCTIONS(port_attr, record)

static PyMethodDef port_attr_methods[] = {CORE_RECORD_METHOD(port_attr), {NULL, NULL, 0, NULL}};

static PyGetSetDef port_attr_getset[] = {
#define ROW(name, kind, doc) {#name, core_field_get, NULL, doc, (void *)&fields[AT_##name]},
    PORT_ATTR_FIELDS(ROW)
#undef ROW
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot port_attr_slots[] = {
    {Py_tp_doc, "PortAttr(*values, **fields)\n--\n\n"
                "A port's state and properties, as struct ibv_port_attr; Context.query_port() gives one."},
    CORE_RECORD_SLOTS(port_attr, port_attr_new, port_attr_hash),
    {Py_tp_getset, port_attr_getset},
    {0, NULL},
};

const PyType_Spec core_port_attr_spec = {
    .basicsize = sizeof(struct core_port_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = port_attr_slots,
};
