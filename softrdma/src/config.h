/* SPDX-License-Identifier: BSD-3-Clause */
/* What the environment asks for. Read once, when the library is loaded. */
#ifndef SOFTRDMA_CONFIG_H
#define SOFTRDMA_CONFIG_H

#include "base.h"

#define CONFIG_MAX_DEVICES 16 /* MAX_NICS of region.h */

enum copy_mode {
    COPY_AUTO,       /* process_vm_*, and the agent where that is forbidden */
    COPY_PROCESS_VM, /* process_vm_* or nothing */
    COPY_AGENT,      /* always through the other process's agent thread */
};

/* What a place in the machine holds: the name of a model, and which make of it (-1: the model's own choice). */
struct config_device {
    char model[8];
    int make;
};

struct config {
    char fabric[64]; /* SOFTRDMA_FABRIC: processes that name the same one reach each other */
    int ndevices;    /* SOFTRDMA_DEVICES: a list of MODEL[@MAKE][:COUNT] with commas between */
    struct config_device devices[CONFIG_MAX_DEVICES];
    enum copy_mode copy; /* SOFTRDMA_COPY: auto, process_vm, agent */
    bool reorder;        /* SOFTRDMA_REORDER: SRD delivers out of order; a number is the seed */
    uint32_t reorder_seed;
    double cm_timeouts;    /* SOFTRDMA_CM_TIMEOUTS: by how much the connection manager's own times are multiplied */
    bool cm_old_dialect;   /* SOFTRDMA_CM_AF_IB=0: it knows no AF_IB, and librdmacm asks in its older way */
    bool trace; /* SOFTRDMA_TRACE: calls and requests on stderr */
};

extern struct config config;

void config_load(void);
void trace_print(const char *fmt, ...) PRINTF_LIKE(1, 2);

#define TRACE(...)                                                                                           \
    do {                                                                                                     \
        if (config.trace)                                                                                    \
            trace_print(__VA_ARGS__);                                                                        \
    } while (0)

#endif
