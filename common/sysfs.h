/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files of sysfs, and what they say of an RDMA device. Knows no Python and no verb. */
#ifndef CORE_SYSFS_H
#define CORE_SYSFS_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Reads the file `folder`/`...` (made as printf makes it) into `text`, without its last newline, cut to what fits.
 * Returns whether there was anything in it; `text` is empty if not.
 */
bool sysfs_read(char *text, size_t size, const char *folder, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define SYSFS_NETDEVS 32

/* Names of network devices, each once, in order. */
struct sysfs_netdevs {
    int count;
    char names[SYSFS_NETDEVS][IF_NAMESIZE];
};

/* The PCI address of the device behind the folder of an RDMA device ("0000:3b:00.0"); false where it has none. */
bool sysfs_pci_address(const char *ibdev_path, char *ret_text, size_t size);

/* The NUMA node of that device; -1 where it is not known. */
int sysfs_numa_node(const char *ibdev_path);

/* The network devices that belong to it: those under its GIDs, its parent (of rxe), and those of the same function. */
void sysfs_find_netdevs(const char *ibdev_path, struct sysfs_netdevs *ret_found);

#endif
