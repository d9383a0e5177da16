/* SPDX-License-Identifier: BSD-3-Clause */
/* The C library's calls that we stand in front of. Each asks one question (is this path, or this descriptor,
 * ours?) and otherwise does nothing but pass on. */
#undef _FORTIFY_SOURCE
#include "base.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cm/cm.h"
#include "config.h"
#include "context.h"
#include "device.h"
#include "doorbell.h"
#include "event.h"
#include "fault/fault.h"
#include "fd.h"
#include "guard.h"
#include "libc.h"
#include "process.h"
#include "sysfs.h"
#include "uverbs.h"

static void start_once(void)
{
    libc_get();
    config_load();
    device_init();
    fault_load();
    process_init();
}

void process_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start_once);
}

__attribute__((constructor)) static void start(void)
{
    process_start();
}

__attribute__((destructor)) static void end(void)
{
    sysfs_remove();
}

/* By this a program can tell that it runs on the host. */
EXPORT const char softrdma_version[] = SOFTRDMA_VERSION;

static int fail(int err)
{
    errno = err;
    return -1;
}

/* ---- opening and looking ---- */

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

/* ---- stat, in both generations of the C library ---- */

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

/* ---- descriptors ---- */

/* A descriptor of ours goes away. */
static void forget(int fd, enum fd_kind kind, uint32_t index)
{
    if (kind == FD_CM)
        cm_fd_closes();
    fd_set_kind(fd, FD_OTHER, 0);
    if (kind == FD_COMMAND)
        context_fd_closed(index);
    else if (kind == FD_ASYNC)
        event_async_fd_closed(index, fd);
    else if (kind == FD_CHANNEL)
        event_channel_fd_closed(index, fd);
    else if (kind == FD_CM)
        cm_fd_closed(index);
}

/* A descriptor was copied. */
static void copied(int from, int to)
{
    uint32_t index;

    enum fd_kind kind = fd_kind(from, &index);

    if (to < 0 || to >= FD_LIMIT || process_is_borrowed())
        return;
    if (kind == FD_COMMAND)
        context_add_fd(index, to);
    else if (kind == FD_CM)
        cm_add_fd(index, to);
}

EXPORT int close(int fd)
{
    uint32_t index;
    enum fd_kind kind = fd_kind(fd, &index);

    if (kind != FD_OTHER && !process_is_borrowed()) {
        if (kind == FD_INTERNAL)
            return fail(EBADF);
        forget(fd, kind, index);
    }
    return libc_get()->close(fd);
}

static int close_some(unsigned first, unsigned last, int flags)
{
    const struct libc *c = libc_get();

    if (!c->close_range)
        return fail(ENOSYS);
    return c->close_range(first, last, flags);
}

/* Our own descriptors stay; the stretches between them go. */
EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    unsigned from = first;

    if (flags || process_is_borrowed())
        return close_some(first, last, flags);
    if (first > last)
        return fail(EINVAL);
    for (unsigned fd = first; fd <= last && fd < FD_LIMIT; fd++) {
        uint32_t index;
        enum fd_kind kind = fd_kind((int)fd, &index);

        if (kind == FD_INTERNAL) {
            if (fd > from && close_some(from, fd - 1, 0) != 0)
                return -1;
            from = fd + 1;
        } else if (kind != FD_OTHER) {
            forget((int)fd, kind, index);
        }
    }
    return from <= last ? close_some(from, last, 0) : 0;
}

EXPORT void closefrom(int low)
{
    unsigned first = low < 0 ? 0 : (unsigned)low;

    if (close_range(first, UINT_MAX, 0) == 0)
        return;
    for (int fd = (int)first, limit = (int)sysconf(_SC_OPEN_MAX); fd < limit; fd++)
        close(fd);
}

EXPORT int dup(int fd)
{
    int to = libc_get()->dup(fd);

    copied(fd, to);
    return to;
}

/* The target of a dup2 is closed without a close. */
static int prepare_target(int fd, int to)
{
    uint32_t index;
    enum fd_kind kind = fd_kind(to, &index);

    if (fd == to || kind == FD_OTHER || process_is_borrowed())
        return 0;
    if (kind == FD_INTERNAL)
        return fail(EBUSY);
    forget(to, kind, index);
    return 0;
}

EXPORT int dup2(int fd, int to)
{
    int result;

    if (prepare_target(fd, to) != 0)
        return -1;
    result = libc_get()->dup2(fd, to);
    if (fd != to)
        copied(fd, result);
    return result;
}

EXPORT int dup3(int fd, int to, int flags)
{
    int result;

    if (prepare_target(fd, to) != 0)
        return -1;
    result = libc_get()->dup3(fd, to, flags);
    copied(fd, result);
    return result;
}

/* Every command takes at most one argument, of a word's size. */
static int do_fcntl(int (*next)(int, int, ...), int fd, int command, void *arg)
{
    int result = next(fd, command, arg);

    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        copied(fd, result);
    return result;
}

EXPORT int fcntl(int fd, int command, ...)
{
    va_list ap;
    void *arg;

    va_start(ap, command);
    arg = va_arg(ap, void *);
    va_end(ap);
    return do_fcntl(libc_get()->fcntl, fd, command, arg);
}

EXPORT int fcntl64(int fd, int command, ...)
{
    const struct libc *c = libc_get();
    va_list ap;
    void *arg;

    va_start(ap, command);
    arg = va_arg(ap, void *);
    va_end(ap);
    return do_fcntl(c->fcntl64 ? c->fcntl64 : c->fcntl, fd, command, arg);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    uint32_t context;
    va_list ap;
    void *arg;
    int err;

    va_start(ap, request);
    arg = va_arg(ap, void *);
    va_end(ap);
    if (fd_kind(fd, &context) != FD_COMMAND)
        return libc_get()->ioctl(fd, request, arg);
    if (request != RDMA_VERBS_IOCTL)
        return fail(ENOTTY);
    err = uverbs_ioctl(context, arg);
    return err ? fail(err) : 0;
}

/* Doorbells are not memory (doorbell.h). Everything else goes on, to a sanitizer too, which wants to know; but straight to
 * the kernel while the C library's call is not known, for finding it allocates, and allocators map memory by these. */
EXPORT UNWATCHED void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
    const struct libc *next = libc_if_ready();
    uint32_t context;

    if (doorbell_is_key((uint64_t)offset) && fd_kind(fd, &context) == FD_COMMAND) {
        void *p = doorbell_map(context, (uint64_t)offset, length);

        return p ? p : MAP_FAILED;
    }
    if (next)
        return next->mmap(addr, length, prot, flags, fd, offset);
    return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

EXPORT UNWATCHED void *mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
    return mmap(addr, length, prot, flags, fd, offset);
}

EXPORT UNWATCHED int munmap(void *addr, size_t length)
{
    const struct libc *next = libc_if_ready();

    if (doorbell_is_at(addr)) /* its place stays reserved */
        return 0;
    if (next)
        return next->munmap(addr, length);
    return (int)syscall(SYS_munmap, addr, length);
}

/* The kernel gives one event with each read, and none to a buffer that is too small. */
EXPORT ssize_t read(int fd, void *buf, size_t length)
{
    uint32_t index;
    enum fd_kind kind = fd_kind(fd, &index);
    size_t event = kind == FD_CHANNEL ? sizeof(struct ib_uverbs_comp_event_desc)
                                      : sizeof(struct ib_uverbs_async_event_desc);
    ssize_t got;

    if (kind == FD_CM) /* events are asked for by commands */
        return fail(EINVAL);
    if (kind != FD_CHANNEL && kind != FD_ASYNC)
        return libc_get()->read(fd, buf, length);
    if (length < event)
        return fail(EINVAL);
    got = libc_get()->read(fd, buf, event);
    return got == 0 ? fail(EIO) : got; /* the device has gone, and with it whoever would write events */
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t length, size_t size);
EXPORT ssize_t __read_chk(int fd, void *buf, size_t length, size_t size)
{
    if (length > size)
        abort(); /* what the checked call does */
    return read(fd, buf, length);
}

EXPORT ssize_t write(int fd, const void *buf, size_t length)
{
    uint32_t index;
    enum fd_kind kind = fd_kind(fd, &index);

    if (kind == FD_COMMAND)
        return uverbs_write(index, buf, length);
    return kind == FD_CM ? cm_write(index, fd, buf, length) : libc_get()->write(fd, buf, length);
}

/* libibverbs asks the kernel's RDMA netlink first and the files second. We have files. */
EXPORT int socket(int domain, int type, int protocol)
{
    if (domain == AF_NETLINK && protocol == NETLINK_RDMA)
        return fail(EPROTONOSUPPORT);
    return libc_get()->socket(domain, type, protocol);
}

/* ---- signals: see guard.h ---- */

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    return guard_sigaction(sig, act, old);
}

EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
    return guard_signal(sig, handler);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;

    return libc_get()->sigprocmask(how, guard_mask(how, set, &copy), old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    const struct libc *c = libc_get();
    sigset_t copy;

    if (!c->pthread_sigmask) /* glibc before 2.32, and libpthread not there: as good as single-threaded */
        return c->sigprocmask(how, guard_mask(how, set, &copy), old) ? errno : 0;
    return c->pthread_sigmask(how, guard_mask(how, set, &copy), old);
}

/* ---- one symbol of libibverbs ---- */

/* The rxe provider before rdma-core 39 asks the host's neighbour table for a peer's MAC. There is no wire
 * here, and any address will do. */
struct ibv_context;
struct ibv_ah_attr;
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx, struct ibv_ah_attr *attr, uint8_t mac[6],
                                       uint16_t *vid);
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx, struct ibv_ah_attr *attr, uint8_t mac[6],
                                       uint16_t *vid)
{
    (void)ctx;
    (void)attr;
    memcpy(mac, (const uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
    if (vid)
        *vid = 0xffff;
    return 0;
}
