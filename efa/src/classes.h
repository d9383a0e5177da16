/* SPDX-License-Identifier: BSD-3-Clause */
/* The classes that this package has in a form of its own, and those that only it has; module.c lists all of them. */
#ifndef EFA_CLASSES_H
#define EFA_CLASSES_H

#include "state.h"

/* Those that only this package has. */
#define EFA_TYPE_CQ_PLAIN (CORE_TYPE_OWN + 0) /* CORE_TYPE_CQ is their common base */
#define EFA_TYPE_CQ_EX (CORE_TYPE_OWN + 1)
#define EFA_TYPE_DEVICE_ATTR (CORE_TYPE_OWN + 2)
#define EFA_TYPE_MR_ATTR (CORE_TYPE_OWN + 3)
#define EFA_TYPE_CQ_ATTR (CORE_TYPE_OWN + 4)
#define EFA_TYPE_WQ_ATTR (CORE_TYPE_OWN + 5)
#define EFA_TYPE_COMP_CNTR (CORE_TYPE_OWN + 6)
#define EFA_TYPE_DESTINATION (CORE_TYPE_OWN + 7)

extern const PyType_Spec efa_ah_attr_spec;
extern const PyType_Spec efa_ah_spec;
extern const PyType_Spec efa_comp_cntr_spec;
extern const PyType_Spec efa_context_spec;
extern const PyType_Spec efa_cq_attr_spec;
extern const PyType_Spec efa_cq_base_spec;
extern const PyType_Spec efa_cq_ex_spec;
extern const PyType_Spec efa_cq_spec;
extern const PyType_Spec efa_destination_spec;
extern const PyType_Spec efa_device_attr_spec;
extern const PyType_Spec efa_error_spec;
extern const PyType_Spec efa_mr_attr_spec;
extern const PyType_Spec efa_mr_spec;
extern const PyType_Spec efa_pd_spec;
extern const PyType_Spec efa_qp_init_attr_spec;
extern const PyType_Spec efa_qp_spec;
extern const PyType_Spec efa_send_wr_spec;
extern const PyType_Spec efa_wc_spec;
extern const PyType_Spec efa_wq_attr_spec;

#endif
