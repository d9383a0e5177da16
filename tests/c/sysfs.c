/* SPDX-License-Identifier: BSD-3-Clause */
/* common/sysfs.c on a tree of this program's own. */
#include "sysfs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static char root[] = "/tmp/unit-sysfs-XXXXXX";

/* Makes a file, or with a NULL text a folder, and every folder above it. */
static void put(const char *text, const char *format, ...)
{
    char path[300];
    va_list rest;
    size_t used = (size_t)snprintf(path, sizeof path, "%s/", root);

    va_start(rest, format);
    vsnprintf(path + used, sizeof path - used, format, rest);
    va_end(rest);
    for (char *slash = strchr(path + used, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    if (!text) {
        mkdir(path, 0755);
        return;
    }
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

static void check_reading(void)
{
    char text[8];

    put("abc\n", "small");
    CHECK(sysfs_read(text, sizeof text, root, "sma%s", "ll") && strcmp(text, "abc") == 0);
    put("0123456789", "long");
    CHECK(sysfs_read(text, sizeof text, root, "long") && strcmp(text, "0123456") == 0);
    put("one\ntwo\n", "lines");
    CHECK(sysfs_read(text, sizeof text, root, "lines") && strcmp(text, "one") == 0);
    put("\n", "empty");
    CHECK(!sysfs_read(text, sizeof text, root, "empty") && !*text);
    strcpy(text, "before");
    CHECK(!sysfs_read(text, sizeof text, root, "nowhere") && !*text);
    CHECK(!sysfs_read(text, sizeof text, root, ".") && !*text); /* a folder cannot be read */
}

static void check_pci(void)
{
    char text[32], path[300], link[320];

    put(NULL, "pci/0000:3b:00.1");
    put("1\n", "pci/0000:3b:00.1/numa_node");
    put(NULL, "pci/0000:3b:00.1/net/eth7");
    put(NULL, "mlx5_0");
    snprintf(path, sizeof path, "%s/mlx5_0", root);
    snprintf(link, sizeof link, "%s/device", path);
    CHECK(!sysfs_pci_address(path, text, sizeof text));
    CHECK(sysfs_numa_node(path) == -1);

    CHECK(symlink("../pci/0000:3b:00.1", link) == 0);
    CHECK(sysfs_pci_address(path, text, sizeof text) && strcmp(text, "0000:3b:00.1") == 0);
    CHECK(sysfs_numa_node(path) == 1);
    put("-1\n", "pci/0000:3b:00.1/numa_node");
    CHECK(sysfs_numa_node(path) == -1);

    for (const char *const *other = (const char *const[]){"../virtio3", "../0000:3b:00", "../0000:3b:00.1x", NULL}; *other;
         other++) {
        CHECK(unlink(link) == 0 && symlink(*other, link) == 0);
        CHECK(!sysfs_pci_address(path, text, sizeof text));
    }
    CHECK(unlink(link) == 0 && symlink("../pci/0000:3b:00.1", link) == 0);
}

static void check_netdevs(void)
{
    struct sysfs_netdevs found;
    char path[300];

    snprintf(path, sizeof path, "%s/mlx5_0", root);
    sysfs_find_netdevs(path, &found);
    CHECK(found.count == 1 && strcmp(found.names[0], "eth7") == 0);

    put("eth7\n", "mlx5_0/ports/1/gid_attrs/ndevs/0");
    put("eth2\n", "mlx5_0/ports/1/gid_attrs/ndevs/1");
    put("eth2\n", "mlx5_0/ports/1/gid_attrs/ndevs/2");
    put("", "mlx5_0/ports/1/gid_attrs/ndevs/3");
    put("bond0\n", "mlx5_0/ports/2/gid_attrs/ndevs/0");
    put("a-name-that-no-interface-has\n", "mlx5_0/ports/2/gid_attrs/ndevs/1");
    sysfs_find_netdevs(path, &found);
    CHECK(found.count == 3);
    CHECK(strcmp(found.names[0], "bond0") == 0 && strcmp(found.names[1], "eth2") == 0);
    CHECK(strcmp(found.names[2], "eth7") == 0);

    for (int i = 0; i < 2 * SYSFS_NETDEVS; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d\n", i);
        put(name, "rxe0/ports/1/gid_attrs/ndevs/%d", i);
    }
    snprintf(path, sizeof path, "%s/rxe0", root);
    sysfs_find_netdevs(path, &found);
    CHECK(found.count == SYSFS_NETDEVS);

    put("veth0\n", "soft/parent");
    snprintf(path, sizeof path, "%s/soft", root);
    sysfs_find_netdevs(path, &found);
    CHECK(found.count == 1 && strcmp(found.names[0], "veth0") == 0);
    snprintf(path, sizeof path, "%s/nothing", root);
    sysfs_find_netdevs(path, &found);
    CHECK(found.count == 0);
}

int main(void)
{
    char command[64];

    CHECK(mkdtemp(root) != NULL);
    check_reading();
    check_pci();
    check_netdevs();
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) == 0 ? 0 : 1;
}
