/* SPDX-License-Identifier: BSD-3-Clause */
/* The GidEntry class. See gid_entry.h. */
#include "gid_entry.h"

#include "field.h"

#define NUMBER CORE_FIELD_UNSIGNED

struct gid_entry {
    PyObject_HEAD
    struct gid_row attr;
};

#define GID_ENTRY(X, o)                                                                                                \
    X(o, gid, entry.gid, CORE_FIELD_GID, "The GID.")                                                                   \
    X(o, gid_index, entry.gid_index, NUMBER, "Its index in the port's table.")                                         \
    X(o, port_num, entry.port_num, NUMBER, "The port.")                                                                \
    X(o, gid_type, entry.gid_type, NUMBER, "What it is, a GidType value.")                                             \
    X(o, ndev_ifindex, entry.ndev_ifindex, NUMBER, "The number of its network device; 0 where it has none.")           \
    X(o, netdev, netdev, CORE_FIELD_TEXT, "The name of its network device; empty where it has none.")

CORE_ATTR_RECORD(gid_entry, GID_ENTRY)

PyObject *core_gid_entry_new(struct core_state *state, const struct gid_row *row)
{
    return core_attr_new(state, CORE_TYPE_GID_ENTRY, row, sizeof *row);
}

static PyObject *get_type_str(PyObject *op, void *ignored)
{
    static const char *const names[] = {
        [IBV_GID_TYPE_IB] = "IB", [IBV_GID_TYPE_ROCE_V1] = "RoCE v1", [IBV_GID_TYPE_ROCE_V2] = "RoCE v2"};
    uint32_t type = ((struct gid_entry *)op)->attr.entry.gid_type;

    (void)ignored;
    return PyUnicode_FromString(type < sizeof names / sizeof *names ? names[type] : "unknown");
}

static PyGetSetDef gid_entry_getset[] = {
    GID_ENTRY(CORE_ATTR_ROW, gid_entry)
    {"gid_type_str", get_type_str, NULL, "What it is, as sysfs writes it: IB, RoCE v1 or RoCE v2.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot gid_entry_slots[] = {
    {Py_tp_doc, "GidEntry(gid=None, gid_index=0, port_num=0, gid_type=0, ndev_ifindex=0, netdev='')\n--\n\n"
                "An entry of a port's GID table, as struct ibv_gid_entry; Context.query_gid_table() gives them."},
    CORE_ATTR_SLOTS(gid_entry),
    {0, NULL},
};

const PyType_Spec core_gid_entry_spec = {
    .basicsize = sizeof(struct gid_entry),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = gid_entry_slots,
};
