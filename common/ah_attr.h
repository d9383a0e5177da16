/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AHAttr: an address vector: where a packet goes and how. struct ibv_ah_attr with the global route's fields beside
 * the others. The class is the module's, which chooses the fields and their order; what there is to choose from is here.
 */
#ifndef CORE_AH_ATTR_H
#define CORE_AH_ATTR_H

#include <infiniband/verbs.h>

#include "field.h"
#include "state.h"

struct core_ah_attr {
    PyObject_HEAD
    struct ibv_ah_attr attr;
};

/* The fields, each X(attribute, member of struct ibv_ah_attr, largest value, meaning). dgid is one more. */
#define CORE_AH_ATTR_SGID_INDEX(X)                                                                                     \
    X(sgid_index, grh.sgid_index, UINT8_MAX, "Which entry of the port's GID table is the source.")
#define CORE_AH_ATTR_DLID(X) X(dlid, dlid, UINT16_MAX, "The destination's LID, on InfiniBand.")
#define CORE_AH_ATTR_IS_GLOBAL(X)                                                                                      \
    X(is_global, is_global, 1, "Whether packets carry a global route (GRH); always on Ethernet.")
#define CORE_AH_ATTR_PORT_NUM(X) X(port_num, port_num, UINT8_MAX, "The local port.")
#define CORE_AH_ATTR_HOP_LIMIT(X)                                                                                      \
    X(hop_limit, grh.hop_limit, UINT8_MAX, "How many routers a packet may pass, plus one.")
#define CORE_AH_ATTR_TRAFFIC_CLASS(X)                                                                                  \
    X(traffic_class, grh.traffic_class, UINT8_MAX, "The traffic class: DSCP and ECN, on RoCE v2.")
#define CORE_AH_ATTR_SL(X) X(sl, sl, 15, "The service level.")
#define CORE_AH_ATTR_FLOW_LABEL(X) X(flow_label, grh.flow_label, 0xfffff, "The flow label, 20 bits.")
#define CORE_AH_ATTR_SRC_PATH_BITS(X) X(src_path_bits, src_path_bits, 0x7f, "The low bits of the source LID.")
#define CORE_AH_ATTR_STATIC_RATE(X)                                                                                    \
    X(static_rate, static_rate, UINT8_MAX, "The largest rate, enum ibv_rate; 0 is the port's.")

/* What a module makes of its list: `fields` with dgid first, their numbers AT_..., rows of its PyGetSetDef. */
#define CORE_AH_ATTR_DGID_FIELD CORE_FIELD_OF_KIND(core_ah_attr, attr.grh.dgid, "dgid", CORE_FIELD_GID)
#define CORE_AH_ATTR_FIELD(name, member, most, doc) CORE_FIELD_LIMITED(core_ah_attr, attr.member, #name, most),
#define CORE_AH_ATTR_INDEX(name, member, most, doc) AT_##name,
#define CORE_AH_ATTR_ROW(name, member, most, doc)                                                                      \
    {#name, core_field_get, core_field_set, doc, (void *)&fields[AT_##name]},
#define CORE_AH_ATTR_DGID_ROW                                                                                          \
    {"dgid", core_field_get, core_field_set, "The destination's GID, or None.", (void *)&fields[AT_dgid]}

/* tp_new: a record's constructor, with the defaults that are not zero. */
PyObject *core_ah_attr_new(PyTypeObject *type, PyObject *args, PyObject *kwargs, const struct core_record *record);

/* An AHAttr that holds what the library gave. */
PyObject *core_ah_attr_copy(struct core_state *state, const struct ibv_ah_attr *attr);

/* Puts those defaults into an address vector. */
void core_ah_attr_init(struct ibv_ah_attr *attr);

/* Whether an address vector can be used: a global route needs its destination. Returns 0, or -1 with ValueError. */
int core_ah_attr_check(const struct ibv_ah_attr *attr, const char *name);

#endif
