/* SPDX-License-Identifier: BSD-3-Clause */
/* Device: the name and GUID of an RDMA device; opening it looks for it in a fresh device list. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include <stdint.h>

#include "state.h"

extern const PyType_Spec core_device_spec;

/* The text that ibv_devinfo prints for a GUID, which is in network byte order. */
PyObject *core_guid_text(uint64_t guid);

/* get_device_list(): every device that the library shows; none where there is no RDMA at all. */
PyObject *core_get_device_list(PyObject *module, PyObject *ignored);

#define CORE_GET_DEVICE_LIST_METHOD                                                                                    \
    {"get_device_list", core_get_device_list, METH_NOARGS,                                                             \
     "get_device_list($module, /)\n--\n\n"                                                                             \
     "Return a Device for every RDMA device of this machine; an empty list where there is none. ibv_get_device_list."}

#endif
