/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading sysfs. See sysfs.h. */
#include "sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sysfs_read(char *text, size_t size, const char *folder, const char *format, ...)
{
    char path[PATH_MAX];
    ssize_t length;
    size_t used;
    va_list rest;
    int fd;

    *text = '\0';
    used = (size_t)snprintf(path, sizeof path, "%s/", folder);
    if (used >= sizeof path)
        return false;
    va_start(rest, format);
    vsnprintf(path + used, sizeof path - used, format, rest);
    va_end(rest);

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    do
        length = read(fd, text, size - 1);
    while (length < 0 && errno == EINTR);
    close(fd);
    if (length < 0) /* an attribute that has no value now, such as the type of an empty GID */
        length = 0;
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return *text;
}

bool sysfs_pci_address(const char *ibdev_path, char *ret_text, size_t size)
{
    char path[PATH_MAX], target[PATH_MAX], *name;
    unsigned domain, bus, slot, function;
    ssize_t length;
    int end = 0;

    snprintf(path, sizeof path, "%s/device", ibdev_path);
    length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    name = strrchr(target, '/');
    name = name ? name + 1 : target;
    if (sscanf(name, "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &end) != 4 || name[end])
        return false;
    snprintf(ret_text, size, "%s", name);
    return true;
}

int sysfs_numa_node(const char *ibdev_path)
{
    char text[16];

    return sysfs_read(text, sizeof text, ibdev_path, "device/numa_node") ? atoi(text) : -1;
}

/* ---- network devices ----------------------------------------------------------------------------------------------- */

static void add(struct sysfs_netdevs *found, const char *name)
{
    int at = 0;

    while (at < found->count && strcmp(found->names[at], name) < 0)
        at++;
    if (!*name || strlen(name) >= IF_NAMESIZE || found->count == SYSFS_NETDEVS ||
        (at < found->count && strcmp(found->names[at], name) == 0))
        return;
    memmove(found->names[at + 1], found->names[at], (size_t)(found->count - at) * IF_NAMESIZE);
    strcpy(found->names[at], name);
    found->count++;
}

/* Those under the GIDs of a port; false when there is no such port. */
static bool add_of_port(struct sysfs_netdevs *found, const char *ibdev_path, int port)
{
    char path[PATH_MAX], name[64];
    struct dirent *entry;
    DIR *folder;

    snprintf(path, sizeof path, "%s/ports/%d", ibdev_path, port);
    if (access(path, F_OK) != 0)
        return false;
    snprintf(path, sizeof path, "%s/ports/%d/gid_attrs/ndevs", ibdev_path, port);
    folder = opendir(path);
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && sysfs_read(name, sizeof name, path, "%s", entry->d_name))
            add(found, name);
    if (folder)
        closedir(folder);
    return true;
}

void sysfs_find_netdevs(const char *ibdev_path, struct sysfs_netdevs *ret_found)
{
    char path[PATH_MAX], name[64];
    struct dirent *entry;
    DIR *folder;

    ret_found->count = 0;
    for (int port = 1; port <= 255 && add_of_port(ret_found, ibdev_path, port); port++)
        ;
    if (sysfs_read(name, sizeof name, ibdev_path, "parent"))
        add(ret_found, name);
    snprintf(path, sizeof path, "%s/device/net", ibdev_path);
    folder = opendir(path);
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            add(ret_found, entry->d_name);
    if (folder)
        closedir(folder);
}
