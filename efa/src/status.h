/* SPDX-License-Identifier: BSD-3-Clause */
/* The device's own status numbers (WC.vendor_err) in words: the library folds several of them into one WCStatus. */
#ifndef EFA_STATUS_H
#define EFA_STATUS_H

#include <stdint.h>

/* What a number means; NULL for 0 and for one that is not known. */
const char *efa_status_text(uint32_t status);

/* What to look for first, for those that users meet again and again; else NULL. */
const char *efa_status_hint(uint32_t status);

#endif
