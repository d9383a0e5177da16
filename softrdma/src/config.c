/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the environment, and the trace. */
#include "config.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "libc.h"

struct config config = {.fabric = "default", .ndevices = 2, .devices = {{"rxe", -1}, {"rxe", -1}}, .cm_timeouts = 1};

/* One item of the list, MODEL[@MAKE][:COUNT], or a bare count of rxe devices; where it ends, or NULL. */
static const char *parse_item(const char *text, struct config_device *ret_device, long *ret_count)
{
    size_t name = strcspn(text, "@:,0123456789");
    struct config_device d = {"rxe", -1};
    const char *at = text + name;
    char *end;

    if (name >= sizeof(d.model))
        return NULL;
    if (name)
        snprintf(d.model, sizeof(d.model), "%.*s", (int)name, text);
    if (name && *at == '@') {
        d.make = (int)strtol(at + 1, &end, 10);
        if (end == at + 1 || d.make < 0)
            return NULL;
        at = end;
    }
    *ret_count = 1;
    if (!name || *at == ':') {
        at += name ? 1 : 0;
        *ret_count = strtol(at, &end, 10);
        if (end == at || *ret_count < 0 || *ret_count > CONFIG_MAX_DEVICES)
            return NULL;
        at = end;
    }
    *ret_device = d;
    return *at == '\0' || *at == ',' ? at : NULL;
}

static bool parse_devices(const char *text)
{
    struct config_device devices[CONFIG_MAX_DEVICES] = {0};
    int n = 0;

    while (text && *text) {
        struct config_device d = {0};
        long count = 0;

        text = parse_item(text, &d, &count);
        if (!text || n + count > CONFIG_MAX_DEVICES || !device_is_offered(d.model, d.make))
            return false;
        for (long i = 0; i < count; i++)
            devices[n++] = d;
        if (*text)
            text++;
    }
    if (!text)
        return false;
    memcpy(config.devices, devices, sizeof(devices));
    config.ndevices = n;
    return true;
}

static bool parse_factor(const char *text, double *ret)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= 0 && value <= 1000))
        return false;
    *ret = value;
    return true;
}

void config_load(void)
{
    const char *fabric = secure_getenv("SOFTRDMA_FABRIC");
    const char *devices = secure_getenv("SOFTRDMA_DEVICES");
    const char *copy = secure_getenv("SOFTRDMA_COPY");
    const char *reorder = secure_getenv("SOFTRDMA_REORDER");
    const char *cm_timeouts = secure_getenv("SOFTRDMA_CM_TIMEOUTS");
    const char *cm_af_ib = secure_getenv("SOFTRDMA_CM_AF_IB");
    const char *trace = secure_getenv("SOFTRDMA_TRACE");

    if (fabric && *fabric)
        snprintf(config.fabric, sizeof(config.fabric), "%s", fabric);
    if (devices && *devices && !parse_devices(devices))
        fprintf(stderr,
                "softrdma: SOFTRDMA_DEVICES=%s not understood (rxe:N, iwarp:N and efa:N or efa@GENERATION:N with commas "
                "between, at most %d devices)\n",
                devices, CONFIG_MAX_DEVICES);
    if (copy && strcmp(copy, "process_vm") == 0)
        config.copy = COPY_PROCESS_VM;
    else if (copy && strcmp(copy, "agent") == 0)
        config.copy = COPY_AGENT;
    config.reorder = reorder && *reorder;
    config.reorder_seed = config.reorder ? (uint32_t)strtoul(reorder, NULL, 0) : 0;
    if (cm_timeouts && *cm_timeouts && !parse_factor(cm_timeouts, &config.cm_timeouts))
        fprintf(stderr, "softrdma: SOFTRDMA_CM_TIMEOUTS=%s not understood (a factor from 0 to 1000)\n", cm_timeouts);
    config.cm_old_dialect = cm_af_ib && strcmp(cm_af_ib, "0") == 0;
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
