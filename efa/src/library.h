/* SPDX-License-Identifier: BSD-3-Clause */
/* What the module says of the installed libefa, and the list of EFA devices. */
#ifndef EFA_LIBRARY_H
#define EFA_LIBRARY_H

#include "pyapi.h"

PyObject *efa_library(PyObject *module, PyObject *ignored);
PyObject *efa_get_device_list(PyObject *module, PyObject *ignored);

#define EFA_LIBRARY_METHOD                                                                                             \
    {"_library", efa_library, METH_NOARGS,                                                                             \
     "_library($module, /)\n--\n\n"                                                                                    \
     "Return the path of the libefa in use, its release (0 if unknown), and of each optional function the release that " \
     "brought it and whether it is there."}
#define EFA_GET_DEVICE_LIST_METHOD                                                                                     \
    {"get_efa_device_list", efa_get_device_list, METH_NOARGS,                                                          \
     "get_efa_device_list($module, /)\n--\n\n"                                                                         \
     "Return a Device for every EFA device of this machine; an empty list where there is none. efadv_query_device."}

#endif
