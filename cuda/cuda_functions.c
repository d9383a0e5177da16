/* SPDX-License-Identifier: BSD-3-Clause */
/* Private functions over the driver. See cuda_functions.h. */
#include "cuda_functions.h"

#include <stdlib.h>

#include "export.h"
#include "order.h"
#include "pointer.h"

static const char *const kind_names[] = {
    [CUDA_KIND_HOST] = "host",     [CUDA_KIND_PINNED] = "pinned",     [CUDA_KIND_MANAGED] = "managed",
    [CUDA_KIND_DEVICE] = "device", [CUDA_KIND_POOL] = "pool",         [CUDA_KIND_VMM] = "vmm",
    [CUDA_KIND_OTHER] = "other",   [CUDA_KIND_VMM_HOST] = "vmm-host", [CUDA_KIND_UNMAPPED] = "unmapped",
};

static unsigned long long as_number(const void *pointer)
{
    return (unsigned long long)(uintptr_t)pointer;
}

static void *as_pointer(unsigned long long number)
{
    return (void *)(uintptr_t)number;
}

/* (operation, code) and what the call gave, which is taken over; None where it failed. */
static PyObject *answer(const struct cuda_fault *fault, PyObject *value)
{
    if (!value)
        return NULL;
    return Py_BuildValue("siN", fault->operation, fault->code, value);
}

static PyObject *nothing(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

/* ---- the library ------------------------------------------------------------------------------------------------- */

static PyObject *open_driver(PyObject *module, PyObject *ignored)
{
    char reason[1024];

    (void)module;
    (void)ignored;
    if (loader_load(&cuda_library, reason, sizeof reason) < 0)
        return PyUnicode_DecodeLocale(reason, "surrogateescape");
    return nothing();
}

static PyObject *since(PyObject *module, PyObject *args)
{
    const char *function;

    (void)module;
    return PyArg_ParseTuple(args, "s", &function) ? PyUnicode_FromString(loader_since(&cuda_library, function)) : NULL;
}

static PyObject *init(PyObject *module, PyObject *ignored)
{
    struct cuda_fault fault;

    (void)module;
    (void)ignored;
    Py_BEGIN_ALLOW_THREADS
    cuda_driver_init(&fault);
    Py_END_ALLOW_THREADS
    return answer(&fault, nothing());
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static PyObject *version(PyObject *module, PyObject *ignored)
{
    struct cuda_fault fault;
    int number = 0;

    (void)module;
    (void)ignored;
    Py_BEGIN_ALLOW_THREADS
    (void)CUDA_CALL(&fault, cuDriverGetVersion, &number);
    Py_END_ALLOW_THREADS
    return answer(&fault, PyLong_FromLong(number));
}

static PyObject *device_count(PyObject *module, PyObject *ignored)
{
    struct cuda_fault fault;
    int count = 0;

    (void)module;
    (void)ignored;
    Py_BEGIN_ALLOW_THREADS
    (void)CUDA_CALL(&fault, cuDeviceGetCount, &count);
    Py_END_ALLOW_THREADS
    return answer(&fault, PyLong_FromLong(count));
}

/* Name and PCI address of a device. */
static PyObject *device_names(PyObject *module, PyObject *args)
{
    char name[256] = "", address[32] = "";
    struct cuda_fault fault;
    int ordinal, device;

    (void)module;
    if (!PyArg_ParseTuple(args, "i", &ordinal))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (!CUDA_CALL(&fault, cuDeviceGet, &device, ordinal) &&
        !CUDA_CALL(&fault, cuDeviceGetName, name, (int)sizeof name - 1, device))
        (void)CUDA_CALL(&fault, cuDeviceGetPCIBusId, address, (int)sizeof address - 1, device);
    Py_END_ALLOW_THREADS
    return answer(&fault, Py_BuildValue("ss", name, address));
}

static PyObject *device_attribute(PyObject *module, PyObject *args)
{
    int ordinal, which, device, value = 0;
    struct cuda_fault fault;

    (void)module;
    if (!PyArg_ParseTuple(args, "ii", &ordinal, &which))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (!CUDA_CALL(&fault, cuDeviceGet, &device, ordinal))
        (void)CUDA_CALL(&fault, cuDeviceGetAttribute, &value, which, device);
    Py_END_ALLOW_THREADS
    return answer(&fault, PyLong_FromLong(value));
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static PyObject *query_pointer(PyObject *module, PyObject *args)
{
    struct cuda_pointer known = {0};
    struct cuda_fault fault;
    unsigned long long pointer;

    (void)module;
    if (!PyArg_ParseTuple(args, "K", &pointer))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    cuda_pointer_query(pointer, &known, &fault);
    Py_END_ALLOW_THREADS
    return answer(&fault, Py_BuildValue("sKiKN", kind_names[known.kind], as_number(known.place.context),
                                        known.place.ordinal, (unsigned long long)known.buffer_id,
                                        PyBool_FromLong(known.peer_memory)));
}

static PyObject *range_list(const struct cuda_range *ranges, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);

    for (size_t i = 0; list && i < count; i++) {
        PyObject *range = Py_BuildValue("KKKi", (unsigned long long)ranges[i].base, (unsigned long long)ranges[i].size,
                                        (unsigned long long)ranges[i].buffer_id, ranges[i].ordinal);

        if (!range || PyList_SetItem(list, (Py_ssize_t)i, range) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* The ranges that lie under an address and a length, and where the walk stopped. */
static PyObject *ranges(PyObject *module, PyObject *args)
{
    unsigned long long context, pointer, length;
    struct cuda_range *found = NULL;
    struct cuda_place place = {0};
    struct cuda_fault fault;
    PyObject *list, *result;
    uint64_t stopped;
    size_t count;

    (void)module;
    if (!PyArg_ParseTuple(args, "KiKK", &context, &place.ordinal, &pointer, &length))
        return NULL;
    place.context = as_pointer(context);
    Py_BEGIN_ALLOW_THREADS
    cuda_ranges(place, pointer, length, &found, &count, &stopped, &fault);
    Py_END_ALLOW_THREADS
    if (fault.code == CUDA_NO_MEMORY)
        return PyErr_NoMemory();
    list = range_list(found, found ? count : 0);
    result = list ? answer(&fault, Py_BuildValue("NK", list, (unsigned long long)stopped)) : NULL;
    free(found);
    return result;
}

static PyObject *export_range(PyObject *module, PyObject *args)
{
    unsigned long long context, pointer, length, flags;
    struct cuda_place place = {0};
    struct cuda_fault fault;
    int fd;

    (void)module;
    if (!PyArg_ParseTuple(args, "KiKKK", &context, &place.ordinal, &pointer, &length, &flags))
        return NULL;
    place.context = as_pointer(context);
    Py_BEGIN_ALLOW_THREADS
    cuda_export(place, pointer, length, flags, &fd, &fault);
    Py_END_ALLOW_THREADS
    return answer(&fault, PyLong_FromLong(fd));
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static PyObject *flush(PyObject *module, PyObject *args)
{
    struct cuda_place place = {0};
    unsigned long long context;
    struct cuda_fault fault;
    int scope;

    (void)module;
    if (!PyArg_ParseTuple(args, "Kii", &context, &place.ordinal, &scope))
        return NULL;
    place.context = as_pointer(context);
    Py_BEGIN_ALLOW_THREADS
    cuda_flush(place, scope, &fault);
    Py_END_ALLOW_THREADS
    return answer(&fault, nothing());
}

static PyObject *flush_current(PyObject *module, PyObject *args)
{
    struct cuda_fault fault;
    int scope;

    (void)module;
    if (!PyArg_ParseTuple(args, "i", &scope))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    cuda_flush_current(scope, &fault);
    Py_END_ALLOW_THREADS
    return answer(&fault, nothing());
}

static PyObject *synchronize(PyObject *module, PyObject *ignored)
{
    struct cuda_fault fault;

    (void)module;
    (void)ignored;
    Py_BEGIN_ALLOW_THREADS
    cuda_synchronize(&fault);
    Py_END_ALLOW_THREADS
    return answer(&fault, nothing());
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"open", open_driver, METH_NOARGS, "Open libcuda; the reason where that fails."},
    {"since", since, METH_VARARGS, "The CUDA release that brought a function."},
    {"init", init, METH_NOARGS, "cuInit."},
    {"version", version, METH_NOARGS, "cuDriverGetVersion."},
    {"device_count", device_count, METH_NOARGS, "cuDeviceGetCount."},
    {"device_names", device_names, METH_VARARGS, "(ordinal): name and PCI address."},
    {"device_attribute", device_attribute, METH_VARARGS, "(ordinal, attribute): its value."},
    {"pointer", query_pointer, METH_VARARGS,
     "(address): kind, context, ordinal, buffer id, whether peer memory may pin it."},
    {"ranges", ranges, METH_VARARGS,
     "(context, ordinal, address, length): [(base, size, buffer id, ordinal)], where the walk stopped."},
    {"export", export_range, METH_VARARGS, "(context, ordinal, address, length, flags): a descriptor."},
    {"flush", flush, METH_VARARGS, "(context, ordinal, scope)"},
    {"flush_current", flush_current, METH_VARARGS, "(scope)"},
    {"synchronize", synchronize, METH_NOARGS, "Wait for the current context, or for all that are active."},
    {NULL, NULL, 0, NULL},
};

int cuda_add_functions(PyObject *module)
{
    PyObject *name = PyUnicode_FromString("_cuda");
    PyObject *inner = name ? PyModule_NewObject(name) : NULL;
    int failed = !inner || PyModule_AddFunctions(inner, functions) < 0 || PyModule_AddObject(module, "_cuda", inner) < 0;

    Py_XDECREF(name);
    if (failed)
        Py_XDECREF(inner);
    return failed ? -1 : 0;
}
