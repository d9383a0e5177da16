/* SPDX-License-Identifier: BSD-3-Clause */
/* The Device class and the device list. See device.h. */
#include "device.h"

#include <errno.h>
#include <string.h>

#include "args.h"
#include "context.h"
#include "error.h"
#include "field.h"
#include "sysfs.h"
#include "verbs.h"

/* What the library knows of a device beside its name and GUID. */
struct facts {
    int node_type;
    int transport_type;
    int index; /* -1: not known */
    char ibdev_path[IBV_SYSFS_PATH_MAX];
};

struct core_device {
    PyObject_HEAD
    char name[IBV_SYSFS_NAME_MAX];
    uint64_t guid; /* network byte order, as the library gives it */
    /* No part of the value: one that was made from name and GUID finds them in a fresh device list when asked. */
    struct facts facts;
    bool has_facts;
};

static const struct core_field device_fields[] = {
    CORE_FIELD_OF_KIND(core_device, name, "name", CORE_FIELD_TEXT),
    CORE_FIELD(core_device, guid, "guid"),
};
static const struct core_record device_record = {device_fields, 2};

PyObject *core_guid_text(uint64_t guid)
{
    const uint8_t *b = (const uint8_t *)&guid;
    char text[20];

    snprintf(text, sizeof text, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
    return PyUnicode_FromString(text);
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

static struct facts read_facts(struct ibv_device *device)
{
    struct facts facts = {
        .node_type = (int)device->node_type,
        .transport_type = (int)device->transport_type,
        .index = verbs.get_device_index ? verbs.get_device_index(device) : -1,
    };

    memcpy(facts.ibdev_path, device->ibdev_path, sizeof facts.ibdev_path);
    return facts;
}

static PyObject *device_from(struct core_state *state, struct ibv_device *device)
{
    struct core_device *self = (struct core_device *)core_record_alloc(state, CORE_TYPE_DEVICE);
    const char *name = verbs.get_device_name(device);

    if (self) {
        snprintf(self->name, sizeof self->name, "%s", name ? name : "");
        self->guid = verbs.get_device_guid(device);
        self->facts = read_facts(device);
        self->has_facts = true;
    }
    return (PyObject *)self;
}

/* The library's list, without the GIL; NULL with an errno in `ret_err`, which is 0 where there just are none. */
static struct ibv_device **take_list(int *ret_err)
{
    struct ibv_device **list;
    int err = 0;

    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    list = verbs.get_device_list(NULL);
    if (!list && errno != ENOSYS) /* ENOSYS: this machine's kernel has no RDMA */
        err = verbs_last_errno();
    Py_END_ALLOW_THREADS
    *ret_err = err;
    return list;
}

PyObject *core_get_device_list(PyObject *module, PyObject *ignored)
{
    struct core_state *state = core_state_of_module(module);
    struct ibv_device **list;
    PyObject *result;
    int err;

    (void)ignored;
    if (!state)
        return NULL;
    list = take_list(&err);
    if (err)
        return core_raise(state, err, "ibv_get_device_list", NULL);

    result = PyList_New(0);
    for (struct ibv_device **next = list; result && next && *next; next++) {
        PyObject *device = device_from(state, *next);
        if (!device || PyList_Append(result, device) < 0)
            Py_CLEAR(result);
        Py_XDECREF(device);
    }
    if (list)
        verbs.free_device_list(list);
    return result;
}

/* ---- the class ------------------------------------------------------------------------------------------------- */

static const struct core_params new_params = {"Device", 2, 2, {CORE_NAME_name, CORE_NAME_guid}};

static PyObject *make(struct core_state *state, PyTypeObject *type, PyObject **values)
{
    PyObject *self = PyType_GenericAlloc(type, 0);

    for (int i = 0; self && i < 2; i++)
        if (core_field_store(state, self, &device_fields[i], values[i]) < 0)
            Py_CLEAR(self);
    return self;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_construct(type, args, kwargs, &new_params, make);
}

/*
 * The device of this name and GUID in a list, borrowed from that; NULL where there is none, with the GUID that goes by the
 * name now in `ret_guid`.
 */
static struct ibv_device *find_by_name(struct ibv_device **list, const struct core_device *self, uint64_t *ret_guid)
{
    *ret_guid = self->guid;
    for (; list && *list; list++) {
        if (strncmp(verbs.get_device_name(*list), self->name, sizeof self->name) != 0)
            continue;
        *ret_guid = verbs.get_device_guid(*list);
        if (*ret_guid == self->guid)
            return *list;
    }
    return NULL;
}

/* Opens the device of this name; the list's other devices need not work. Without the GIL. */
static struct ibv_context *open_by_name(struct ibv_device **list, const struct core_device *self, int *ret_err,
                                        uint64_t *ret_guid)
{
    struct ibv_device *device = find_by_name(list, self, ret_guid);
    struct ibv_context *context = NULL;

    *ret_err = ENODEV;
    if (device) {
        errno = 0;
        context = verbs.open_device(device);
        *ret_err = context ? 0 : verbs_last_errno();
    }
    return context;
}

/* The device is not in the list, or another one goes by its name. */
static PyObject *raise_gone(struct core_state *state, const struct core_device *self, const char *operation,
                            uint64_t guid)
{
    PyObject *mine, *theirs;

    if (guid == self->guid)
        return core_raise_format(state, ENODEV, operation, "there is no device %s", self->name);

    mine = core_guid_text(self->guid);
    theirs = core_guid_text(guid);
    if (mine && theirs)
        core_raise_format(state, ENODEV, operation, "device %s has GUID %U now, not %U", self->name, theirs, mine);
    Py_XDECREF(mine);
    Py_XDECREF(theirs);
    return NULL;
}

static PyObject *device_open(PyObject *op, PyObject *ignored)
{
    struct core_device *self = (struct core_device *)op;
    PyObject *module = core_module_of(Py_TYPE(op)), *result;
    struct core_state *state = module ? core_state_of_module(module) : NULL;
    struct ibv_context *context;
    struct ibv_device **list;
    uint64_t guid;
    int err;

    (void)ignored;
    if (!state)
        return NULL;
    result = core_context_new(state, module);
    if (!result)
        return NULL;

    list = take_list(&err);
    if (!err) {
        Py_BEGIN_ALLOW_THREADS
        context = open_by_name(list, self, &err, &guid);
        if (list)
            verbs.free_device_list(list);
        Py_END_ALLOW_THREADS
        if (context && core_context_attach(result, context) == 0)
            return result;
        if (!context && err == ENODEV)
            raise_gone(state, self, "Device.open", guid);
        else if (!context)
            core_raise_format(state, err, "ibv_open_device", "device %s", self->name);
    } else {
        core_raise(state, err, "ibv_get_device_list", NULL);
    }
    Py_DECREF(result);
    return NULL;
}

static PyObject *device_guid_str(PyObject *self, void *ignored)
{
    (void)ignored;
    return core_guid_text(((struct core_device *)self)->guid);
}

/* ---- facts ------------------------------------------------------------------------------------------------------ */

/* What the library knows of the device, looked up if it is not known yet; NULL with an exception. */
static const struct facts *facts_of(PyObject *op, const char *operation)
{
    struct core_device *self = (struct core_device *)op;
    struct core_state *state = core_state_of(Py_TYPE(op));
    struct ibv_device **list, *device;
    struct facts facts;
    uint64_t guid;
    int err;

    if (self->has_facts)
        return &self->facts;
    if (!state)
        return NULL;
    list = take_list(&err);
    if (err) {
        core_raise(state, err, "ibv_get_device_list", NULL);
        return NULL;
    }
    device = find_by_name(list, self, &guid);
    if (device)
        facts = read_facts(device);
    if (list)
        verbs.free_device_list(list);
    if (!device) {
        raise_gone(state, self, operation, guid);
        return NULL;
    }
    self->facts = facts;
    self->has_facts = true;
    return &self->facts;
}

static PyObject *device_node_type(PyObject *self, void *operation)
{
    const struct facts *facts = facts_of(self, operation);

    return facts ? PyLong_FromLong(facts->node_type) : NULL;
}

static PyObject *device_transport_type(PyObject *self, void *operation)
{
    const struct facts *facts = facts_of(self, operation);

    return facts ? PyLong_FromLong(facts->transport_type) : NULL;
}

static PyObject *number_or_none(int number)
{
    if (number < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(number);
}

static PyObject *device_index(PyObject *self, void *operation)
{
    const struct facts *facts = facts_of(self, operation);

    return facts ? number_or_none(facts->index) : NULL;
}

static PyObject *device_numa_node(PyObject *self, void *operation)
{
    const struct facts *facts = facts_of(self, operation);

    return facts ? number_or_none(sysfs_numa_node(facts->ibdev_path)) : NULL;
}

static PyObject *device_pci_address(PyObject *self, void *operation)
{
    const struct facts *facts = facts_of(self, operation);
    char text[32];

    if (!facts)
        return NULL;
    if (!sysfs_pci_address(facts->ibdev_path, text, sizeof text))
        Py_RETURN_NONE;
    return PyUnicode_FromString(text);
}

static PyObject *device_netdevs(PyObject *self, void *operation)
{
    const struct facts *facts = facts_of(self, operation);
    struct sysfs_netdevs found;
    PyObject *list;

    if (!facts)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    sysfs_find_netdevs(facts->ibdev_path, &found);
    Py_END_ALLOW_THREADS
    list = PyList_New(found.count);
    for (int i = 0; list && i < found.count; i++) {
        PyObject *name = PyUnicode_DecodeFSDefault(found.names[i]);
        if (!name || PyList_SetItem(list, i, name) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* ---- the class's functions ---------------------------------------------------------------------------------------- */

static PyObject *device_repr(PyObject *op)
{
    struct core_device *self = (struct core_device *)op;

    return PyUnicode_FromFormat("Device(name='%s', guid=%s)", self->name, core_hex(self->guid).text);
}

static PyObject *device_compare(PyObject *self, PyObject *other, int op)
{
    return core_record_compare(self, other, op, &device_record);
}

static Py_hash_t device_hash(PyObject *self)
{
    return core_record_hash(self, &device_record);
}

static PyObject *device_reduce(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return core_record_reduce(self, &device_record);
}

static PyGetSetDef device_getset[] = {
    {"name", core_field_get, NULL, "The device's name, as rdma and ibv_devices list it.", (void *)&device_fields[0]},
    {"guid", core_field_get, NULL, "The node GUID as the library gives it: network byte order read as an integer.",
     (void *)&device_fields[1]},
    {"guid_str", device_guid_str, NULL, "The node GUID as ibv_devinfo prints it.", NULL},
    {"node_type", device_node_type, NULL, "What kind of device it is, a NodeType value.", "Device.node_type"},
    {"transport_type", device_transport_type, NULL, "What its queue pairs speak, a TransportType value.",
     "Device.transport_type"},
    {"index", device_index, NULL, "The kernel's number for it, or None. ibv_get_device_index.", "Device.index"},
    {"pci_address", device_pci_address, NULL, "Its PCI address, as in 0000:3b:00.0, or None.", "Device.pci_address"},
    {"numa_node", device_numa_node, NULL, "The NUMA node that it is attached to, or None.", "Device.numa_node"},
    {"netdevs", device_netdevs, NULL, "The names of the network devices that belong to it.", "Device.netdevs"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef device_methods[] = {
    {"open", device_open, METH_NOARGS,
     "open($self)\n--\n\nOpen the device and return its Context; ENODEV if it is gone. ibv_open_device."},
    {"__reduce__", device_reduce, METH_NOARGS, "How a Device is pickled and copied."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot device_slots[] = {
    {Py_tp_doc, "Device(name, guid)\n--\n\nAn RDMA device by name and node GUID; get_device_list() gives those there are."},
    {Py_tp_new, device_new},
    {Py_tp_dealloc, core_value_dealloc},
    {Py_tp_repr, device_repr},
    {Py_tp_richcompare, device_compare},
    {Py_tp_hash, device_hash},
    {Py_tp_getset, device_getset},
    {Py_tp_methods, device_methods},
    {0, NULL},
};

const PyType_Spec core_device_spec = {
    .basicsize = sizeof(struct core_device),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = device_slots,
};
