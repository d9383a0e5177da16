/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.AHAttr */
#include "ah_attr.h"

#include "classes.h"

/* In the order of the constructor, after dgid. */
#define AH_ATTR_FIELDS(X)                                                                                              \
    CORE_AH_ATTR_SGID_INDEX(X)                                                                                         \
    CORE_AH_ATTR_PORT_NUM(X)                                                                                           \
    CORE_AH_ATTR_HOP_LIMIT(X)                                                                                          \
    CORE_AH_ATTR_TRAFFIC_CLASS(X)                                                                                      \
    CORE_AH_ATTR_FLOW_LABEL(X)                                                                                         \
    CORE_AH_ATTR_IS_GLOBAL(X)

enum field_index { AT_dgid, AH_ATTR_FIELDS(CORE_AH_ATTR_INDEX) FIELD_COUNT };

static const struct core_field fields[] = {CORE_AH_ATTR_DGID_FIELD, AH_ATTR_FIELDS(CORE_AH_ATTR_FIELD)};
static const struct core_record record = {fields, FIELD_COUNT};

CORE_RECORD_FUNCTIONS(ah_attr, record)

static PyMethodDef ah_attr_methods[] = {CORE_RECORD_METHOD(ah_attr), {NULL, NULL, 0, NULL}};

static PyObject *ah_attr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return core_ah_attr_new(type, args, kwargs, &record);
}

static PyGetSetDef ah_attr_getset[] = {
    CORE_AH_ATTR_DGID_ROW, AH_ATTR_FIELDS(CORE_AH_ATTR_ROW){NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot ah_attr_slots[] = {
    {Py_tp_doc, "AHAttr(dgid=None, sgid_index=0, port_num=1, hop_limit=1, traffic_class=0, flow_label=0, "
                "is_global=1)\n--\n\n"
                "An address vector: where packets go. EFA looks at dgid alone. struct ibv_ah_attr."},
    CORE_RECORD_SLOTS(ah_attr, ah_attr_new, PyObject_HashNotImplemented),
    {Py_tp_getset, ah_attr_getset},
    {0, NULL},
};

const PyType_Spec efa_ah_attr_spec = {
    .basicsize = sizeof(struct core_ah_attr),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = ah_attr_slots,
};
