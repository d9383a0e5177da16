/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the C library's calls behind our own. */
#include "libc.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>

/* The version argument of the stat calls of glibc before 2.33. */
#if defined(__x86_64__)
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

static struct libc table;
static atomic_bool ready;

static void resolve(void)
{
    void *self;

#define X(type, name, args) *(void **)&table.name = dlsym(RTLD_NEXT, #name);
    LIBC_CALLS(X)
#undef X
    table.memcpy = memcpy;
    self = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (self) {
        void *(*plain)(void *, const void *, size_t) = NULL;

        *(void **)&plain = dlsym(self, "memcpy");
        if (plain)
            table.memcpy = plain;
    }
    atomic_store_explicit(&ready, true, memory_order_release);
}

const struct libc *libc_get(void)
{
    /* Two threads may both resolve: they store the same addresses. */
    if (!atomic_load_explicit(&ready, memory_order_acquire))
        resolve();
    return &table;
}

UNWATCHED const struct libc *libc_if_ready(void)
{
    return __atomic_load_n((bool *)&ready, __ATOMIC_ACQUIRE) ? &table : NULL;
}

int libc_stat(const char *path, struct stat *st)
{
    const struct libc *c = libc_get();

    return c->stat ? c->stat(path, st) : c->__xstat(STAT_VERSION, path, st);
}

int libc_lstat(const char *path, struct stat *st)
{
    const struct libc *c = libc_get();

    return c->lstat ? c->lstat(path, st) : c->__lxstat(STAT_VERSION, path, st);
}

int libc_fstat(int fd, struct stat *st)
{
    const struct libc *c = libc_get();

    return c->fstat ? c->fstat(fd, st) : c->__fxstat(STAT_VERSION, fd, st);
}

int libc_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    const struct libc *c = libc_get();

    return c->fstatat ? c->fstatat(dir, path, st, flags) : c->__fxstatat(STAT_VERSION, dir, path, st, flags);
}
