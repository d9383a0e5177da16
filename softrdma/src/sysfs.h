/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program finds under /sys/class/infiniband*, and /dev/infiniband: a small tree of real files, made
 * when somebody first looks, and paths that lead into it. Real files can be listed, opened and resolved by
 * any means.
 *
 * The tree belongs to the process that made it (and the children it forks), who hold a lock on its folder. It
 * goes when the last of them exits; what a killed process left is removed by the next one that makes a tree.
 */
#ifndef SOFTRDMA_SYSFS_H
#define SOFTRDMA_SYSFS_H

#include "base.h"

#define SYSFS_PATH_MAX 512

/* Where a path really leads: itself, or a path in the tree, written to buf. */
const char *sysfs_path(const char *path, char buf[SYSFS_PATH_MAX]);

/* The number of the device whose node that (resolved) path is, or -1. */
int sysfs_device(const char *resolved);

/* Is that (resolved) path the connection manager's device? */
bool sysfs_is_cm(const char *resolved);

/* A NIC's state has changed. */
void sysfs_refresh(uint32_t device);

/* For a device model's own files, while the tree is made: a file with a line of text, a symbolic link. Paths are those
 * of the tree, "class/infiniband/efa_0/device" and the like. */
void sysfs_put(const char *value, const char *fmt, ...) PRINTF_LIKE(2, 3);
void sysfs_link(const char *target, const char *path);

void sysfs_remove(void);   /* at exit */
void sysfs_in_child(void); /* after fork */

#endif
