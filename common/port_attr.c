/* SPDX-License-Identifier: BSD-3-Clause */
/* The PortAttr class. See port_attr.h. */
#include "port_attr.h"

#include "field.h"

#define NUMBER CORE_FIELD_UNSIGNED
#define SIGNED CORE_FIELD_SIGNED

struct port_attr {
    PyObject_HEAD
    struct ibv_port_attr attr;
};

/* The members of struct ibv_port_attr that every supported header has, in its order. */
#define PORT_ATTR(X, o)                                                                                                \
    X(o, state, state, NUMBER, "The logical state, a PortState value.")                                                \
    X(o, max_mtu, max_mtu, NUMBER, "The largest MTU the port can have, an MTU value.")                                 \
    X(o, active_mtu, active_mtu, NUMBER, "The MTU it has, an MTU value.")                                              \
    X(o, gid_tbl_len, gid_tbl_len, SIGNED, "How many entries the GID table has.")                                      \
    X(o, port_cap_flags, port_cap_flags, NUMBER, "Capabilities, enum ibv_port_cap_flags.")                             \
    X(o, max_msg_sz, max_msg_sz, NUMBER, "The longest message, in bytes.")                                             \
    X(o, bad_pkey_cntr, bad_pkey_cntr, NUMBER, "How many packets came with a wrong partition key.")                    \
    X(o, qkey_viol_cntr, qkey_viol_cntr, NUMBER, "How many packets came with a wrong Q_Key.")                          \
    X(o, pkey_tbl_len, pkey_tbl_len, NUMBER, "How many entries the partition table has.")                              \
    X(o, lid, lid, NUMBER, "The local identifier; 0 on Ethernet.")                                                     \
    X(o, sm_lid, sm_lid, NUMBER, "The subnet manager's local identifier.")                                             \
    X(o, lmc, lmc, NUMBER, "How many low bits of the LID choose a path.")                                              \
    X(o, max_vl_num, max_vl_num, NUMBER, "How many virtual lanes there are, encoded.")                                 \
    X(o, sm_sl, sm_sl, NUMBER, "The service level to the subnet manager.")                                             \
    X(o, subnet_timeout, subnet_timeout, NUMBER, "The subnet's propagation delay: 4.096 us << value.")                 \
    X(o, init_type_reply, init_type_reply, NUMBER, "How the subnet manager initialised the port.")                     \
    X(o, active_width, active_width, NUMBER, "The link's width, encoded: 1 1x, 2 4x, 4 8x, 8 12x, 16 2x.")             \
    X(o, active_speed, active_speed, NUMBER, "The speed of a lane, encoded: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR ...") \
    X(o, phys_state, phys_state, NUMBER, "The physical state: 3 disabled, 5 link up ...")                              \
    X(o, link_layer, link_layer, NUMBER, "0 unspecified, 1 InfiniBand, 2 Ethernet.")                                   \
    X(o, flags, flags, NUMBER, "1: every address vector needs a global route.")                                        \
    X(o, port_cap_flags2, port_cap_flags2, NUMBER, "Further capabilities, enum ibv_port_cap_flags2.")

CORE_ATTR_CLASS(port_attr, PORT_ATTR)

PyObject *core_port_attr_new(struct core_state *state, const struct ibv_port_attr *attr)
{
    return core_attr_new(state, CORE_TYPE_PORT_ATTR, attr, sizeof *attr);
}

static PyType_Slot port_attr_slots[] = {
    {Py_tp_doc, "PortAttr(*values, **fields)\n--\n\n"
                "A port's state and properties, as struct ibv_port_attr; Context.query_port() gives one."},
    CORE_ATTR_SLOTS(port_attr),
    {0, NULL},
};

const PyType_Spec core_port_attr_spec = {
    .basicsize = sizeof(struct port_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = port_attr_slots,
};
