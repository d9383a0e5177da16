/* SPDX-License-Identifier: BSD-3-Clause */
/* The Device class and the device list. See device.h. */
#include "device.h"

#include <errno.h>
#include <string.h>

#include "args.h"
#include "context.h"
#include "error.h"
#include "field.h"
#include "verbs.h"

struct core_device {
    PyObject_HEAD
    char name[IBV_SYSFS_NAME_MAX];
    uint64_t guid; /* network byte order, as the library gives it */
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

static PyObject *device_from(struct core_state *state, struct ibv_device *device)
{
    struct core_device *self = (struct core_device *)core_record_alloc(state, CORE_TYPE_DEVICE);
    const char *name = verbs.get_device_name(device);

    if (self) {
        snprintf(self->name, sizeof self->name, "%s", name ? name : "");
        self->guid = verbs.get_device_guid(device);
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

/* Opens the device of this name; the list's other devices need not work. Without the GIL. */
static struct ibv_context *open_by_name(struct ibv_device **list, const struct core_device *self, int *ret_err,
                                        uint64_t *ret_guid)
{
    struct ibv_context *context = NULL;

    *ret_err = ENODEV;
    *ret_guid = self->guid;
    for (; list && *list; list++) {
        if (strncmp(verbs.get_device_name(*list), self->name, sizeof self->name) != 0)
            continue;
        *ret_guid = verbs.get_device_guid(*list);
        if (*ret_guid != self->guid)
            continue;
        errno = 0;
        context = verbs.open_device(*list);
        *ret_err = context ? 0 : verbs_last_errno();
        break;
    }
    return context;
}

static PyObject *raise_not_opened(struct core_state *state, const struct core_device *self, int err, uint64_t guid)
{
    PyObject *mine, *theirs;

    if (err != ENODEV)
        return core_raise_format(state, err, "ibv_open_device", "device %s", self->name);
    if (guid == self->guid)
        return core_raise_format(state, err, "Device.open", "there is no device %s", self->name);

    mine = core_guid_text(self->guid);
    theirs = core_guid_text(guid);
    if (mine && theirs)
        core_raise_format(state, err, "Device.open", "device %s has GUID %U now, not %U", self->name, theirs, mine);
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
        if (!context)
            raise_not_opened(state, self, err, guid);
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
