/* SPDX-License-Identifier: BSD-3-Clause */
/* From the text of a rule to the rule. docs/faults.md of the repository has the grammar; the tables here are
 * what it rests on. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdarg.h>
#include <strings.h>

#include "../device.h"
#include "../event.h"
#include "../uverbs.h"
#include "rule.h"

#define WHERE (KEY_DEVICE | KEY_QP | KEY_OP | KEY_ADDR | KEY_WR_ID)
#define WHEN (KEY_NTH | KEY_TIMES | KEY_EVERY | KEY_PROBABILITY | KEY_AFTER | KEY_FOR)
#define MESSAGE (WHERE | WHEN | KEY_SIDE)

struct kind {
    const char *name;
    uint32_t hook; /* of FAULT_AT_TIME: FAULT_AT_REQUEST instead when the rule names a request */
    uint32_t required, allowed;
};

static const struct kind kinds[FAULT_KINDS] = {
    [FAULT_ERRNO] = {"errno", FAULT_AT_CALL, KEY_CALL | KEY_ERRNO, KEY_DEVICE | WHEN},
    [FAULT_MEMLOCK] = {"memlock", FAULT_AT_MEMLOCK, KEY_LIMIT, KEY_AFTER | KEY_FOR},
    [FAULT_COMPLETION] = {"completion", FAULT_AT_REQUEST, KEY_STATUS,
                          WHERE | WHEN | KEY_VENDOR_ERR | KEY_MOVED},
    [FAULT_RNR] = {"rnr", FAULT_AT_MESSAGE, 0, MESSAGE},
    [FAULT_DROP] = {"drop", FAULT_AT_MESSAGE, 0, MESSAGE | KEY_WHAT},
    [FAULT_DUPLICATE] = {"duplicate", FAULT_AT_MESSAGE, 0, WHERE | WHEN},
    [FAULT_DELAY] = {"delay", FAULT_AT_MESSAGE, KEY_DELAY, MESSAGE},
    [FAULT_REORDER] = {"reorder", FAULT_AT_MESSAGE, 0, WHERE | WHEN | KEY_DELAY},
    [FAULT_OVERRUN] = {"overrun", FAULT_AT_COMPLETION, 0, WHERE | WHEN},
    [FAULT_LINK] = {"link", FAULT_AT_TIME, KEY_STATE, WHERE | WHEN},
    [FAULT_GID] = {"gid", FAULT_AT_TIME, KEY_INDEX | KEY_GID, WHERE | WHEN},
    [FAULT_FATAL] = {"fatal", FAULT_AT_TIME, 0, WHERE | WHEN},
    [FAULT_REMOVE] = {"remove", FAULT_AT_TIME, 0, WHERE | WHEN},
    [FAULT_QP_ERROR] = {"qp_error", FAULT_AT_TIME, 0, WHERE | WHEN | KEY_TYPE},
    [FAULT_SRQ_LIMIT] = {"srq_limit", FAULT_AT_TIME, 0, WHERE | WHEN},
    [FAULT_SRQ_ERROR] = {"srq_error", FAULT_AT_TIME, 0, WHERE | WHEN},
    [FAULT_EVENT] = {"event", FAULT_AT_TIME, KEY_TYPE, WHERE | WHEN},
    [FAULT_DIE] = {"die", FAULT_AT_TIME, 0, WHERE | WHEN},
};

struct name {
    const char *name;
    uint32_t value;
};

static const struct name ops[] = {
    {"send", FAULT_OP_SEND},
    {"send_with_imm", FAULT_OP_SEND_IMM},
    {"send_with_inv", FAULT_OP_SEND_INV},
    {"rdma_write", FAULT_OP_WRITE},
    {"rdma_write_with_imm", FAULT_OP_WRITE_IMM},
    {"rdma_read", FAULT_OP_READ},
    {"atomic_cmp_and_swp", FAULT_OP_CMP_SWAP},
    {"atomic_fetch_and_add", FAULT_OP_FETCH_ADD},
    {"local_inv", FAULT_OP_LOCAL_INV},
    {"bind_mw", FAULT_OP_BIND_MW},
    {"flush", FAULT_OP_FLUSH},
    {"atomic_write", FAULT_OP_ATOMIC_WRITE},
    {"recv", FAULT_OP_RECV},
    {"cm", FAULT_OP_CM},
    {"write", FAULT_OP_WRITE}, /* shorter names of the same */
    {"write_with_imm", FAULT_OP_WRITE_IMM},
    {"read", FAULT_OP_READ},
};

static const struct name statuses[] = {
    /* enum ibv_wc_status, less SUCCESS */
    {"LOC_LEN_ERR", 1},        {"LOC_QP_OP_ERR", 2},     {"LOC_EEC_OP_ERR", 3},
    {"LOC_PROT_ERR", 4},       {"WR_FLUSH_ERR", 5},      {"MW_BIND_ERR", 6},
    {"BAD_RESP_ERR", 7},       {"LOC_ACCESS_ERR", 8},    {"REM_INV_REQ_ERR", 9},
    {"REM_ACCESS_ERR", 10},    {"REM_OP_ERR", 11},       {"RETRY_EXC_ERR", 12},
    {"RNR_RETRY_EXC_ERR", 13}, {"LOC_RDD_VIOL_ERR", 14}, {"REM_INV_RD_REQ_ERR", 15},
    {"REM_ABORT_ERR", 16},     {"INV_EECN_ERR", 17},     {"INV_EEC_STATE_ERR", 18},
    {"FATAL_ERR", 19},         {"RESP_TIMEOUT_ERR", 20}, {"GENERAL_ERR", 21},
};

static const struct name events[] = {
    {"CQ_ERR", ASYNC_CQ_ERR},
    {"QP_FATAL", ASYNC_QP_FATAL},
    {"QP_REQ_ERR", ASYNC_QP_REQ_ERR},
    {"QP_ACCESS_ERR", ASYNC_QP_ACCESS_ERR},
    {"COMM_EST", ASYNC_COMM_EST},
    {"SQ_DRAINED", ASYNC_SQ_DRAINED},
    {"PATH_MIG", ASYNC_PATH_MIG},
    {"PATH_MIG_ERR", ASYNC_PATH_MIG_ERR},
    {"DEVICE_FATAL", ASYNC_DEVICE_FATAL},
    {"PORT_ACTIVE", ASYNC_PORT_ACTIVE},
    {"PORT_ERR", ASYNC_PORT_ERR},
    {"LID_CHANGE", ASYNC_LID_CHANGE},
    {"PKEY_CHANGE", ASYNC_PKEY_CHANGE},
    {"SM_CHANGE", ASYNC_SM_CHANGE},
    {"SRQ_ERR", ASYNC_SRQ_ERR},
    {"SRQ_LIMIT_REACHED", ASYNC_SRQ_LIMIT},
    {"QP_LAST_WQE_REACHED", ASYNC_LAST_WQE},
    {"CLIENT_REREGISTER", ASYNC_CLIENT_REREGISTER},
    {"GID_CHANGE", ASYNC_GID_CHANGE},
};

static const struct name errnos[] = {
    {"EPERM", EPERM},
    {"ENOENT", ENOENT},
    {"EINTR", EINTR},
    {"EIO", EIO},
    {"ENXIO", ENXIO},
    {"EBADF", EBADF},
    {"EAGAIN", EAGAIN},
    {"ENOMEM", ENOMEM},
    {"EACCES", EACCES},
    {"EFAULT", EFAULT},
    {"EBUSY", EBUSY},
    {"EEXIST", EEXIST},
    {"ENODEV", ENODEV},
    {"EINVAL", EINVAL},
    {"ENFILE", ENFILE},
    {"EMFILE", EMFILE},
    {"ENOSPC", ENOSPC},
    {"ENOSYS", ENOSYS},
    {"ENODATA", ENODATA},
    {"EPROTO", EPROTO},
    {"EOVERFLOW", EOVERFLOW},
    {"EOPNOTSUPP", EOPNOTSUPP},
    {"ENOBUFS", ENOBUFS},
    {"ETIMEDOUT", ETIMEDOUT},
    {"ENETUNREACH", ENETUNREACH},
    {"EHOSTUNREACH", EHOSTUNREACH},
    {"ECONNREFUSED", ECONNREFUSED},
};

/* What is being read, for messages. */
struct reading {
    char *error;
    size_t size;
};

static int complain(struct reading *in, const char *fmt, ...) PRINTF_LIKE(2, 3);

static int complain(struct reading *in, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(in->error, in->size, fmt, ap);
    va_end(ap);
    return -1;
}

static int complain_names(struct reading *in, const char *key, const char *value, const struct name *names,
                          size_t n)
{
    int used = snprintf(in->error, in->size, "%s=%s: not one of", key, value);

    for (size_t i = 0; i < n && used > 0 && (size_t)used < in->size; i++)
        used += snprintf(in->error + used, in->size - (size_t)used, " %s", names[i].name);
    return -1;
}

static const char *without(const char *prefix, const char *text)
{
    return strncasecmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : text;
}

static bool find(const char *text, const struct name *names, size_t n, const char *suffix,
                 uint32_t *ret_value)
{
    char longer[64];

    snprintf(longer, sizeof(longer), "%s%s", text, suffix);
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(names[i].name, text) == 0 || strcasecmp(names[i].name, longer) == 0) {
            *ret_value = names[i].value;
            return true;
        }
    }
    return false;
}

static bool number(const char *text, uint64_t max, uint64_t *ret_value)
{
    char *end;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *ret_value = strtoull(text, &end, 0);
    return !errno && !*end && *ret_value <= max;
}

bool fault_parse_decimal(const char *text, uint64_t *ret_billionths)
{
    uint64_t whole = 0, part = 0, unit = 100000000u;
    const char *p = text;

    for (; isdigit((unsigned char)*p); p++) {
        whole = whole * 10 + (uint64_t)(*p - '0');
        if (whole > 1000000000u)
            return false;
    }
    if (*p == '.') {
        for (p++; isdigit((unsigned char)*p); p++, unit /= 10)
            part += unit * (uint64_t)(*p - '0');
    }
    *ret_billionths = whole * 1000000000u + part;
    return !*p && p != text && strcmp(text, ".") != 0;
}

static int read_ops(struct reading *in, const char *value, struct fault_rule *out)
{
    char copy[FAULT_TEXT], *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", value);
    for (char *word = strtok_r(copy, "|", &rest); word; word = strtok_r(NULL, "|", &rest)) {
        uint32_t op;

        if (!find(without("IBV_WR_", word), ops, NELEM(ops), "", &op))
            return complain_names(in, "op", word, ops, FAULT_OPS);
        out->ops |= 1u << op;
    }
    return out->ops ? 0 : complain(in, "op=: names none");
}

static int read_device(struct reading *in, const char *value, struct fault_rule *out)
{
    for (int i = 0; i < device_count(); i++) {
        if (strcmp(device_at(i)->name, value) == 0) {
            out->device = (uint32_t)i;
            return 0;
        }
    }
    return complain(in, "device=%s: there is no such NIC here", value);
}

static int read_gid(struct reading *in, const char *value, struct fault_rule *out)
{
    if (strcasecmp(value, "none") == 0) {
        memset(out->gid, 0, sizeof(out->gid));
        return 0;
    }
    memset(out->gid, 0, 10);
    memset(out->gid + 10, 0xff, 2);
    if (inet_pton(AF_INET, value, out->gid + 12) == 1 || inet_pton(AF_INET6, value, out->gid) == 1)
        return 0;
    return complain(in, "gid=%s: neither an address nor none", value);
}

/* One length of time, or two with a dash between. unit: billionths of a second. */
static int read_delay(struct reading *in, const char *key, const char *value, uint64_t unit,
                      struct fault_rule *out)
{
    char low[FAULT_TEXT];
    const char *dash = strchr(value, '-');
    uint64_t min, max;

    snprintf(low, sizeof(low), "%.*s", dash ? (int)(dash - value) : (int)strlen(value), value);
    if (!fault_parse_decimal(low, &min) || !fault_parse_decimal(dash ? dash + 1 : low, &max) || max < min)
        return complain(in, "%s=%s: a length of time, or MIN-MAX", key, value);
    out->delay_min = min / (1000000000u / unit);
    out->delay_max = max / (1000000000u / unit);
    return 0;
}

/* verbs' own names stand for the methods of the kernel's interface: create_qp is QP_CREATE. */
static bool is_call(const char *text, const char *method)
{
    static const struct {
        const char *verb, *method;
    } others[] = {
        {"dealloc_pd", "PD_DESTROY"},  {"dereg_mr", "MR_DESTROY"},       {"dealloc_mw", "MW_DESTROY"},
        {"open_device", "OPEN"},       {"query_gid", "QUERY_GID_ENTRY"}, {"create_cq_ex", "CQ_CREATE"},
        {"create_qp_ex", "QP_CREATE"}, {"create_srq_ex", "SRQ_CREATE"},  {"query_device_ex", "QUERY_DEVICE"},
    };
    const char *rest = strchr(text, '_');
    char turned[FAULT_CALL];

    if (strcasecmp(text, method) == 0)
        return true;
    if (rest) {
        snprintf(turned, sizeof(turned), "%s_%.*s", rest + 1, (int)(rest - text), text);
        if (strcasecmp(turned, method) == 0)
            return true;
    }
    for (size_t i = 0; i < NELEM(others); i++) {
        if (strcasecmp(text, others[i].verb) == 0 && strcmp(method, others[i].method) == 0)
            return true;
    }
    return false;
}

static int read_call(struct reading *in, const char *value, struct fault_rule *out)
{
    const char *text = without("ibv_", value), *method;
    int used;

    for (size_t i = 0; (method = uverbs_call_name(i)); i++) {
        if (is_call(text, method)) {
            snprintf(out->call, sizeof(out->call), "%s", method);
            return 0;
        }
    }
    used = snprintf(in->error, in->size, "call=%s: not one of", value);
    for (size_t i = 0; (method = uverbs_call_name(i)) && used > 0 && (size_t)used < in->size; i++)
        used += snprintf(in->error + used, in->size - (size_t)used, " %s", method);
    return -1;
}

static int read_choice(struct reading *in, const char *key, const char *value, const char *no,
                       const char *yes, uint32_t *ret_is_yes)
{
    if (strcasecmp(value, yes) != 0 && strcasecmp(value, no) != 0)
        return complain(in, "%s=%s: neither %s nor %s", key, value, no, yes);
    *ret_is_yes = strcasecmp(value, yes) == 0;
    return 0;
}

static int read_limit(struct reading *in, const char *value, struct fault_rule *out)
{
    if (strcasecmp(value, "rlimit") == 0)
        out->limit = UINT64_MAX;
    else if (!number(value, UINT64_MAX - 1, &out->limit))
        return complain(in, "limit=%s: neither a number of bytes nor rlimit", value);
    return 0;
}

static int read_number(struct reading *in, const char *key, const char *value, uint64_t min, uint64_t max,
                       uint64_t *ret)
{
    if (!number(value, max, ret) || *ret < min)
        return complain(in, "%s=%s: a number from %llu to %llu", key, value, (unsigned long long)min,
                        (unsigned long long)max);
    return 0;
}

static int read_seconds(struct reading *in, const char *key, const char *value, uint64_t *ret_ns)
{
    return fault_parse_decimal(value, ret_ns) ? 0 : complain(in, "%s=%s: not seconds", key, value);
}

static const struct name keys[] = {
    {"device", KEY_DEVICE}, {"qp", KEY_QP},
    {"op", KEY_OP},         {"addr", KEY_ADDR},
    {"wr_id", KEY_WR_ID},   {"side", KEY_SIDE},
    {"nth", KEY_NTH},       {"times", KEY_TIMES},
    {"every", KEY_EVERY},   {"probability", KEY_PROBABILITY},
    {"after", KEY_AFTER},   {"for", KEY_FOR},
    {"status", KEY_STATUS}, {"vendor_err", KEY_VENDOR_ERR},
    {"moved", KEY_MOVED},   {"call", KEY_CALL},
    {"errno", KEY_ERRNO},   {"limit", KEY_LIMIT},
    {"state", KEY_STATE},   {"index", KEY_INDEX},
    {"gid", KEY_GID},       {"type", KEY_TYPE},
    {"ms", KEY_DELAY},      {"us", KEY_DELAY},
    {"what", KEY_WHAT},
};

static int read_value(struct reading *in, uint32_t key, const char *name, const char *value,
                      struct fault_rule *out)
{
    uint64_t n = 0;
    uint32_t arrival = 0;
    int err = 0;

    switch (key) {
    case KEY_DEVICE:
        return read_device(in, value, out);
    case KEY_QP:
        err = read_number(in, name, value, 1, 0xffffff, &n);
        out->qpn = (uint32_t)n;
        return err;
    case KEY_OP:
        return read_ops(in, value, out);
    case KEY_ADDR:
        return read_number(in, name, value, 0, UINT64_MAX, &out->addr);
    case KEY_WR_ID:
        return read_number(in, name, value, 0, UINT64_MAX, &out->wr_id);
    case KEY_SIDE:
        err = read_choice(in, name, value, "sender", "receiver", &arrival);
        out->hook = arrival ? FAULT_AT_ARRIVAL : FAULT_AT_MESSAGE;
        return err;
    case KEY_NTH:
        return read_number(in, name, value, 1, UINT64_MAX, &out->nth);
    case KEY_TIMES:
        return read_number(in, name, value, 0, UINT64_MAX, &out->times);
    case KEY_EVERY:
        return read_number(in, name, value, 1, UINT64_MAX, &out->every);
    case KEY_PROBABILITY:
        if (!fault_parse_decimal(value, &n) || n > 1000000000u)
            return complain(in, "%s=%s: from 0 to 1", name, value);
        out->probability = (n << 32) / 1000000000u;
        return 0;
    case KEY_AFTER:
        return read_seconds(in, name, value, &out->after_ns);
    case KEY_FOR:
        return read_seconds(in, name, value, &out->for_ns);
    case KEY_STATUS:
        if (!find(without("IBV_WC_", value), statuses, NELEM(statuses), "_ERR", &out->status))
            return complain_names(in, name, value, statuses, NELEM(statuses));
        return 0;
    case KEY_VENDOR_ERR:
        err = read_number(in, name, value, 0, UINT32_MAX, &n);
        out->vendor_err = (uint32_t)n;
        return err;
    case KEY_MOVED:
        return read_choice(in, name, value, "no", "yes", &out->moved);
    case KEY_CALL:
        return read_call(in, value, out);
    case KEY_ERRNO:
        if (!find(value, errnos, NELEM(errnos), "", (uint32_t *)&out->err)) {
            if (!number(value, 4095, &n) || !n)
                return complain_names(in, name, value, errnos, NELEM(errnos));
            out->err = (int32_t)n;
        }
        return 0;
    case KEY_LIMIT:
        return read_limit(in, value, out);
    case KEY_STATE:
        return read_choice(in, name, value, "down", "up", &out->up);
    case KEY_INDEX:
        err = read_number(in, name, value, 0, NIC_GIDS - 1, &n);
        out->index = (uint32_t)n;
        return err;
    case KEY_GID:
        return read_gid(in, value, out);
    case KEY_TYPE:
        if (!find(without("IBV_EVENT_", value), events, NELEM(events), "", &out->event))
            return complain_names(in, name, value, events, NELEM(events));
        return 0;
    case KEY_DELAY:
        return read_delay(in, name, value, strcasecmp(name, "ms") == 0 ? 1000000u : 1000u, out);
    default: /* KEY_WHAT */
        return read_choice(in, name, value, "message", "answer", &out->answer);
    }
}

static const char *key_name(uint32_t key)
{
    for (size_t i = 0; i < NELEM(keys); i++) {
        if (keys[i].value == key)
            return key == KEY_DELAY ? "ms or us" : keys[i].name;
    }
    return "?";
}

static int read_pair(struct reading *in, char *pair, struct fault_rule *out)
{
    const struct kind *kind = &kinds[out->kind];
    char *value = strchr(pair, '=');
    uint32_t key;

    if (!value)
        return complain(in, "%s: a word without a value: %s", kind->name, pair);
    *value++ = '\0';
    if (!find(pair, keys, NELEM(keys), "", &key) || !((kind->allowed | kind->required) & key)) {
        int used = snprintf(in->error, in->size, "%s does not take %s, but", kind->name, pair);

        for (size_t i = 0; i < NELEM(keys) && used > 0 && (size_t)used < in->size; i++) {
            if ((kind->allowed | kind->required) & keys[i].value)
                used += snprintf(in->error + used, in->size - (size_t)used, " %s", keys[i].name);
        }
        return -1;
    }
    if (out->given & key)
        return complain(in, "%s: %s twice", kind->name, pair);
    out->given |= key;
    return read_value(in, key, pair, value, out);
}

/* What was left unsaid. */
static int complete(struct reading *in, struct fault_rule *out)
{
    const struct kind *kind = &kinds[out->kind];
    uint32_t request = KEY_OP | KEY_ADDR | KEY_WR_ID | KEY_NTH | KEY_EVERY | KEY_PROBABILITY;

    for (uint32_t key = 1; key <= KEY_WHAT; key <<= 1) {
        if (kind->required & key & ~out->given)
            return complain(in, "%s needs %s", kind->name, key_name(key));
    }
    if (!out->hook)
        out->hook = kind->hook;
    if (kind->hook == FAULT_AT_TIME && (out->given & request))
        out->hook = FAULT_AT_REQUEST;
    if (!(out->given & KEY_NTH))
        out->nth = out->every ? out->every : 1;
    if (!(out->given & KEY_TIMES))
        out->times = out->given & (KEY_EVERY | KEY_PROBABILITY) ? 0 : 1;
    if (out->kind == FAULT_REORDER && !(out->given & KEY_DELAY))
        out->delay_min = out->delay_max = 1000000u;
    if (out->kind == FAULT_QP_ERROR && !(out->given & KEY_TYPE))
        out->event = ASYNC_QP_FATAL;
    return 0;
}

int fault_parse(const char *text, struct fault_rule *out, char *ret_error, size_t size)
{
    struct reading in = {ret_error, size};
    char copy[FAULT_TEXT], *pairs, *rest = NULL;

    memset(out, 0, sizeof(*out));
    while (isspace((unsigned char)*text))
        text++;
    if (strlen(text) >= sizeof(copy))
        return complain(&in, "longer than %d characters: %s", FAULT_TEXT - 1, text);
    snprintf(copy, sizeof(copy), "%s", text);
    for (size_t n = strlen(copy); n && isspace((unsigned char)copy[n - 1]); n--)
        copy[n - 1] = '\0';
    snprintf(out->text, sizeof(out->text), "%s", copy);
    pairs = strchr(copy, ':');
    if (pairs)
        *pairs++ = '\0';
    for (uint32_t k = 1; k < FAULT_KINDS; k++) {
        if (strcasecmp(kinds[k].name, copy) == 0)
            out->kind = k;
    }
    if (!out->kind) {
        int used = snprintf(ret_error, size, "%s: not one of", copy);

        for (uint32_t k = 1; k < FAULT_KINDS && used > 0 && (size_t)used < size; k++)
            used += snprintf(ret_error + used, size - (size_t)used, " %s", kinds[k].name);
        return -1;
    }
    for (char *pair = pairs ? strtok_r(pairs, ",", &rest) : NULL; pair; pair = strtok_r(NULL, ",", &rest)) {
        while (isspace((unsigned char)*pair))
            pair++;
        if (read_pair(&in, pair, out) != 0)
            return -1;
    }
    return complete(&in, out);
}
