/* SPDX-License-Identifier: BSD-3-Clause */
/* A port's GID table. See gid_table.h. */
#include "gid_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sysfs.h"
#include "verbs.h"

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
static void find_netdev(const char *ibdev_path, struct gid_row *row)
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

int gid_table_read(struct ibv_context *context, uint8_t port_num, struct gid_row **ret_rows, size_t *ret_count)
{
    struct ibv_gid_entry *entries;
    struct gid_row *rows;
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
