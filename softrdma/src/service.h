/* SPDX-License-Identifier: BSD-3-Clause */
/* The one thread of a process: timers of waiting queue pairs, events that peers caused, newcomers that ask
 * for the region. */
#ifndef SOFTRDMA_SERVICE_H
#define SOFTRDMA_SERVICE_H

#include "region.h"

/* Starts it and waits until it counts as a sign of life; 0 or errno. */
int service_start(void);

/* Makes every serving process of the region look for work. */
void service_wake_all(struct region *r);

#endif
