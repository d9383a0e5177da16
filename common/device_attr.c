/* SPDX-License-Identifier: BSD-3-Clause */
/* The DeviceAttr class. See device_attr.h. */
#include "device_attr.h"

#include "device.h"
#include "field.h"

struct core_device_attr {
    PyObject_HEAD
    struct ibv_device_attr attr;
};

/* Every member of struct ibv_device_attr, in its order. */
#define DEVICE_ATTR_FIELDS(X)                                                                                          \
    X(fw_ver, CORE_FIELD_TEXT, "The firmware version.")                                                                \
    X(node_guid, CORE_FIELD_UNSIGNED, "The node GUID: network byte order read as an integer.")                         \
    X(sys_image_guid, CORE_FIELD_UNSIGNED, "The system image GUID: network byte order read as an integer.")            \
    X(max_mr_size, CORE_FIELD_UNSIGNED, "The longest memory region, in bytes.")                                        \
    X(page_size_cap, CORE_FIELD_UNSIGNED, "The page sizes that a memory region can have, a bit for each.")             \
    X(vendor_id, CORE_FIELD_UNSIGNED, "The vendor's IEEE number.")                                                     \
    X(vendor_part_id, CORE_FIELD_UNSIGNED, "The vendor's number for the part.")                                        \
    X(hw_ver, CORE_FIELD_UNSIGNED, "The vendor's number for the hardware version.")                                    \
    X(max_qp, CORE_FIELD_SIGNED, "How many queue pairs there can be.")                                                 \
    X(max_qp_wr, CORE_FIELD_SIGNED, "How many requests a work queue can hold.")                                        \
    X(device_cap_flags, CORE_FIELD_UNSIGNED, "Capabilities, enum ibv_device_cap_flags.")                               \
    X(max_sge, CORE_FIELD_SIGNED, "How many scatter/gather entries a request can have.")                               \
    X(max_sge_rd, CORE_FIELD_SIGNED, "The same for an RDMA read.")                                                     \
    X(max_cq, CORE_FIELD_SIGNED, "How many completion queues there can be.")                                           \
    X(max_cqe, CORE_FIELD_SIGNED, "How many completions a queue can hold.")                                            \
    X(max_mr, CORE_FIELD_SIGNED, "How many memory regions there can be.")                                              \
    X(max_pd, CORE_FIELD_SIGNED, "How many protection domains there can be.")                                          \
    X(max_qp_rd_atom, CORE_FIELD_SIGNED, "How many reads and atomics a queue pair can serve at once.")                 \
    X(max_ee_rd_atom, CORE_FIELD_SIGNED, "The same for an end-to-end context.")                                        \
    X(max_res_rd_atom, CORE_FIELD_SIGNED, "How many reads and atomics the device can serve at once.")                  \
    X(max_qp_init_rd_atom, CORE_FIELD_SIGNED, "How many reads and atomics a queue pair can have under way.")           \
    X(max_ee_init_rd_atom, CORE_FIELD_SIGNED, "The same for an end-to-end context.")                                   \
    X(atomic_cap, CORE_FIELD_UNSIGNED, "What atomics are atomic with: 0 none, 1 the device, 2 everything.")            \
    X(max_ee, CORE_FIELD_SIGNED, "How many end-to-end contexts there can be.")                                         \
    X(max_rdd, CORE_FIELD_SIGNED, "How many reliable datagram domains there can be.")                                  \
    X(max_mw, CORE_FIELD_SIGNED, "How many memory windows there can be.")                                              \
    X(max_raw_ipv6_qp, CORE_FIELD_SIGNED, "How many raw IPv6 queue pairs there can be.")                               \
    X(max_raw_ethy_qp, CORE_FIELD_SIGNED, "How many raw Ethertype queue pairs there can be.")                          \
    X(max_mcast_grp, CORE_FIELD_SIGNED, "How many multicast groups there can be.")                                     \
    X(max_mcast_qp_attach, CORE_FIELD_SIGNED, "How many queue pairs can join one group.")                              \
    X(max_total_mcast_qp_attach, CORE_FIELD_SIGNED, "How many joins there can be in all.")                             \
    X(max_ah, CORE_FIELD_SIGNED, "How many address handles there can be.")                                             \
    X(max_fmr, CORE_FIELD_SIGNED, "How many fast memory regions there can be.")                                        \
    X(max_map_per_fmr, CORE_FIELD_SIGNED, "How often such a region can be remapped.")                                  \
    X(max_srq, CORE_FIELD_SIGNED, "How many shared receive queues there can be.")                                      \
    X(max_srq_wr, CORE_FIELD_SIGNED, "How many requests one can hold.")                                                \
    X(max_srq_sge, CORE_FIELD_SIGNED, "How many scatter/gather entries such a request can have.")                      \
    X(max_pkeys, CORE_FIELD_UNSIGNED, "How many partitions there can be.")                                             \
    X(local_ca_ack_delay, CORE_FIELD_UNSIGNED, "How long the device takes to acknowledge: 4.096 us << value.")         \
    X(phys_port_cnt, CORE_FIELD_UNSIGNED, "How many ports the device has.")

enum device_attr_index {
#define INDEX(name, kind, doc) AT_##name,
    DEVICE_ATTR_FIELDS(INDEX)
#undef INDEX
        FIELD_COUNT
};

static const struct core_field fields[] = {
#define FIELD(name, kind, doc) CORE_FIELD_OF_KIND(core_device_attr, attr.name, #name, kind),
    DEVICE_ATTR_FIELDS(FIELD)
#undef FIELD
};
static const struct core_record record = {fields, FIELD_COUNT};

PyObject *core_device_attr_new(struct core_state *state, const struct ibv_device_attr *attr)
{
    struct core_device_attr *self = (struct core_device_attr *)core_record_alloc(state, CORE_TYPE_DEVICE_ATTR);

    if (self)
        self->attr = *attr;
    return (PyObject *)self;
}

static PyObject *guid_text(PyObject *self, void *field)
{
    const struct core_device_attr *attr = (struct core_device_attr *)self;

    return core_guid_text(field == &fields[AT_node_guid] ? attr->attr.node_guid : attr->attr.sys_image_guid);
}

CORE_CONSTANT_RECORD_FUNCTIONS(device_attr, record)

static PyMethodDef device_attr_methods[] = {CORE_RECORD_METHOD(device_attr), {NULL, NULL, 0, NULL}};

static PyGetSetDef device_attr_getset[] = {
#define ROW(name, kind, doc) {#name, core_field_get, NULL, doc, (void *)&fields[AT_##name]},
    DEVICE_ATTR_FIELDS(ROW)
#undef ROW
    {"node_guid_str", guid_text, NULL, "The node GUID as ibv_devinfo prints it.", (void *)&fields[AT_node_guid]},
    {"sys_image_guid_str", guid_text, NULL, "The system image GUID as ibv_devinfo prints it.",
     (void *)&fields[AT_sys_image_guid]},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot device_attr_slots[] = {
    {Py_tp_doc, "DeviceAttr(*values, **fields)\n--\n\n"
                "A device's limits and identity, as struct ibv_device_attr; Context.query_device() gives one."},
    CORE_RECORD_SLOTS(device_attr, device_attr_new, device_attr_hash),
    {Py_tp_getset, device_attr_getset},
    {0, NULL},
};

const PyType_Spec core_device_attr_spec = {
    .basicsize = sizeof(struct core_device_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = device_attr_slots,
};
