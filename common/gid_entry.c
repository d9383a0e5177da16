/* SPDX-License-Identifier: BSD-3-Clause */
/* The GidEntry class and the table that it comes from. See gid_entry.h. */
#include "gid_entry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "sysfs.h"
#include "verbs.h"

/* ---- the table ------------------------------------------------------------------------------------------------------ */

/* How many entries the tables of all ports have; 0 with the errno where the device does not tell. */
static size_t count_entries(struct ibv_context *context, int *ret_err)
{
    struct ibv_device_attr device = {0};
    struct ibv_port_attr port;
    size_t total = 0;

    *ret_err = verbs_errno(verbs.query_device(context, &device));
    for (int i = 1; !*ret_err && i <= device.phys_port_cnt; i++) {
        *ret_err = verbs_query_port(context, (uint8_t)i, &port);
        if (!*ret_err && port.gid_tbl_len > 0)
            total += (size_t)port.gid_tbl_len;
    }
    return *ret_err ? 0 : total;
}

/* All entries of all ports, into a block of as many. */
static int read_from_library(struct ibv_context *context, struct ibv_gid_entry *entries, size_t room, size_t *ret_count)
{
    ssize_t found;

    errno = 0;
    found = verbs.query_gid_table(context, entries, room, 0, sizeof *entries);
    if (found < 0 || (size_t)found > room)
        return found < 0 ? verbs_errno((int)found) : EPROTO;
    *ret_count = (size_t)found;
    return 0;
}

static uint32_t type_from_sysfs(const char *ibdev_path, uint8_t port_num, int index, bool ethernet)
{
    char type[32];

    sysfs_read(type, sizeof type, ibdev_path, "ports/%d/gid_attrs/types/%d", port_num, index);
    if (strcmp(type, "RoCE v2") == 0)
        return IBV_GID_TYPE_ROCE_V2;
    return ethernet ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_IB; /* "IB/RoCE v1", or a kernel without types */
}

/* The entries of one port, one by one. */
static int read_one_by_one(struct ibv_context *context, uint8_t port_num, struct ibv_gid_entry *entries, size_t room,
                           size_t *ret_count)
{
    const char *ibdev_path = context->device->ibdev_path;
    static const union ibv_gid none;
    struct ibv_port_attr port;
    union ibv_gid gid;
    size_t found = 0;
    int err = verbs_query_port(context, port_num, &port);

    for (int i = 0; !err && i < port.gid_tbl_len && found < room; i++) {
        errno = 0;
        err = verbs_errno(verbs.query_gid(context, port_num, i, &gid));
        if (err || memcmp(&gid, &none, sizeof gid) == 0)
            continue;
        entries[found++] = (struct ibv_gid_entry){
            .gid = gid,
            .gid_index = (uint32_t)i,
            .port_num = port_num,
            .gid_type = type_from_sysfs(ibdev_path, port_num, i, port.link_layer == IBV_LINK_LAYER_ETHERNET),
        };
    }
    *ret_count = found;
    return err;
}

/* The name that sysfs gives, which is right in every network namespace, or else the one behind the number. */
static void find_netdev(const char *ibdev_path, struct core_gid_row *row)
{
    char name[64];

    sysfs_read(name, sizeof name, ibdev_path, "ports/%u/gid_attrs/ndevs/%u", row->entry.port_num, row->entry.gid_index);
    if (*name && strlen(name) < sizeof row->netdev) {
        strcpy(row->netdev, name);
        if (!row->entry.ndev_ifindex)
            row->entry.ndev_ifindex = if_nametoindex(name);
    } else if (row->entry.ndev_ifindex && !if_indextoname(row->entry.ndev_ifindex, row->netdev)) {
        row->netdev[0] = '\0';
    }
}

int core_gid_table_read(struct ibv_context *context, uint8_t port_num, struct core_gid_row **ret_rows,
                        size_t *ret_count)
{
    struct ibv_gid_entry *entries;
    struct core_gid_row *rows;
    size_t room, found = 0, kept = 0;
    struct ibv_port_attr port;
    int err = verbs_query_port(context, port_num, &port); /* is there such a port? */

    room = err ? 0 : count_entries(context, &err);
    if (err)
        return err;
    entries = calloc(room + 1, sizeof *entries);
    rows = calloc(room + 1, sizeof *rows);
    if (!entries || !rows) {
        err = ENOMEM;
        goto done;
    }
    if (verbs.query_gid_table)
        err = read_from_library(context, entries, room, &found);
    else
        err = read_one_by_one(context, port_num, entries, room, &found);
    for (size_t i = 0; !err && i < found; i++) {
        if (entries[i].port_num != port_num)
            continue;
        rows[kept].entry = entries[i];
        find_netdev(context->device->ibdev_path, &rows[kept++]);
    }
done:
    free(entries);
    if (err) {
        free(rows);
        return err;
    }
    *ret_rows = rows;
    *ret_count = kept;
    return 0;
}

/* ---- the class ------------------------------------------------------------------------------------------------------ */

#define NUMBER CORE_FIELD_UNSIGNED

struct gid_entry {
    PyObject_HEAD
    struct core_gid_row attr;
};

#define GID_ENTRY(X, o)                                                                                                \
    X(o, gid, entry.gid, CORE_FIELD_GID, "The GID.")                                                                   \
    X(o, gid_index, entry.gid_index, NUMBER, "Its index in the port's table.")                                         \
    X(o, port_num, entry.port_num, NUMBER, "The port.")                                                                \
    X(o, gid_type, entry.gid_type, NUMBER, "What it is, a GidType value.")                                             \
    X(o, ndev_ifindex, entry.ndev_ifindex, NUMBER, "The number of its network device; 0 where it has none.")           \
    X(o, netdev, netdev, CORE_FIELD_TEXT, "The name of its network device; empty where it has none.")

CORE_ATTR_RECORD(gid_entry, GID_ENTRY)

PyObject *core_gid_entry_new(struct core_state *state, const struct core_gid_row *row)
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
