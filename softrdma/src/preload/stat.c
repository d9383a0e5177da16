/* SPDX-License-Identifier: BSD-3-Clause */
/* stat, in both generations of the C library. */
#include "preload.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "../cm/cm.h"
#include "../config.h"
#include "../device.h"
#include "../fd.h"
#include "../process.h"
#include "../sysfs.h"

struct node {
    unsigned major, minor; /* 0: none of ours */
    ino_t number;
};

static struct node device_node(int device)
{
    return (struct node){DEVICE_MAJOR, DEVICE_MINOR + (unsigned)device, (ino_t)device + 1};
}

static const struct node cm_node = {CM_MAJOR, CM_MINOR, CONFIG_MAX_DEVICES + 1};

static struct node node_of_path(const char *resolved)
{
    int device = sysfs_device(resolved);

    if (device >= 0)
        return device_node(device);
    return sysfs_is_cm(resolved) ? cm_node : (struct node){0};
}

static struct node node_of_fd(int fd)
{
    uint32_t index;
    enum fd_kind kind = fd_kind(fd, &index);

    if (kind == FD_COMMAND)
        return device_node((int)process.region->context[index].device);
    return kind == FD_CM ? cm_node : (struct node){0};
}

static int node_stat(const struct node *node, struct stat *st)
{
    memset(st, 0, sizeof(*st));
    st->st_mode = S_IFCHR | 0666;
    st->st_nlink = 1;
    st->st_rdev = makedev(node->major, node->minor);
    st->st_ino = node->number;
    st->st_blksize = 4096;
    return 0;
}

static int stat_path(int dir, const char *path, struct stat *st, int flags)
{
    char buf[SYSFS_PATH_MAX];
    const char *p = sysfs_path(path, buf);
    struct node node = node_of_path(p);

    return node.major ? node_stat(&node, st) : libc_fstatat(dir, p, st, flags);
}

static int stat_fd(int fd, struct stat *st)
{
    struct node node = node_of_fd(fd);

    return node.major ? node_stat(&node, st) : libc_fstat(fd, st);
}

/* On 64-bit hosts the two names of each call have one structure. */
#define STAT64(st) ((struct stat *)(void *)(st))

EXPORT int stat(const char *path, struct stat *st)
{
    return stat_path(AT_FDCWD, path, st, 0);
}

EXPORT int stat64(const char *path, struct stat64 *st)
{
    return stat_path(AT_FDCWD, path, STAT64(st), 0);
}

EXPORT int lstat(const char *path, struct stat *st)
{
    return stat_path(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

EXPORT int lstat64(const char *path, struct stat64 *st)
{
    return stat_path(AT_FDCWD, path, STAT64(st), AT_SYMLINK_NOFOLLOW);
}

EXPORT int fstat(int fd, struct stat *st)
{
    return stat_fd(fd, st);
}

EXPORT int fstat64(int fd, struct stat64 *st)
{
    return stat_fd(fd, STAT64(st));
}

static int stat_at(int dir, const char *path, struct stat *st, int flags)
{
    if ((flags & AT_EMPTY_PATH) && (!path || !path[0]))
        return stat_fd(dir, st);
    return stat_path(dir, path, st, flags);
}

EXPORT int fstatat(int dir, const char *path, struct stat *st, int flags)
{
    return stat_at(dir, path, st, flags);
}

EXPORT int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
    return stat_at(dir, path, STAT64(st), flags);
}

EXPORT int __xstat(int version, const char *path, struct stat *st);
EXPORT int __xstat(int version, const char *path, struct stat *st)
{
    (void)version;
    return stat_path(AT_FDCWD, path, st, 0);
}

EXPORT int __xstat64(int version, const char *path, struct stat64 *st);
EXPORT int __xstat64(int version, const char *path, struct stat64 *st)
{
    (void)version;
    return stat_path(AT_FDCWD, path, STAT64(st), 0);
}

EXPORT int __lxstat(int version, const char *path, struct stat *st);
EXPORT int __lxstat(int version, const char *path, struct stat *st)
{
    (void)version;
    return stat_path(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

EXPORT int __lxstat64(int version, const char *path, struct stat64 *st);
EXPORT int __lxstat64(int version, const char *path, struct stat64 *st)
{
    (void)version;
    return stat_path(AT_FDCWD, path, STAT64(st), AT_SYMLINK_NOFOLLOW);
}

EXPORT int __fxstat(int version, int fd, struct stat *st);
EXPORT int __fxstat(int version, int fd, struct stat *st)
{
    (void)version;
    return stat_fd(fd, st);
}

EXPORT int __fxstat64(int version, int fd, struct stat64 *st);
EXPORT int __fxstat64(int version, int fd, struct stat64 *st)
{
    (void)version;
    return stat_fd(fd, STAT64(st));
}

EXPORT int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);
EXPORT int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags)
{
    (void)version;
    return stat_at(dir, path, st, flags);
}

EXPORT int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);
EXPORT int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags)
{
    (void)version;
    return stat_at(dir, path, STAT64(st), flags);
}

EXPORT int statx(int dir, const char *path, int flags, unsigned mask, struct statx *stx)
{
    char buf[SYSFS_PATH_MAX];
    const char *p = sysfs_path(path, buf);
    struct node node = node_of_path(p);

    if (!node.major && (flags & AT_EMPTY_PATH) && !path[0])
        node = node_of_fd(dir);
    if (!node.major) {
        if (libc_get()->statx)
            return libc_get()->statx(dir, p, flags, mask, stx);
        return fail(ENOSYS);
    }
    memset(stx, 0, sizeof(*stx));
    stx->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_INO;
    stx->stx_mode = S_IFCHR | 0666;
    stx->stx_nlink = 1;
    stx->stx_ino = node.number;
    stx->stx_rdev_major = node.major;
    stx->stx_rdev_minor = node.minor;
    return 0;
}
