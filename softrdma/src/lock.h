/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks that lie in shared memory and survive the death of whoever holds them. What they protect is written
 * so that a holder may vanish between any two stores: a lost message at worst, never a broken structure. */
#ifndef SOFTRDMA_LOCK_H
#define SOFTRDMA_LOCK_H

#include "base.h"

#include <pthread.h>

static inline void lock_init(pthread_mutex_t *m)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(m, &attr);
    pthread_mutexattr_destroy(&attr);
}

static inline void lock_take(pthread_mutex_t *m)
{
    if (pthread_mutex_lock(m) == EOWNERDEAD)
        pthread_mutex_consistent(m);
}

static inline void lock_give(pthread_mutex_t *m)
{
    pthread_mutex_unlock(m);
}

/* Is a living thread holding it? A lock that a process takes at birth and never gives back says whether it
 * lives. */
static inline bool lock_is_held(pthread_mutex_t *m)
{
    int err = pthread_mutex_trylock(m);

    if (err == EBUSY)
        return true;
    if (err == EOWNERDEAD)
        pthread_mutex_consistent(m);
    if (err == 0 || err == EOWNERDEAD)
        pthread_mutex_unlock(m);
    return false;
}

#endif
