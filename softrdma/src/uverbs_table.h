/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of a table of methods: the front's own (uverbs.c), and those that a driver adds. */
#ifndef SOFTRDMA_UVERBS_TABLE_H
#define SOFTRDMA_UVERBS_TABLE_H

#include "uverbs.h"

#define HANDLE(id)                                                                                           \
    {                                                                                                        \
        id, ATTR_HANDLE, true, 0                                                                             \
    }
#define HANDLE_OPT(id)                                                                                       \
    {                                                                                                        \
        id, ATTR_HANDLE, false, 0                                                                            \
    }
#define NEW_HANDLE(id)                                                                                       \
    {                                                                                                        \
        id, ATTR_NEW_HANDLE, true, 0                                                                         \
    }
#define FD_OPT(id)                                                                                           \
    {                                                                                                        \
        id, ATTR_FD, false, 0                                                                                \
    }
#define NEW_FD(id)                                                                                           \
    {                                                                                                        \
        id, ATTR_NEW_FD, true, 0                                                                             \
    }
#define IN(id, size)                                                                                         \
    {                                                                                                        \
        id, ATTR_IN, true, size                                                                              \
    }
#define IN_OPT(id, size)                                                                                     \
    {                                                                                                        \
        id, ATTR_IN, false, size                                                                             \
    }
#define OUT(id, size)                                                                                        \
    {                                                                                                        \
        id, ATTR_OUT, true, size                                                                             \
    }
#define OUT_OPT(id, size)                                                                                    \
    {                                                                                                        \
        id, ATTR_OUT, false, size                                                                            \
    }
#define DRIVER                                                                                               \
    {UVERBS_ATTR_UHW_IN, ATTR_IN, false, 0},                                                                 \
    {                                                                                                        \
        UVERBS_ATTR_UHW_OUT, ATTR_OUT, false, 0                                                              \
    }
#define METHOD(object, method, run, ...)                                                                     \
    {                                                                                                        \
        UVERBS_OBJECT_##object, UVERBS_METHOD_##method, #method, run, {__VA_ARGS__},                         \
            sizeof((struct attr_spec[]){__VA_ARGS__}) / sizeof(struct attr_spec)                             \
    }
/* A method of the driver's own, whose numbers have no names in the kernel's headers. */
#define DRIVER_METHOD(object, method, name, run, ...)                                                        \
    {                                                                                                        \
        object, method, name, run, {__VA_ARGS__},                                                            \
            sizeof((struct attr_spec[]){__VA_ARGS__}) / sizeof(struct attr_spec)                             \
    }

#endif
