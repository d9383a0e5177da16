/* SPDX-License-Identifier: BSD-3-Clause */
/* The DeviceAttr class. See device_attr.h. */
#include "device_attr.h"

#include "device.h"
#include "field.h"

#define NUMBER CORE_FIELD_UNSIGNED
#define SIGNED CORE_FIELD_SIGNED

struct device_attr {
    PyObject_HEAD
    struct ibv_device_attr attr;
};

/* Every member of struct ibv_device_attr, in its order. */
#define DEVICE_ATTR(X, o)                                                                                              \
    X(o, fw_ver, fw_ver, CORE_FIELD_TEXT, "The firmware version.")                                                     \
    X(o, node_guid, node_guid, NUMBER, "The node GUID: network byte order read as an integer.")                        \
    X(o, sys_image_guid, sys_image_guid, NUMBER, "The system image GUID: network byte order read as an integer.")      \
    X(o, max_mr_size, max_mr_size, NUMBER, "The longest memory region, in bytes.")                                     \
    X(o, page_size_cap, page_size_cap, NUMBER, "The page sizes that a memory region can have, a bit for each.")        \
    X(o, vendor_id, vendor_id, NUMBER, "The vendor's IEEE number.")                                                    \
    X(o, vendor_part_id, vendor_part_id, NUMBER, "The vendor's number for the part.")                                  \
    X(o, hw_ver, hw_ver, NUMBER, "The vendor's number for the hardware version.")                                      \
    X(o, max_qp, max_qp, SIGNED, "How many queue pairs there can be.")                                                 \
    X(o, max_qp_wr, max_qp_wr, SIGNED, "How many requests a work queue can hold.")                                     \
    X(o, device_cap_flags, device_cap_flags, NUMBER, "Capabilities, enum ibv_device_cap_flags.")                       \
    X(o, max_sge, max_sge, SIGNED, "How many scatter/gather entries a request can have.")                              \
    X(o, max_sge_rd, max_sge_rd, SIGNED, "The same for an RDMA read.")                                                 \
    X(o, max_cq, max_cq, SIGNED, "How many completion queues there can be.")                                           \
    X(o, max_cqe, max_cqe, SIGNED, "How many completions a queue can hold.")                                           \
    X(o, max_mr, max_mr, SIGNED, "How many memory regions there can be.")                                              \
    X(o, max_pd, max_pd, SIGNED, "How many protection domains there can be.")                                          \
    X(o, max_qp_rd_atom, max_qp_rd_atom, SIGNED, "How many reads and atomics a queue pair can serve at once.")         \
    X(o, max_ee_rd_atom, max_ee_rd_atom, SIGNED, "The same for an end-to-end context.")                                \
    X(o, max_res_rd_atom, max_res_rd_atom, SIGNED, "How many reads and atomics the device can serve at once.")         \
    X(o, max_qp_init_rd_atom, max_qp_init_rd_atom, SIGNED, "Reads and atomics that a queue pair can have under way.")  \
    X(o, max_ee_init_rd_atom, max_ee_init_rd_atom, SIGNED, "The same for an end-to-end context.")                      \
    X(o, atomic_cap, atomic_cap, NUMBER, "What atomics are atomic with: 0 none, 1 the device, 2 everything.")          \
    X(o, max_ee, max_ee, SIGNED, "How many end-to-end contexts there can be.")                                         \
    X(o, max_rdd, max_rdd, SIGNED, "How many reliable datagram domains there can be.")                                 \
    X(o, max_mw, max_mw, SIGNED, "How many memory windows there can be.")                                              \
    X(o, max_raw_ipv6_qp, max_raw_ipv6_qp, SIGNED, "How many raw IPv6 queue pairs there can be.")                      \
    X(o, max_raw_ethy_qp, max_raw_ethy_qp, SIGNED, "How many raw Ethertype queue pairs there can be.")                 \
    X(o, max_mcast_grp, max_mcast_grp, SIGNED, "How many multicast groups there can be.")                              \
    X(o, max_mcast_qp_attach, max_mcast_qp_attach, SIGNED, "How many queue pairs can join one group.")                 \
    X(o, max_total_mcast_qp_attach, max_total_mcast_qp_attach, SIGNED, "How many joins there can be in all.")          \
    X(o, max_ah, max_ah, SIGNED, "How many address handles there can be.")                                             \
    X(o, max_fmr, max_fmr, SIGNED, "How many fast memory regions there can be.")                                       \
    X(o, max_map_per_fmr, max_map_per_fmr, SIGNED, "How often such a region can be remapped.")                         \
    X(o, max_srq, max_srq, SIGNED, "How many shared receive queues there can be.")                                     \
    X(o, max_srq_wr, max_srq_wr, SIGNED, "How many requests one can hold.")                                            \
    X(o, max_srq_sge, max_srq_sge, SIGNED, "How many scatter/gather entries such a request can have.")                 \
    X(o, max_pkeys, max_pkeys, NUMBER, "How many partitions there can be.")                                            \
    X(o, local_ca_ack_delay, local_ca_ack_delay, NUMBER, "How long it takes to acknowledge: 4.096 us << value.")       \
    X(o, phys_port_cnt, phys_port_cnt, NUMBER, "How many ports the device has.")

CORE_ATTR_RECORD(device_attr, DEVICE_ATTR)

PyObject *core_device_attr_new(struct core_state *state, const struct ibv_device_attr *attr)
{
    return core_attr_new(state, CORE_TYPE_DEVICE_ATTR, attr, sizeof *attr);
}

static PyObject *guid_text(PyObject *op, void *field)
{
    const struct device_attr *self = (struct device_attr *)op;

    return core_guid_text(field == &device_attr_fields[device_attr_node_guid] ? self->attr.node_guid
                                                                              : self->attr.sys_image_guid);
}

static PyGetSetDef device_attr_getset[] = {
    DEVICE_ATTR(CORE_ATTR_ROW, device_attr)
    {"node_guid_str", guid_text, NULL, "The node GUID as ibv_devinfo prints it.",
     (void *)&device_attr_fields[device_attr_node_guid]},
    {"sys_image_guid_str", guid_text, NULL, "The system image GUID as ibv_devinfo prints it.",
     (void *)&device_attr_fields[device_attr_sys_image_guid]},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot device_attr_slots[] = {
    {Py_tp_doc, "DeviceAttr(*values, **fields)\n--\n\n"
                "A device's limits and identity, as struct ibv_device_attr; Context.query_device() gives one."},
    CORE_ATTR_SLOTS(device_attr),
    {0, NULL},
};

const PyType_Spec core_device_attr_spec = {
    .basicsize = sizeof(struct device_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = device_attr_slots,
};
