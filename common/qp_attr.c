/* SPDX-License-Identifier: BSD-3-Clause */
/* The fields of struct ibv_qp_attr. See qp_attr.h. */
#include "qp_attr.h"

#include <stdbool.h>
#include <string.h>

#include "ah_attr.h"
#include "args.h"
#include "field.h"
#include "qp_cap.h"
#include "wr.h"

/*
 * Offsets are those of the C structure itself, not of an object. What the kernel's command or the packets have less room
 * for than the structure would be cut on its way, so the limit is theirs.
 */
static const struct core_field fields[] = {
#define QP_ATTR_LIMITED(name, most)                                                                                    \
    {#name, offsetof(struct ibv_qp_attr, name), sizeof(((struct ibv_qp_attr *)0)->name), CORE_FIELD_UNSIGNED, most}
#define QP_ATTR_FIELD(name) QP_ATTR_LIMITED(name, UINT64_MAX >> (64 - 8 * sizeof(((struct ibv_qp_attr *)0)->name)))
    QP_ATTR_LIMITED(qp_state, UINT8_MAX),
    QP_ATTR_LIMITED(cur_qp_state, UINT8_MAX),
    QP_ATTR_LIMITED(path_mtu, UINT8_MAX),
    QP_ATTR_LIMITED(path_mig_state, UINT8_MAX),
    QP_ATTR_FIELD(qkey),
    QP_ATTR_LIMITED(rq_psn, WR_PSN_MOST),
    QP_ATTR_LIMITED(sq_psn, WR_PSN_MOST),
    QP_ATTR_LIMITED(dest_qp_num, WR_QPN_MOST),
    QP_ATTR_FIELD(qp_access_flags),
    QP_ATTR_FIELD(pkey_index),
    QP_ATTR_FIELD(alt_pkey_index),
    QP_ATTR_FIELD(en_sqd_async_notify),
    QP_ATTR_FIELD(sq_draining),
    QP_ATTR_FIELD(max_rd_atomic),
    QP_ATTR_FIELD(max_dest_rd_atomic),
    QP_ATTR_LIMITED(min_rnr_timer, 31),
    QP_ATTR_FIELD(port_num),
    QP_ATTR_LIMITED(timeout, 31),
    QP_ATTR_LIMITED(retry_cnt, 7),
    QP_ATTR_LIMITED(rnr_retry, 7),
    QP_ATTR_FIELD(alt_port_num),
    QP_ATTR_LIMITED(alt_timeout, 31),
    QP_ATTR_FIELD(rate_limit),
#undef QP_ATTR_FIELD
#undef QP_ATTR_LIMITED
};

#define FIELD_COUNT (sizeof fields / sizeof *fields)

static int set_ah_attr(struct core_state *state, struct ibv_ah_attr *attr, const char *name, PyObject *value)
{
    if (!core_is(state, value, CORE_TYPE_AH_ATTR)) {
        core_raise_type(name, "an AHAttr", value);
        return -1;
    }
    if (core_ah_attr_check(&((struct core_ah_attr *)value)->attr, name) < 0)
        return -1;
    *attr = ((struct core_ah_attr *)value)->attr;
    return 0;
}

int core_qp_attr_set(struct core_state *state, struct ibv_qp_attr *attr, PyObject *name, PyObject *value)
{
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (PyUnicode_CompareWithASCIIString(name, fields[i].name) == 0)
            return core_field_store(state, (PyObject *)attr, &fields[i], value);

    if (PyUnicode_CompareWithASCIIString(name, "ah_attr") == 0)
        return set_ah_attr(state, &attr->ah_attr, "ah_attr", value);
    if (PyUnicode_CompareWithASCIIString(name, "alt_ah_attr") == 0)
        return set_ah_attr(state, &attr->alt_ah_attr, "alt_ah_attr", value);
    if (PyUnicode_CompareWithASCIIString(name, "cap") == 0) {
        if (!core_is(state, value, CORE_TYPE_QP_CAP)) {
            core_raise_type("cap", "a QPCap", value);
            return -1;
        }
        attr->cap = *core_qp_cap_get(value);
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "struct ibv_qp_attr has no field %R", name);
    return -1;
}

static int put_ah_attr(struct core_state *state, PyObject *dict, const char *name, const struct ibv_ah_attr *attr)
{
    PyObject *object = core_ah_attr_copy(state, attr);
    int failed;

    if (!object)
        return -1;
    failed = PyDict_SetItemString(dict, name, object);
    Py_DECREF(object);
    return failed;
}

static bool is_named(const char *const *names, const char *name)
{
    if (!names)
        return true;
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

PyObject *core_qp_attr_dict(struct core_state *state, const struct ibv_qp_attr *attr, const char *const *names)
{
    PyObject *dict = PyDict_New();

    for (size_t i = 0; dict && i < FIELD_COUNT; i++) {
        PyObject *value;

        if (!is_named(names, fields[i].name))
            continue;
        value = core_field_get((PyObject *)attr, (void *)&fields[i]);
        if (!value || PyDict_SetItemString(dict, fields[i].name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    if (dict && is_named(names, "ah_attr") && put_ah_attr(state, dict, "ah_attr", &attr->ah_attr) < 0)
        Py_CLEAR(dict);
    if (dict && is_named(names, "alt_ah_attr") && put_ah_attr(state, dict, "alt_ah_attr", &attr->alt_ah_attr) < 0)
        Py_CLEAR(dict);
    return dict;
}
