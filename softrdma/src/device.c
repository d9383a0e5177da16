/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of devices, their addresses, and the calls that only ask about them. */
#include "device.h"

#include <unistd.h>

#include "config.h"
#include "efa/efa.h"
#include "nic.h"
#include "rxe/rxe.h"
#include "uverbs.h"

static struct device devices[CONFIG_MAX_DEVICES];
static const struct device_model *const models[] = {&rxe_model, &iwarp_model, &efa_model};

static const struct device_model *find_model(const char *name)
{
    for (size_t i = 0; i < NELEM(models); i++) {
        if (strcmp(models[i]->name, name) == 0)
            return models[i];
    }
    return NULL;
}

bool device_is_offered(const char *model, int make)
{
    const struct device_model *m = find_model(model);

    return m && (make < 0 || (m->has_make && m->has_make(make)));
}

int device_count(void)
{
    return config.ndevices;
}

const struct device *device_at(int index)
{
    return &devices[index];
}

static int count_of_model(const struct device_model *m, int before)
{
    int n = 0;

    for (int i = 0; i < before; i++)
        n += devices[i].model == m;
    return n;
}

/* Everything about a device follows from its place and its make, so every process of a fabric sees the same
 * machine. */
void device_init(void)
{
    for (int i = 0; i < config.ndevices; i++) {
        struct device *d = &devices[i];

        *d = (struct device){
            .index = i, .model = find_model(config.devices[i].model), .make = config.devices[i].make};
        d->number = count_of_model(d->model, i);
        d->model->describe(d);
    }
}

bool gid_is_empty(const uint8_t *gid)
{
    static const uint8_t zeros[16];

    return memcmp(gid, zeros, sizeof(zeros)) == 0;
}

bool gid_is_ipv4(const uint8_t *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

bool gid_is_multicast(const uint8_t *gid)
{
    return gid[0] == 0xff || (gid_is_ipv4(gid) && gid[12] >> 4 == 14);
}

int device_get_context(struct call *c)
{
    uint32_t vectors = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
    uint64_t core_support = c->device->model->core_support;
    int err = c->device->model->alloc_context ? c->device->model->alloc_context(c) : 0;

    if (!err)
        err = call_out(c, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors));
    if (!err)
        err = call_out(c, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &core_support, sizeof(core_support));
    return err;
}

int device_query_port(struct call *c)
{
    struct ib_uverbs_query_port_resp_ex out = {0};

    if (call_u64(c, UVERBS_ATTR_QUERY_PORT_PORT_NUM) != 1)
        return EINVAL;
    c->device->model->query_port(c->device, &out);
    if (nic_link_is_down(c->r, (uint32_t)c->device->index)) {
        out.legacy_resp.state = 1;      /* DOWN */
        out.legacy_resp.phys_state = 3; /* Disabled */
    }
    return call_out(c, UVERBS_ATTR_QUERY_PORT_RESP, &out, sizeof(out));
}

/* false: there is nothing at that index. */
static bool gid_entry(const struct call *c, uint32_t index, struct ib_uverbs_gid_entry *out)
{
    struct ib_uverbs_gid_entry e = {.gid_index = index,
                                    .port_num = 1,
                                    .gid_type = c->device->model->gid_type,
                                    .netdev_ifindex = c->device->netdev[0] ? (uint32_t)c->device->index + 2 : 0};

    if (!nic_gid(c->r, (uint32_t)c->device->index, index, (uint8_t *)e.gid))
        return false;
    *out = e;
    return true;
}

int device_query_gid_entry(struct call *c)
{
    uint32_t index = call_u32(c, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
    struct ib_uverbs_gid_entry e;

    if (call_u32(c, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS))
        return EINVAL;
    if (call_u32(c, UVERBS_ATTR_QUERY_GID_ENTRY_PORT) != 1 || index >= c->device->model->gid_table)
        return EINVAL;
    if (!gid_entry(c, index, &e))
        return ENODATA;
    return call_out(c, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &e, sizeof(e));
}

int device_query_gid_table(struct call *c)
{
    struct ib_uverbs_gid_entry table[NIC_GIDS];
    size_t room = call_size(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES) / sizeof(table[0]);
    uint64_t n = 0;
    int err;

    if (call_u32(c, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS))
        return EINVAL;
    if (call_u64(c, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE) != sizeof(table[0]))
        return EINVAL;
    for (uint32_t i = 0; i < NIC_GIDS; i++)
        n += gid_entry(c, i, &table[n]);
    if (n > room)
        return EINVAL;
    err = call_out(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, table, n * sizeof(table[0]));
    return err ? err : call_out(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n, sizeof(n));
}

int device_query(struct call *c)
{
    struct ib_uverbs_ex_query_device_resp out = {0};

    c->device->model->query_device(c->device, &out);
    return call_respond(c, &out.base, sizeof(out.base));
}

int device_query_ex(struct call *c)
{
    struct ib_uverbs_ex_query_device_resp out = {0};
    const struct ib_uverbs_ex_query_device *in = c->in;
    const struct device_model *m = c->device->model;

    if (in->comp_mask || in->reserved || call_size(c, UVERBS_ATTR_UHW_IN) ||
        (!m->query_device_driver && call_has(c, UVERBS_ATTR_UHW_OUT)))
        return EINVAL;
    c->device->model->query_device(c->device, &out);
    out.response_length = (uint32_t)min_u64(sizeof(out), call_size(c, UVERBS_ATTR_CORE_OUT));
    if (m->query_device_driver) {
        int err = m->query_device_driver(c);

        if (err)
            return err;
    }
    return call_respond(c, &out, sizeof(out));
}
