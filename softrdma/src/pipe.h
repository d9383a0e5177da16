/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipe by which events of one context or channel reach user space; each event begins with the element that it is
 * about. */
#ifndef SOFTRDMA_PIPE_H
#define SOFTRDMA_PIPE_H

#include "region.h"

/* This process's ends of a pipe; valid while the generation is that of the shared object. Children inherit
 * both. Neither number is given back to the system while somebody uses it: it may be another file's the next
 * moment. */
struct pipe_ends {
    _Atomic uint32_t generation; /* set when the rest is there, and whoever clears it closes the write end */
    _Atomic uint32_t ended;      /* the generation whose write end was closed, and which can still be read */
    _Atomic uint32_t users;      /* threads between pipe_get and pipe_put */
    _Atomic int read_fd, write_fd;
};

/* The reading end, or -errno. */
int pipe_open(struct pipe_ends *ends, uint32_t generation);

/* Is the pipe this process's, and still open? Then it stays so until pipe_put. */
bool pipe_get(struct region *r, struct pipe_ends *ends, uint32_t generation);
void pipe_put(struct pipe_ends *ends);

bool pipe_write(const struct pipe_ends *ends, const void *event, size_t size);

/* The write end goes, if that is still the pipe that is read by fd. */
void pipe_close(struct pipe_ends *ends, int fd);
/* The reading end goes, whether or not the other has gone before. */
void pipe_close_reader(struct pipe_ends *ends, int fd);
/* The write end alone goes: what was written before can still be read, and then comes the end. */
void pipe_end(struct pipe_ends *ends);

/* A reading end once more, in a description of our own that does not block while another thread reads too; -1. */
int pipe_open_again(int read_fd);
/* Takes the element's events out of a pipe, and answers how many there were. */
uint32_t pipe_take_back(const struct pipe_ends *ends, uint64_t element, size_t size);
/* How many there are in a pipe that has ended: nothing can be written back to it, so they stay. */
uint32_t pipe_count_unread(struct pipe_ends *ends, uint32_t generation, uint64_t element, size_t size);

#endif
