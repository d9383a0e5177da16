/* SPDX-License-Identifier: BSD-3-Clause */
/* Doorbells that a program rings by a store. The page it maps can never be touched: the fault tells us of each
 * store, in the thread that made it, and the device acts before the program's next instruction, as rxe does when its
 * doorbell is a system call. No store is lost, none is seen twice, and nothing has to watch a memory word.
 *
 * All doorbells of a process lie in one stretch of address space, so the faulting address tells whose it is. */
#ifndef SOFTRDMA_DOORBELL_H
#define SOFTRDMA_DOORBELL_H

#include "region.h"

/* What a driver gives as mmap offset of a doorbell; beyond any offset in the region's file. */
uint64_t doorbell_key_qp(uint32_t qp);
uint64_t doorbell_key_cq(uint32_t cq);
bool doorbell_is_key(uint64_t offset);

/* The mmap and munmap of one; NULL and errno when there is no such doorbell of that context. */
void *doorbell_map(uint32_t context, uint64_t offset, size_t length);
bool doorbell_is_at(const void *addr);

/* A fault at addr: rings the doorbell and steps over the store. false: the fault is not of this kind. ucontext is the
 * signal handler's. */
bool doorbell_fault(const void *addr, void *ucontext);

#endif
