/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls by which libibverbs reaches the kernel, seen from the program: mappings are remembered, requests
 * are repeated in mangled form before the real one goes through. The copies answer into memory of their own,
 * so the library is not misled. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dlfcn.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct queue queues[MAX_QUEUES];
int queue_count;
int cmd_fds[2] = {-1, -1};
int mangling;
unsigned long mangled_calls, accepted_calls;

#define ATTRS 32
#define PAYLOAD 4096 /* room for the payload of one attribute, up to a page that nobody may touch */

static uint8_t *payloads; /* ATTRS times: a page, a forbidden page */

static void payloads_make(void)
{
    if (payloads)
        return;
    payloads = mmap(NULL, ATTRS * 2 * PAYLOAD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < ATTRS; i++)
        mprotect(payloads + (2 * i + 1) * PAYLOAD, PAYLOAD, PROT_NONE);
}

static int is_cmd_fd(int fd)
{
    return fd >= 0 && (fd == cmd_fds[0] || fd == cmd_fds[1]);
}

void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next)
        next = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
    void *at = next(addr, length, prot, flags, fd, offset);
    if (at != MAP_FAILED && is_cmd_fd(fd) && queue_count < MAX_QUEUES)
        queues[queue_count++] = (struct queue){at, length};
    return at;
}

int munmap(void *addr, size_t length)
{
    static int (*next)(void *, size_t);
    if (!next)
        next = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
    for (int i = 0; i < queue_count; i++)
        if (queues[i].at == addr)
            queues[i--] = queues[--queue_count];
    return next(addr, length);
}

static void bytes_mangle(uint8_t *at, size_t length)
{
    if (!length)
        return;
    for (int n = 1 + chance(3); n; n--) {
        size_t i = chance(length);
        uint64_t value = odd_number();
        switch (chance(3)) {
        case 0:
            at[i] ^= 1u << chance(8);
            break;
        case 1:
            at[i] = value;
            break;
        default:
            i &= ~(size_t)3;
            memcpy(at + i, &value, length - i < 4 ? length - i : chance(2) || length - i < 8 ? 4 : 8);
        }
    }
}

static int is_payload(uint64_t at, size_t length)
{
    uint64_t start = (uintptr_t)payloads;
    return at >= start && at - start + length <= ATTRS * 2 * PAYLOAD &&
           (at - start) % (2 * PAYLOAD) + length <= PAYLOAD;
}

/* Addresses in requests are where the host reads and writes by right: they stay in memory that is there for
 * it. */
static void addresses_tame(const struct ib_uverbs_ioctl_hdr *header, struct ib_uverbs_attr *attr)
{
    uint8_t *payload = (uint8_t *)(uintptr_t)attr->data;
    uint64_t address = odd_address();
    if (attr->attr_id == 0x1000 && attr->len == sizeof(uint64_t))
        attr->data = (uintptr_t)(chance(2) ? arena + chance(ARENA_SIZE - 64)
                                           : (uint8_t *)0x100); /* modify_srq: where the answer goes */
    else if (header->object_id == 0 && attr->attr_id == 0 && attr->len >= 24 &&
             is_payload(attr->data, attr->len))
        memcpy(payload + 8, &address,
               sizeof(address)); /* reg_mr by a core request: its start (of others: a handle or so) */
}

static void header_mangle(struct ib_uverbs_ioctl_hdr *header)
{
    switch (chance(8)) {
    case 0:
        header->length = odd_number();
        break;
    case 1:
        header->num_attrs = chance(2) ? chance(ATTRS) : odd_number();
        break;
    case 2:
        header->object_id = chance(24);
        break;
    case 3:
        header->method_id = chance(16);
        break;
    case 4:
        header->object_id = odd_number();
        break;
    case 5:
        header->method_id = odd_number();
        break;
    case 6:
        header->driver_id = odd_number();
        break;
    default:
        header->reserved1 = odd_number();
    }
}

static void attr_mangle(struct ib_uverbs_attr *attr)
{
    switch (chance(7)) {
    case 0:
        attr->attr_id = chance(2) ? chance(16) : 0x1000 + chance(2);
        break;
    case 1:
        attr->attr_id = odd_number();
        break;
    case 2:
        attr->flags = odd_number();
        break;
    case 3:
        attr->attr_data.reserved = odd_number();
        break;
    case 4: /* a handle, a number, or a pointer to nowhere */
        attr->data = attr->len <= 8 ? odd_number() : chance(2) ? 0 : 0x10 + chance(4096);
        break;
    case 5:
        attr->data_s64 = (int64_t)chance(32);
        break;
    default:
        attr->len = chance(2) ? chance(64) : odd_number();
    }
    /* Whatever became of it, the host may take it for a pointer and write there by right: it has to lead into
     * memory of ours, or nowhere. A sanitizer has half of the address space mapped. */
    if (attr->data > 0x2000 && attr->data < 1ull << 47 && !is_payload(attr->data, 1))
        attr->data &= 0x1fff;
}

static void call_mangled(int (*next)(int, unsigned long, ...), int fd, unsigned long request,
                         const struct ib_uverbs_ioctl_hdr *real)
{
    static union {
        struct ib_uverbs_ioctl_hdr header;
        uint8_t bytes[sizeof(struct ib_uverbs_ioctl_hdr) + ATTRS * sizeof(struct ib_uverbs_attr)];
    } copy;
    payloads_make();
    memset(&copy, 0, sizeof(copy));
    size_t length = real->length < sizeof(copy) ? real->length : sizeof(copy);
    memcpy(&copy, real, length);
    unsigned count = real->num_attrs < ATTRS ? real->num_attrs : ATTRS;
    for (unsigned i = 0; i < count; i++) {
        struct ib_uverbs_attr *attr = &copy.header.attrs[i];
        if (attr->len > 8 && attr->len <= PAYLOAD) {
            uint8_t *to =
                payloads + (2 * i + 1) * PAYLOAD - attr->len; /* ends where the forbidden page begins */
            memcpy(to, (void *)(uintptr_t)attr->data, attr->len);
            attr->data = (uintptr_t)to;
            if (chance(2))
                bytes_mangle(to, attr->len);
        } else if (attr->len == 0 && chance(4) == 0) {
            attr->data = chance(2) ? chance(40) : odd_number(); /* another handle */
        }
        if (chance(count) == 0)
            attr_mangle(attr);
        addresses_tame(real, attr);
    }
    if (chance(3) == 0)
        header_mangle(&copy.header);
    /* closing the device, or its event file, is no mangling */
    mangled_calls++;
    accepted_calls += next(fd, request, &copy) == 0;
}

int ioctl(int fd, unsigned long request, ...)
{
    static int (*next)(int, unsigned long, ...);
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    if (!next)
        next = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    if (mangling && is_cmd_fd(fd))
        for (int n = chance(4); n; n--)
            call_mangled(next, fd, request, arg);
    return next(fd, request, arg);
}
