/* SPDX-License-Identifier: BSD-3-Clause */
/* Touching memory that belongs to the program and may have gone: what the kernel calls copy_from_user. A
 * fault ends the copy with an error instead of the process; every other fault still goes to the handler that
 * the program installed. */
#ifndef SOFTRDMA_GUARD_H
#define SOFTRDMA_GUARD_H

#include "base.h"

#include <signal.h>

/* Take SIGSEGV and SIGBUS. Harmless when done twice. */
void guard_install(void);

/* A forked child starts with the lock free: whoever held it is not there. */
void guard_in_child(void);

/* 0, or EFAULT when part of either range is not there. */
int guard_copy(void *dst, const void *src, size_t length);

/* Make every page of the range present, for writing or for reading, as pinning does; 0 or EFAULT. */
int guard_populate(uint64_t addr, uint64_t length, bool writable);

/* An 8-byte compare-and-swap or add on the program's memory, atomic towards its threads; 0 or EFAULT. */
int guard_compare_swap(uint64_t addr, uint64_t compare, uint64_t swap, uint64_t *ret_old);
int guard_fetch_add(uint64_t addr, uint64_t add, uint64_t *ret_old);

/* The program's own sigaction() and signal(): for the two signals we keep what it wants and stay in front. */
int guard_sigaction(int sig, const struct sigaction *act, struct sigaction *old);
sighandler_t guard_signal(int sig, sighandler_t handler);

/* And its masks: the two stay unblocked, since a thread that faults with the signal blocked is the end of the process.
 * Gives a copy without them, or set itself where it has neither. */
const sigset_t *guard_mask(int how, const sigset_t *set, sigset_t *copy);

#endif
