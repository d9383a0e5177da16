/* SPDX-License-Identifier: BSD-3-Clause */
/* Where it begins and ends. */
#include "preload.h"

#include <pthread.h>

#include "../config.h"
#include "../device.h"
#include "../fault/fault.h"
#include "../process.h"
#include "../sysfs.h"

static void start_once(void)
{
    libc_get();
    config_load();
    device_init();
    fault_load();
    process_init();
}

void process_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start_once);
}

__attribute__((constructor)) static void start(void)
{
    process_start();
}

__attribute__((destructor)) static void end(void)
{
    sysfs_remove();
}

/* By this a program can tell that it runs on the host. */
EXPORT const char softrdma_version[] = SOFTRDMA_VERSION;
