/* SPDX-License-Identifier: BSD-3-Clause */
/* Printing of facts, and the names by which they speak of errors, states and completions. */
#define _GNU_SOURCE
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char line[8192];
static size_t used;

static void append(const char *format, va_list args)
{
    int n = vsnprintf(line + used, sizeof(line) - used, format, args);
    if (n < 0 || used + n >= sizeof(line)) {
        fprintf(stderr, "probe: a fact is longer than %zu bytes\n", sizeof(line));
        exit(2);
    }
    used += n;
}

void fact_begin(const char *topic, const char *question, ...)
{
    used = snprintf(line, sizeof(line), "%s/", topic);
    va_list args;
    va_start(args, question);
    append(question, args);
    va_end(args);
    fact_add(":");
}

void fact_add(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    append(format, args);
    va_end(args);
}

void fact_end(void)
{
    puts(line);
    fflush(stdout);
}

void fact(const char *topic, const char *question, const char *format, ...)
{
    fact_begin(topic, "%s", question);
    fact_add(" ");
    va_list args;
    va_start(args, format);
    append(format, args);
    va_end(args);
    fact_end();
}

void fact_errno(const char *topic, const char *question, int err)
{
    fact(topic, question, "%s", errno_name(err));
}

const char *errno_name(int err)
{
    const char *name = err < 0 ? NULL : err ? strerrorname_np(err) : "ok";
    static char number[16];
    if (name)
        return name;
    snprintf(number, sizeof(number), "errno %d", err);
    return number;
}

const char *status_name(enum ibv_wc_status status)
{
    static const char *const names[] = {
        "SUCCESS",       "LOC_LEN",   "LOC_QP_OP",    "LOC_EEC_OP",     "LOC_PROT",   "WR_FLUSH",
        "MW_BIND",       "BAD_RESP",  "LOC_ACCESS",   "REM_INV_REQ",    "REM_ACCESS", "REM_OP",
        "RETRY_EXC",     "RNR_RETRY", "LOC_RDD_VIOL", "REM_INV_RD_REQ", "REM_ABORT",  "INV_EECN",
        "INV_EEC_STATE", "FATAL",     "RESP_TIMEOUT", "GENERAL",
    };
    return (unsigned)status < sizeof(names) / sizeof(*names) ? names[status] : "status?";
}

const char *state_name(int state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return (unsigned)state < sizeof(names) / sizeof(*names) ? names[state] : "state?";
}

const char *type_name(enum ibv_qp_type type)
{
    return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : type == IBV_QPT_UD ? "UD" : "type?";
}
