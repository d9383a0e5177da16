/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, finding and sweeping the tree. */
#include "sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/file.h>
#include <unistd.h>

#include "cm/cm.h"
#include "config.h"
#include "device.h"
#include "fd.h"
#include "libc.h"
#include "nic.h"
#include "process.h"

#define PREFIX "softrdma-"

static char root[128]; /* empty: not made */
static int root_fd = -1;
static pthread_mutex_t make_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool made;

static bool begins(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(text, prefix, n) == 0 && (text[n] == '/' || text[n] == '\0');
}

/* Removes a folder and everything in it. */
static void remove_tree(int parent, const char *name)
{
    int fd = libc_get()->openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir) {
        if (fd >= 0)
            libc_get()->close(fd);
        return;
    }
    while ((e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, e->d_name, 0) != 0 && (errno == EISDIR || errno == EPERM))
            remove_tree(fd, e->d_name);
    }
    closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

static int open_dir(int parent, const char *name)
{
    return libc_get()->openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Trees of ours that nobody holds any more. */
static void sweep(const char *folder, int folder_fd)
{
    char prefix[32];
    DIR *dir = libc_get()->opendir(folder);
    struct dirent *e;

    if (!dir)
        return;
    snprintf(prefix, sizeof(prefix), PREFIX "%u-", (unsigned)geteuid());
    while ((e = readdir(dir))) {
        int fd;

        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        fd = open_dir(folder_fd, e->d_name);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_tree(folder_fd, e->d_name);
        libc_get()->close(fd);
    }
    closedir(dir);
}

/* The folders above a path in the tree. */
static void make_folders(char *rel)
{
    for (char *slash = strchr(rel, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdirat(root_fd, rel, 0755);
        *slash = '/';
    }
}

void sysfs_link(const char *target, const char *path)
{
    char rel[200];

    snprintf(rel, sizeof(rel), "%s", path);
    make_folders(rel);
    if (symlinkat(target, root_fd, rel) != 0 && errno != EEXIST)
        TRACE("%s: %s", rel, strerror(errno));
}

/* Under another name first: a reader finds the old text or the new. */
void sysfs_put(const char *value, const char *fmt, ...)
{
    char rel[200], fresh[204], path[SYSFS_PATH_MAX];
    va_list ap;
    int fd;

    va_start(ap, fmt);
    vsnprintf(rel, sizeof(rel), fmt, ap);
    va_end(ap);
    make_folders(rel);
    snprintf(fresh, sizeof(fresh), "%s.new", rel);
    fd = libc_get()->openat(root_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    snprintf(path, sizeof(path), "%s\n", value);
    if (libc_get()->write(fd, path, strlen(path)) < 0)
        TRACE("%s: %s", rel, strerror(errno));
    libc_get()->close(fd);
    renameat(root_fd, fresh, root_fd, rel);
}

static void take_away(const char *fmt, ...) PRINTF_LIKE(1, 2);

static void take_away(const char *fmt, ...)
{
    char rel[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(rel, sizeof(rel), fmt, ap);
    va_end(ap);
    if (unlinkat(root_fd, rel, 0) != 0 && (errno == EISDIR || errno == EPERM))
        remove_tree(root_fd, rel);
}

/* An entry of the table; an empty one of those that have been used shows zeros, and no attributes. */
static void put_gid(const struct device *d, const char *dir, uint32_t i)
{
    struct region *r = process.region;
    uint8_t g[16] = {0};
    bool was_full = i < DEVICE_GIDS && !gid_is_empty(d->gid[i]), full = was_full;
    char text[48];
    size_t n = 0;

    if (r)
        full = nic_gid(r, (uint32_t)d->index, i, g);
    else if (full)
        memcpy(g, d->gid[i], sizeof(g));
    if (!full && !was_full && !(r && atomic_load(&r->nic[d->index].disturbed)))
        return;
    for (int k = 0; k < 16; k += 2)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%02x%02x", k ? ":" : "", g[k], g[k + 1]);
    sysfs_put(text, "%s/gids/%u", dir, i);
    if (full) {
        sysfs_put(d->model->gid_type_name, "%s/gid_attrs/types/%u", dir, i);
        if (d->netdev[0])
            sysfs_put(d->netdev, "%s/gid_attrs/ndevs/%u", dir, i);
    } else {
        take_away("%s/gid_attrs/types/%u", dir, i);
        take_away("%s/gid_attrs/ndevs/%u", dir, i);
    }
}

/* The part of a port that can change. */
static void put_port_state(const struct device *d, const char *dir)
{
    bool down = process.region && nic_link_is_down(process.region, (uint32_t)d->index);

    sysfs_put(down ? "1: DOWN" : "4: ACTIVE", "%s/state", dir);
    sysfs_put(down ? "3: Disabled" : "5: LinkUp", "%s/phys_state", dir);
    for (uint32_t i = 0; i < NIC_GIDS && i < d->model->gid_table; i++)
        put_gid(d, dir, i);
}

static void put_ports(const struct device *d, const char *dir)
{
    put_port_state(d, dir);
    sysfs_put(d->model->rate, "%s/rate", dir);
    sysfs_put(d->model->link_layer, "%s/link_layer", dir);
    sysfs_put("0x0", "%s/lid", dir);
    sysfs_put("0", "%s/lid_mask_count", dir);
    sysfs_put("0x0", "%s/sm_lid", dir);
    sysfs_put("0", "%s/sm_sl", dir);
    sysfs_put("0x00010000", "%s/cap_mask", dir);
    sysfs_put("0xffff", "%s/pkeys/0", dir);
}

static void put_device(const struct device *d)
{
    const uint8_t *g = d->guid;
    char text[64], dir[64];

    snprintf(dir, sizeof(dir), "class/infiniband_verbs/uverbs%d", d->index);
    sysfs_put(d->name, "%s/ibdev", dir);
    snprintf(text, sizeof(text), "%u", d->model->abi_version);
    sysfs_put(text, "%s/abi_version", dir);
    snprintf(text, sizeof(text), "%d:%d", DEVICE_MAJOR, DEVICE_MINOR + d->index);
    sysfs_put(text, "%s/dev", dir);

    snprintf(dir, sizeof(dir), "class/infiniband/%s", d->name);
    snprintf(text, sizeof(text), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1], g[2], g[3], g[4], g[5],
             g[6], g[7]);
    sysfs_put(d->model->node_type, "%s/node_type", dir);
    sysfs_put(d->model->name, "%s/node_desc", dir);
    sysfs_put("", "%s/fw_ver", dir);
    sysfs_put(text, "%s/node_guid", dir);
    sysfs_put(text, "%s/sys_image_guid", dir);
    if (d->netdev[0])
        sysfs_put(d->netdev, "%s/parent", dir);
    if (d->model->put_files)
        d->model->put_files(d);
    snprintf(dir, sizeof(dir), "class/infiniband/%s/ports/1", d->name);
    put_ports(d, dir);
    sysfs_put("", "dev/infiniband/uverbs%d", d->index);
}

/* libibverbs keeps the order in which it finds devices, and tmpfs lists the newest first. */
static void fill(void)
{
    char text[24];

    sysfs_put("6", "class/infiniband_verbs/abi_version");
    mkdirat(root_fd, "class/infiniband", 0755);
    mkdirat(root_fd, "dev", 0755);
    mkdirat(root_fd, "dev/infiniband", 0755);
    sysfs_put("4", "class/misc/rdma_cm/abi_version");
    snprintf(text, sizeof(text), "%d:%d", CM_MAJOR, CM_MINOR);
    sysfs_put(text, "class/misc/rdma_cm/dev");
    sysfs_put("", "dev/infiniband/rdma_cm");
    for (int i = device_count() - 1; i >= 0; i--) {
        if (!nic_is_removed(process.region, (uint32_t)i))
            put_device(device_at(i));
    }
}

void sysfs_refresh(uint32_t device)
{
    const struct device *d = device_at((int)device);
    char dir[64];
    int saved = errno;

    pthread_mutex_lock(&make_lock);
    snprintf(dir, sizeof(dir), "class/infiniband/%s", d->name);
    if (atomic_load(&made) && root[0] && nic_is_removed(process.region, device)) {
        take_away("class/infiniband_verbs/uverbs%d", d->index);
        take_away("dev/infiniband/uverbs%d", d->index);
        take_away("%s", dir);
    } else if (atomic_load(&made) && root[0] && libc_get()->faccessat(root_fd, dir, F_OK, 0) != 0) {
        put_device(d);
    } else if (atomic_load(&made) && root[0]) {
        strcat(dir, "/ports/1");
        put_port_state(d, dir);
    }
    pthread_mutex_unlock(&make_lock);
    errno = saved;
}

/* The folder is locked while trees in it come and go, so that nobody sweeps one that is not yet held. */
static bool make_in(const char *folder)
{
    int folder_fd;
    bool ok = false;

    if (!folder || strlen(folder) > 80)
        return false;
    folder_fd = libc_get()->open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0)
        return false;
    flock(folder_fd, LOCK_EX);
    sweep(folder, folder_fd);
    snprintf(root, sizeof(root), "%s/" PREFIX "%u-XXXXXX", folder, (unsigned)geteuid());
    if (mkdtemp(root)) {
        root_fd = fd_make_internal(libc_get()->open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        ok = root_fd >= 0 && flock(root_fd, LOCK_SH) == 0;
    }
    libc_get()->close(folder_fd);
    if (!ok)
        root[0] = '\0';
    return ok;
}

static void make(void)
{
    int saved = errno;

    process_start();
    pthread_mutex_lock(&make_lock);
    if (!atomic_load(&made)) {
        if (make_in("/dev/shm") || make_in(secure_getenv("XDG_RUNTIME_DIR")) ||
            make_in(secure_getenv("TMPDIR")) || make_in("/tmp"))
            fill();
        atomic_store_explicit(&made, true, memory_order_release);
    }
    pthread_mutex_unlock(&make_lock);
    errno = saved;
}

const char *sysfs_path(const char *path, char buf[SYSFS_PATH_MAX])
{
    if (!path || path[0] != '/')
        return path;
    if (!begins(path, "/sys/class/infiniband") && !begins(path, "/sys/class/infiniband_verbs") &&
        !begins(path, "/sys/class/misc/rdma_cm") && !begins(path, "/dev/infiniband"))
        return path;
    if (!atomic_load_explicit(&made, memory_order_acquire))
        make();
    if (!root[0])
        return path;
    if ((size_t)snprintf(buf, SYSFS_PATH_MAX, "%s%s", root,
                         begins(path, "/dev/infiniband") ? path : path + 4) >= SYSFS_PATH_MAX)
        return path;
    return buf;
}

int sysfs_device(const char *resolved)
{
    size_t n = strlen(root);
    char *end;
    long i;

    if (!n || !resolved || strncmp(resolved, root, n) != 0 ||
        strncmp(resolved + n, "/dev/infiniband/uverbs", 22) != 0)
        return -1;
    i = strtol(resolved + n + 22, &end, 10);
    if (end == resolved + n + 22 || *end || i < 0 || i >= device_count())
        return -1;
    return nic_is_removed(process.region, (uint32_t)i) ? -1 : (int)i;
}

bool sysfs_is_cm(const char *resolved)
{
    size_t n = strlen(root);

    return n && resolved && strncmp(resolved, root, n) == 0 && strcmp(resolved + n, "/dev/infiniband/rdma_cm") == 0;
}

void sysfs_remove(void)
{
    char *slash = strrchr(root, '/');
    char folder[sizeof(root)];
    int folder_fd;

    if (!root[0] || process_is_borrowed())
        return;
    memcpy(folder, root, (size_t)(slash - root));
    folder[slash - root] = '\0';
    folder_fd = libc_get()->open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd_close_internal(root_fd);
    if (folder_fd >= 0) {
        int fd = open_dir(folder_fd, slash + 1);

        flock(folder_fd, LOCK_EX);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) /* no relative uses it */
            remove_tree(folder_fd, slash + 1);
        if (fd >= 0)
            libc_get()->close(fd);
        libc_get()->close(folder_fd);
    }
    root[0] = '\0';
}

/* A tree that another thread of the parent was just making is not the child's: it makes its own. */
void sysfs_in_child(void)
{
    pthread_mutex_init(&make_lock, NULL);
}
