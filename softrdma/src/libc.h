/* SPDX-License-Identifier: BSD-3-Clause */
/* The C library's own versions of the calls that we stand in for. Everything inside the host uses these. */
#ifndef SOFTRDMA_LIBC_H
#define SOFTRDMA_LIBC_H

#include "base.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>

struct statx;

/* One row for each call: return type, name, parameters. */
#define LIBC_CALLS(X)                                                                                        \
    X(int, open, (const char *, int, ...))                                                                   \
    X(int, open64, (const char *, int, ...))                                                                 \
    X(int, openat, (int, const char *, int, ...))                                                            \
    X(int, openat64, (int, const char *, int, ...))                                                          \
    X(FILE *, fopen, (const char *, const char *))                                                           \
    X(FILE *, fopen64, (const char *, const char *))                                                         \
    X(DIR *, opendir, (const char *))                                                                        \
    X(int, scandir,                                                                                          \
      (const char *, struct dirent ***, int (*)(const struct dirent *),                                      \
       int (*)(const struct dirent **, const struct dirent **)))                                             \
    X(int, access, (const char *, int))                                                                      \
    X(int, faccessat, (int, const char *, int, int))                                                         \
    X(int, euidaccess, (const char *, int))                                                                  \
    X(ssize_t, readlink, (const char *, char *, size_t))                                                     \
    X(ssize_t, readlinkat, (int, const char *, char *, size_t))                                              \
    X(char *, realpath, (const char *, char *))                                                              \
    X(int, stat, (const char *, struct stat *))                                                              \
    X(int, lstat, (const char *, struct stat *))                                                             \
    X(int, fstat, (int, struct stat *))                                                                      \
    X(int, fstatat, (int, const char *, struct stat *, int))                                                 \
    X(int, __xstat, (int, const char *, struct stat *))                                                      \
    X(int, __lxstat, (int, const char *, struct stat *))                                                     \
    X(int, __fxstat, (int, int, struct stat *))                                                              \
    X(int, __fxstatat, (int, int, const char *, struct stat *, int))                                         \
    X(int, statx, (int, const char *, int, unsigned, struct statx *))                                        \
    X(int, ioctl, (int, unsigned long, ...))                                                                 \
    X(ssize_t, read, (int, void *, size_t))                                                                  \
    X(ssize_t, write, (int, const void *, size_t))                                                           \
    X(int, close, (int))                                                                                     \
    X(int, close_range, (unsigned, unsigned, int))                                                           \
    X(void, closefrom, (int))                                                                                \
    X(int, dup, (int))                                                                                       \
    X(int, dup2, (int, int))                                                                                 \
    X(int, dup3, (int, int, int))                                                                            \
    X(int, fcntl, (int, int, ...))                                                                           \
    X(int, fcntl64, (int, int, ...))                                                                         \
    X(void *, mmap, (void *, size_t, int, int, int, off_t))                                                  \
    X(int, munmap, (void *, size_t))                                                                         \
    X(int, socket, (int, int, int))                                                                          \
    X(int, sigaction, (int, const struct sigaction *, struct sigaction *))                                   \
    X(sighandler_t, signal, (int, sighandler_t))                                                             \
    X(int, sigprocmask, (int, const sigset_t *, sigset_t *))                                                 \
    X(int, pthread_sigmask, (int, const sigset_t *, sigset_t *))

struct libc {
#define X(type, name, args) type(*name) args;
    LIBC_CALLS(X)
#undef X
    void *(*memcpy)(void *, const void *, size_t); /* not a sanitizer's: a NIC does not read shadow memory */
};

/* Resolved on first use: constructors of other libraries may call us before ours runs. A call that this C
 * library lacks is NULL; the stat family always works through libc_stat and libc_fstat below. */
const struct libc *libc_get(void);

/* The same without resolving anything, which allocates: NULL while that has not been done. */
const struct libc *libc_if_ready(void);

/* Beneath both generations of the stat calls. */
int libc_stat(const char *path, struct stat *st);
int libc_lstat(const char *path, struct stat *st);
int libc_fstat(int fd, struct stat *st);
int libc_fstatat(int dir, const char *path, struct stat *st, int flags);

#endif
