/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, mapping and dividing a region. */
#include "region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "libc.h"
#include "lock.h"

uint64_t region_layout(void)
{
    /* Sizes stand for the fields; the leading number is raised when a meaning changes. */
    return (uint64_t)4 << 56 ^ (uint64_t)sizeof(struct region) << 16 ^ sizeof(struct qp) << 4 ^
           sizeof(struct cq);
}

uint64_t heap_page(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return page > HEAP_UNIT ? page : HEAP_UNIT;
}

static uint64_t heap_offset(void)
{
    return align_up(sizeof(struct region), heap_page());
}

uint64_t region_file_size(void)
{
    return heap_offset() + HEAP_SIZE;
}

static size_t private_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The tables and the first step of the heap are accessible from the start. */
static struct region *map_file(int fd)
{
    size_t own = private_size();
    uint64_t start = heap_offset() + HEAP_STEP;
    uint8_t *base =
        mmap(NULL, own + region_file_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct region *r;

    if (base == MAP_FAILED)
        return NULL;
    r = (struct region *)(base + own);
    if (mprotect(base, own, PROT_READ | PROT_WRITE) != 0 ||
        mmap(r, region_file_size(), PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED ||
        mprotect(r, start, PROT_READ | PROT_WRITE) != 0) {
        munmap(base, own + region_file_size());
        return NULL;
    }
    madvise(r, region_file_size(), MADV_DONTDUMP);
    atomic_store(&region_mapping(r)->accessible, start);
    return r;
}

void region_follow(struct region *r)
{
    uint64_t end = min_u64(atomic_load(&r->heap_end), region_file_size());

    if (mprotect(r, end, PROT_READ | PROT_WRITE) == 0)
        atomic_store(&region_mapping(r)->accessible, end);
}

static void init_locks(struct region *r)
{
    lock_init(&r->lock);
    lock_init(&r->mw_lock);
    for (size_t i = 0; i < ATOMIC_LOCKS; i++)
        lock_init(&r->atomic_lock[i]);
}

struct region *region_create(uint32_t slot, int *ret_fd)
{
    struct region *r;
    int fd = memfd_create("softrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)region_file_size()) != 0 ||
        libc_get()->fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        goto err_close;
    r = map_file(fd);
    if (!r)
        goto err_close;
    init_locks(r);
    if (getrandom(&r->instance, sizeof(r->instance), GRND_NONBLOCK) != sizeof(r->instance))
        r->instance = now_ns() ^ (uint64_t)getpid() << 40;
    r->instance |= 1;
    r->slot = slot;
    r->heap_start = heap_offset();
    atomic_store(&r->heap_end, r->heap_start + HEAP_STEP);
    r->layout = region_layout();
    r->size = region_file_size();
    r->magic = REGION_MAGIC;
    *ret_fd = fd;
    return r;

err_close:
    libc_get()->close(fd);
    return NULL;
}

struct region *region_map(int fd)
{
    struct stat st;
    struct region *r;

    if (libc_fstat(fd, &st) != 0 || (uint64_t)st.st_size != region_file_size()) {
        errno = EPROTO;
        return NULL;
    }
    r = map_file(fd);
    if (r && (r->magic != REGION_MAGIC || r->layout != region_layout())) {
        region_unmap(r);
        errno = EPROTO;
        return NULL;
    }
    return r;
}

void region_unmap(struct region *r)
{
    munmap((uint8_t *)r - private_size(), private_size() + region_file_size());
}

uint32_t table_take(struct table *t, uint64_t *bits, uint32_t max, uint32_t first)
{
    uint32_t words = max / 64, start = (t->next < first ? first : t->next) / 64;

    for (uint32_t n = 0; n <= words; n++) {
        uint32_t w = (start + n) % words;
        uint64_t taken = bits[w];

        if (w == first / 64)
            taken |= (UINT64_C(1) << first % 64) - 1;
        else if (w < first / 64)
            continue;
        if (n == 0 && t->next > w * 64 && t->next < (w + 1) * 64)
            taken |= (UINT64_C(1) << t->next % 64) - 1;
        if (~taken) {
            uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(~taken);

            /* one writer at a time, under region.lock; those who look do so without */
            __atomic_store_n(&bits[w], bits[w] | UINT64_C(1) << i % 64, __ATOMIC_RELEASE);
            t->next = (i + 1) % max;
            t->count++;
            return i;
        }
    }
    return NONE;
}

void table_release(struct table *t, uint64_t *bits, uint32_t index)
{
    __atomic_store_n(&bits[index / 64], bits[index / 64] & ~(UINT64_C(1) << index % 64), __ATOMIC_RELEASE);
    t->count--;
}

/* The first run of n free units from unit `from` on, or the number of units in the heap. */
static uint64_t find_run(const uint64_t *bits, uint64_t total, uint64_t from, uint64_t n)
{
    uint64_t start = from;

    for (uint64_t u = from; u < total;) {
        uint64_t word = bits[u / 64];

        if (u % 64 == 0 && word == ~UINT64_C(0)) {
            u += 64;
            start = u;
        } else if (u % 64 == 0 && word == 0) {
            u += 64;
        } else if (word >> u % 64 & 1) {
            start = ++u;
        } else {
            u++;
        }
        if (u - start >= n)
            return start + n <= total ? start : total;
    }
    return total;
}

static void mark_run(uint64_t *bits, uint64_t start, uint64_t n, bool taken)
{
    for (uint64_t u = start; u < start + n; u++) {
        if (taken)
            bits[u / 64] |= UINT64_C(1) << u % 64;
        else
            bits[u / 64] &= ~(UINT64_C(1) << u % 64);
    }
}

static uint64_t heap_units(uint64_t size)
{
    return align_up(size, heap_page()) / HEAP_UNIT;
}

/* Searching goes round the part in use, so that freed memory is not handed out again at once: a program that
 * still looks at a queue it has destroyed sees zeros. */
static bool find_space(struct region *r, uint64_t n, uint64_t *ret_start)
{
    uint64_t total = (atomic_load(&r->heap_end) - r->heap_start) / HEAP_UNIT;

    *ret_start = find_run(r->heap_bits, total, min_u64(r->heap_next, total), n);
    if (*ret_start == total)
        *ret_start = find_run(r->heap_bits, total, 0, n);
    return *ret_start != total;
}

uint64_t heap_alloc(struct region *r, uint64_t size)
{
    uint64_t n, start;

    if (size == 0 || size > HEAP_SIZE)
        return 0;
    n = heap_units(size);
    while (!find_space(r, n, &start)) {
        uint64_t end = atomic_load(&r->heap_end) + align_up(size, HEAP_STEP);

        if (end > r->heap_start + HEAP_SIZE)
            return 0;
        atomic_store(&r->heap_end, end);
    }
    mark_run(r->heap_bits, start, n, true);
    r->heap_next = start + n;
    start = r->heap_start + start * HEAP_UNIT;
    /* Emptied when it was freed; but a program may have written to it since, through a mapping that it kept.
     */
    madvise(region_at(r, start, n * HEAP_UNIT), n * HEAP_UNIT, MADV_REMOVE);
    return start;
}

void heap_free(struct region *r, uint64_t offset, uint64_t size)
{
    uint64_t n = heap_units(size);

    madvise(region_at(r, offset, n * HEAP_UNIT), n * HEAP_UNIT, MADV_REMOVE);
    mark_run(r->heap_bits, (offset - r->heap_start) / HEAP_UNIT, n, false);
}
