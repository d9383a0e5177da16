/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that the host needs for itself: see guard.h. */
#include "preload.h"

#include <signal.h>

#include "../guard.h"

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
