/* SPDX-License-Identifier: BSD-3-Clause */
/* The classes that this package has in a form of its own; module.c lists all of them. */
#ifndef IBVERBS_CLASSES_H
#define IBVERBS_CLASSES_H

#include "state.h"

enum { IBVERBS_TYPE_CM_ID = CORE_TYPE_OWN };

extern const PyType_Spec ibverbs_ah_attr_spec;
extern const PyType_Spec ibverbs_ah_spec;
extern const PyType_Spec ibverbs_cm_id_spec;
extern const PyType_Spec ibverbs_context_spec;
extern const PyType_Spec ibverbs_cq_spec;
extern const PyType_Spec ibverbs_error_spec;
extern const PyType_Spec ibverbs_mr_spec;
extern const PyType_Spec ibverbs_pd_spec;
extern const PyType_Spec ibverbs_qp_init_attr_spec;
extern const PyType_Spec ibverbs_qp_spec;
extern const PyType_Spec ibverbs_send_wr_spec;
extern const PyType_Spec ibverbs_srq_spec;
extern const PyType_Spec ibverbs_wc_spec;

#endif
