/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and looking, by a path. */
#include "preload.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#include "../cm/cm.h"
#include "../context.h"
#include "../sysfs.h"

static int opened(int fd)
{
    return fd < 0 ? fail(-fd) : fd;
}

#define OPEN_MODE(flags)                                                                                     \
    mode_t mode = 0;                                                                                         \
    if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) {                                                  \
        va_list ap;                                                                                          \
        va_start(ap, flags);                                                                                 \
        mode = va_arg(ap, mode_t);                                                                           \
        va_end(ap);                                                                                          \
    }

static int open_path(int dir, const char *path, int flags, mode_t mode)
{
    char buf[SYSFS_PATH_MAX];
    const char *p = sysfs_path(path, buf);
    int device = p == path ? -1 : sysfs_device(p);

    if (device < 0 && p == path && path && path[0] == '/')
        device = sysfs_device(path); /* by its resolved name */
    if (device >= 0)
        return opened(context_open(device, flags));
    if (sysfs_is_cm(p))
        return opened(cm_open(flags));
    return libc_get()->openat(dir, p, flags, mode);
}

EXPORT int open(const char *path, int flags, ...)
{
    OPEN_MODE(flags)
    return open_path(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    OPEN_MODE(flags)
    return open_path(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
    OPEN_MODE(flags)
    return open_path(dir, path, flags, mode);
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
    OPEN_MODE(flags)
    return open_path(dir, path, flags | O_LARGEFILE, mode);
}

/* What fortified programs call when there is no mode. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open_2(const char *path, int flags)
{
    return open_path(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags)
{
    return open_path(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

EXPORT int __openat_2(int dir, const char *path, int flags);
EXPORT int __openat_2(int dir, const char *path, int flags)
{
    return open_path(dir, path, flags, 0);
}

EXPORT int __openat64_2(int dir, const char *path, int flags);
EXPORT int __openat64_2(int dir, const char *path, int flags)
{
    return open_path(dir, path, flags | O_LARGEFILE, 0);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->fopen(sysfs_path(path, buf), mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->fopen64(sysfs_path(path, buf), mode);
}

EXPORT DIR *opendir(const char *path)
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->opendir(sysfs_path(path, buf));
}

EXPORT int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **))
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->scandir(sysfs_path(path, buf), list, filter, compare);
}

EXPORT int access(const char *path, int mode)
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->access(sysfs_path(path, buf), mode);
}

EXPORT int euidaccess(const char *path, int mode)
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->euidaccess(sysfs_path(path, buf), mode);
}

EXPORT int eaccess(const char *path, int mode)
{
    return euidaccess(path, mode);
}

EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->faccessat(dir, sysfs_path(path, buf), mode, flags);
}

EXPORT ssize_t readlink(const char *path, char *out, size_t size)
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->readlink(sysfs_path(path, buf), out, size);
}

EXPORT ssize_t readlinkat(int dir, const char *path, char *out, size_t size)
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->readlinkat(dir, sysfs_path(path, buf), out, size);
}

EXPORT char *realpath(const char *path, char *out)
{
    char buf[SYSFS_PATH_MAX];

    return libc_get()->realpath(sysfs_path(path, buf), out);
}

EXPORT char *canonicalize_file_name(const char *path)
{
    return realpath(path, NULL);
}

EXPORT char *__realpath_chk(const char *path, char *out, size_t size);
EXPORT char *__realpath_chk(const char *path, char *out, size_t size)
{
    if (size < PATH_MAX)
        abort(); /* what the checked call does */
    return realpath(path, out);
}
