/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the environment, and the trace. */
#include "config.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "libc.h"

struct config config = {.fabric = "default", .ndevices = 2};

/* A list of MODEL:COUNT separated by commas; a bare number means that many rxe devices. */
static int parse_devices(const char *text)
{
    int total = 0;

    while (*text) {
        char *end;
        const char *count = text;
        long n;

        if (strncmp(text, "rxe:", 4) == 0)
            count = text + 4;
        n = strtol(count, &end, 10);
        if (end == count || n < 0 || n > CONFIG_MAX_DEVICES || (*end && *end != ','))
            return -1;
        total += (int)n;
        text = *end ? end + 1 : end;
    }
    return total > CONFIG_MAX_DEVICES ? -1 : total;
}

void config_load(void)
{
    const char *fabric = secure_getenv("SOFTRDMA_FABRIC");
    const char *devices = secure_getenv("SOFTRDMA_DEVICES");
    const char *copy = secure_getenv("SOFTRDMA_COPY");
    const char *trace = secure_getenv("SOFTRDMA_TRACE");

    if (fabric && *fabric)
        snprintf(config.fabric, sizeof(config.fabric), "%s", fabric);
    if (devices && *devices) {
        int n = parse_devices(devices);

        if (n < 0)
            fprintf(stderr, "softrdma: SOFTRDMA_DEVICES=%s not understood (rxe:N, N at most %d)\n", devices,
                    CONFIG_MAX_DEVICES);
        else
            config.ndevices = n;
    }
    if (copy && strcmp(copy, "process_vm") == 0)
        config.copy = COPY_PROCESS_VM;
    else if (copy && strcmp(copy, "agent") == 0)
        config.copy = COPY_AGENT;
    config.trace = trace && *trace && strcmp(trace, "0") != 0;
}

void trace_print(const char *fmt, ...)
{
    char line[512];
    int n = snprintf(line, sizeof(line), "softrdma[%d]: ", (int)getpid());
    va_list ap;

    va_start(ap, fmt);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
    va_end(ap);
    if (n > (int)sizeof(line) - 2)
        n = sizeof(line) - 2;
    line[n++] = '\n';
    if (libc_get()->write(2, line, (size_t)n) < 0)
        return;
}

uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
