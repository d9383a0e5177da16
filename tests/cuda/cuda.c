/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for libcuda.so.1: it has devices, contexts, memory and addresses but no GPU, and refuses what the driver
 * refuses. Device addresses are reserved and not accessible; the bytes lie in memfds, which an export hands out in place
 * of dma-bufs, and which a test sees through fake_view().
 *
 * CUDA_IS_STUB builds the library that the CUDA toolkit brings for linking: every call says so. CUDA_IS_OLD builds a
 * driver from before CUDA 11.3, without exports and flushes.
 */
#include "cuda.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_DEVICES 4
#define MAX_CONTEXTS 16
#define MAX_BLOCKS 256
#define MAX_RULES 16
#define SPAN (UINT64_C(1) << 33) /* of addresses */
#define STUB_LIBRARY 34
#define FIRST_PHYSICAL 100000 /* handles of cuMemCreate; those below are of cuMemRetainAllocationHandle */

struct context {
    int device;
};

struct block {
    enum kind kind;
    uint64_t base, size, id;
    int device, location, properties;
};

struct reservation {
    uint64_t base, size;
};

/* CUipcMemHandle */
struct ipc_handle {
    uint64_t words[8];
};

/* What cuMemCreate made. */
struct physical {
    int device, location, properties;
};

struct rule {
    char function[64];
    unsigned n, seen;
    int code;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t go;
    char stop_at[64];
    int stopped;
    int initialized;
    int devices;
    int attributes[MAX_DEVICES][256];
    int retained[MAX_DEVICES];
    struct context primary[MAX_DEVICES], contexts[MAX_CONTEXTS];
    int context_count;
    struct block blocks[MAX_BLOCKS];
    struct reservation reservations[16];
    int reservation_count;
    struct physical physical[64];
    int physical_count;
    int capturing, spoiled;
    struct rule rules[MAX_RULES];
    int rule_count;
    int pcie;
    uint64_t next_id, next_address;
    uint8_t *addresses, *view; /* SPAN bytes each */
    char *log;
    size_t log_size, log_room;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .go = PTHREAD_COND_INITIALIZER};

static _Thread_local struct context *stack[16];
static _Thread_local int depth;

static struct context *current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

/* ---- the log and the faults ---------------------------------------------------------------------------------------- */

static void write_log(const char *function, const char *format, va_list values)
{
    char line[256];
    int n = snprintf(line, sizeof line, "%s %d", function, current() ? current()->device : -1);

    if (format && n < (int)sizeof line) {
        line[n++] = ' ';
        n += vsnprintf(line + n, sizeof line - (size_t)n, format, values);
    }
    if (fake.log_size + (size_t)n + 2 > fake.log_room) {
        fake.log_room = fake.log_room ? fake.log_room * 2 : 1 << 16;
        fake.log = realloc(fake.log, fake.log_room);
        if (!fake.log)
            abort();
    }
    memcpy(fake.log + fake.log_size, line, (size_t)n);
    fake.log_size += (size_t)n;
    fake.log[fake.log_size++] = '\n';
    fake.log[fake.log_size] = 0;
}

/* Begins a call: it is logged, and fails if it was asked to. The lock is held until leave(), whatever the answer. */
static int enter(const char *function, const char *format, ...)
{
    va_list values;

    pthread_mutex_lock(&fake.lock);
    va_start(values, format);
    write_log(function, format, values);
    va_end(values);
#ifdef CUDA_IS_STUB
    return STUB_LIBRARY;
#endif
    if (strcmp(fake.stop_at, function) == 0) {
        *fake.stop_at = 0;
        fake.stopped = 1;
        while (fake.stopped)
            pthread_cond_wait(&fake.go, &fake.lock);
    }
    for (int i = 0; i < fake.rule_count; i++) {
        struct rule *rule = &fake.rules[i];

        if ((!*rule->function || strcmp(rule->function, function) == 0) && ++rule->seen && (!rule->n || rule->seen == rule->n)) {
            if (rule->code < 0)
                abort();
            return rule->code;
        }
    }
    if (!fake.initialized && strcmp(function, "cuInit") != 0 && strcmp(function, "cuDriverGetVersion") != 0)
        return NOT_INITIALIZED;
    return SUCCESS;
}

static int leave(int code)
{
    pthread_mutex_unlock(&fake.lock);
    return code;
}

void fake_fail(const char *function, unsigned n, int code)
{
    struct rule *rule = &fake.rules[fake.rule_count++ % MAX_RULES];

    *rule = (struct rule){.n = n, .code = code};
    snprintf(rule->function, sizeof rule->function, "%s", function);
}

void fake_stop_at(const char *function)
{
    pthread_mutex_lock(&fake.lock);
    snprintf(fake.stop_at, sizeof fake.stop_at, "%s", function);
    fake.stopped = 0;
    pthread_cond_broadcast(&fake.go);
    pthread_mutex_unlock(&fake.lock);
}

int fake_stopped(void)
{
    int stopped;

    pthread_mutex_lock(&fake.lock);
    stopped = fake.stopped;
    pthread_mutex_unlock(&fake.lock);
    return stopped;
}

void fake_forget(void)
{
    fake.rule_count = 0;
    fake.log_size = 0;
}

void fake_pcie(int code)
{
    fake.pcie = code;
}

const char *fake_log(void)
{
    return fake.log ? fake.log : "";
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static uint64_t page(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t down(uint64_t address)
{
    return address / page() * page();
}

static uint64_t up(uint64_t address)
{
    return down(address + page() - 1);
}

void *fake_view(uint64_t address)
{
    return fake.view + (address - (uint64_t)(uintptr_t)fake.addresses);
}

static void reserve_span(void)
{
    if (fake.addresses)
        return;
    fake.addresses = mmap(NULL, SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fake.view = mmap(NULL, SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fake.addresses == MAP_FAILED || fake.view == MAP_FAILED)
        abort();
}

/* Bytes behind whole pages. */
static void back(uint64_t base, uint64_t end)
{
    if (mmap(fake_view(base), end - base, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        abort();
}

static struct block *new_block(enum kind kind, uint64_t base, uint64_t size, int device)
{
    for (int i = 0; i < MAX_BLOCKS; i++) {
        struct block *block = &fake.blocks[i];

        if (block->kind == FREE) {
            *block = (struct block){.kind = kind, .base = base, .size = size, .id = ++fake.next_id, .device = device,
                                    .location = 1};
            return block;
        }
    }
    abort();
}

static uint64_t take_addresses(uint64_t size)
{
    uint64_t base = fake.next_address;

    fake.next_address += up(size) + page(); /* a page that is nobody's lies between */
    return base;
}

uint64_t fake_alloc(int kind, int device, uint64_t size, uint64_t shift)
{
    uint64_t base = take_addresses(size + shift);

    back(base, up(base + shift + size));
    return new_block((enum kind)kind, base + shift, size, device)->base;
}

void fake_place(int kind, int device, uint64_t address, uint64_t size)
{
    new_block((enum kind)kind, address, size, device);
}

uint64_t fake_reserve(uint64_t size)
{
    uint64_t base = take_addresses(size);

    fake.reservations[fake.reservation_count++] = (struct reservation){base, size};
    return base;
}

int fake_map(uint64_t address, uint64_t size, int device, int location, int properties)
{
    struct block *block = new_block(MAPPED, address, size, device);

    back(address, address + size);
    block->location = location;
    block->properties = properties;
    return 0;
}

static struct block *find(uint64_t address)
{
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (fake.blocks[i].kind != FREE && address >= fake.blocks[i].base &&
            address - fake.blocks[i].base < fake.blocks[i].size)
            return &fake.blocks[i];
    return NULL;
}

static struct reservation *find_reservation(uint64_t address)
{
    for (int i = 0; i < fake.reservation_count; i++)
        if (address >= fake.reservations[i].base && address - fake.reservations[i].base < fake.reservations[i].size)
            return &fake.reservations[i];
    return NULL;
}

int fake_free(uint64_t address)
{
    struct block *block = find(address);

    if (!block || block->base != address)
        return -1;
    block->kind = FREE;
    return 0;
}

/* ---- devices --------------------------------------------------------------------------------------------------------- */

void fake_attribute(int device, int attribute, int value)
{
    fake.attributes[device][attribute] = value;
}

int fake_retained(int device)
{
    return fake.retained[device];
}

void *fake_context(int device)
{
    struct context *context = &fake.contexts[fake.context_count++ % MAX_CONTEXTS];

    context->device = device;
    return context;
}

void fake_reset(void)
{
    reserve_span();
    depth = 0;
    fake.initialized = 0;
    fake.devices = 2;
    memset(fake.attributes, 0, sizeof fake.attributes);
    memset(fake.retained, 0, sizeof fake.retained);
    memset(fake.blocks, 0, sizeof fake.blocks);
    fake.reservation_count = fake.rule_count = fake.context_count = fake.physical_count = 0;
    fake.capturing = fake.spoiled = 0;
    fake.pcie = NOT_SUPPORTED;
    fake.next_address = (uint64_t)(uintptr_t)fake.addresses + page();
    fake.log_size = 0;
    if (fake.log)
        *fake.log = 0;
    for (int i = 0; i < MAX_DEVICES; i++) {
        fake.primary[i].device = i;
        fake.attributes[i][110] = fake.attributes[i][116] = fake.attributes[i][124] = 1;
        fake.attributes[i][117] = 1;
        fake.attributes[i][118] = 100;
    }
}

static int is_device(int device)
{
    return device >= 0 && device < fake.devices;
}

/* ---- the driver ------------------------------------------------------------------------------------------------------ */

#define BEGIN(...)                                                                                                     \
    int code = enter(__func__, __VA_ARGS__);                                                                           \
    if (code)                                                                                                          \
        return leave(code)

EXPORT int cuInit(unsigned flags)
{
    BEGIN("%u", flags);
    if (!fake.addresses) /* no test is in charge here */
        fake_reset();
    if (!fake.devices)
        return leave(NO_DEVICE);
    fake.initialized = 1;
    return leave(SUCCESS);
}

EXPORT int cuDriverGetVersion(int *version)
{
    BEGIN(NULL);
    *version = 12080;
    return leave(SUCCESS);
}

EXPORT int cuDeviceGetCount(int *count)
{
    BEGIN(NULL);
    *count = fake.devices;
    return leave(SUCCESS);
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    BEGIN("%d", ordinal);
    if (!is_device(ordinal))
        return leave(INVALID_DEVICE);
    *device = ordinal;
    return leave(SUCCESS);
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    BEGIN("%d %d", attribute, device);
    if (!is_device(device))
        return leave(INVALID_DEVICE);
    if (attribute < 0 || attribute > 255)
        return leave(INVALID_VALUE);
    *value = fake.attributes[device][attribute];
    return leave(SUCCESS);
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    BEGIN("%d", device);
    snprintf(name, (size_t)size, "Stand-in %d", device);
    return leave(SUCCESS);
}

EXPORT int cuDeviceGetPCIBusId(char *address, int size, int device)
{
    BEGIN("%d", device);
    snprintf(address, (size_t)size, "0000:%02X:00.0", 0x4A + device);
    return leave(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    BEGIN("%d", device);
    fake.retained[device]++;
    *context = &fake.primary[device];
    return leave(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    BEGIN("%d", device);
    if (!fake.retained[device])
        return leave(INVALID_CONTEXT);
    fake.retained[device]--;
    return leave(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    BEGIN("%d", device);
    *flags = 0;
    *active = fake.retained[device] > 0;
    return leave(SUCCESS);
}

EXPORT int cuCtxGetCurrent(void **context)
{
    BEGIN(NULL);
    *context = current();
    return leave(SUCCESS);
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
    BEGIN("%d", ((struct context *)context)->device);
    stack[depth++] = context;
    return leave(SUCCESS);
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
    struct context *top;
    /* a failure is told of, and the context is popped all the same, as a real driver's sticky error would be */
    int code = enter(__func__, NULL);

    if (!depth)
        return leave(code ? code : INVALID_CONTEXT);
    top = stack[--depth];
    if (context)
        *context = top;
    return leave(code);
}

EXPORT int cuCtxGetDevice(int *device)
{
    BEGIN(NULL);
    if (!current())
        return leave(INVALID_CONTEXT);
    *device = current()->device;
    return leave(SUCCESS);
}

EXPORT int cuCtxSynchronize(void)
{
    BEGIN(NULL);
    if (fake.capturing) {
        fake.spoiled = 1;
        return leave(STREAM_CAPTURE_UNSUPPORTED);
    }
    return leave(current() ? SUCCESS : INVALID_CONTEXT);
}

static int pointer_attribute(void *value, int attribute, uint64_t pointer)
{
    const struct block *block = find(pointer);
    const struct reservation *reservation = find_reservation(pointer);

    if (attribute == 12 && reservation) {
        *(size_t *)value = reservation->size;
        return SUCCESS;
    }
    if (!block)
        return INVALID_VALUE;
    switch (attribute) {
    case 1:
        *(void **)value = block->kind == DEVICE || block->kind == PINNED ? &fake.primary[block->device] : NULL;
        return SUCCESS;
    case 2:
        *(unsigned *)value = block->kind == PINNED ? 1 : 2;
        return SUCCESS;
    case 7:
        *(unsigned long long *)value = block->id;
        return SUCCESS;
    case 8:
        *(unsigned *)value = block->kind == MANAGED;
        return SUCCESS;
    case 9:
        *(int *)value = block->kind == PINNED ? -1 : block->device;
        return SUCCESS;
    case 12:
        *(size_t *)value = block->size;
        return SUCCESS;
    case 13:
        *(unsigned char *)value = 1;
        return SUCCESS;
    case 15:
        *(unsigned char *)value = (unsigned char)fake.attributes[block->device][116];
        return SUCCESS;
    case 17:
        *(void **)value = block->kind == POOL ? &fake : NULL;
        return SUCCESS;
    default:
        return INVALID_VALUE;
    }
}

EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
    BEGIN("%d %llx", attribute, (unsigned long long)pointer);
    return leave(pointer_attribute(value, attribute, pointer));
}

EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t pointer)
{
    const struct block *block;

    BEGIN("%llx", (unsigned long long)pointer);
    if (!current())
        return leave(INVALID_CONTEXT);
    block = find(pointer);
    if (!block || current()->device != block->device)
        return leave(NOT_FOUND);
    *base = block->location == 1 ? block->base : 0;
    *size = block->size;
    return leave(SUCCESS);
}

EXPORT int cuMemRetainAllocationHandle(uint64_t *handle, void *pointer)
{
    const struct block *block;

    BEGIN("%p", pointer);
    block = find((uint64_t)(uintptr_t)pointer);
    if (!block || block->kind != MAPPED)
        return leave(INVALID_VALUE);
    *handle = (uint64_t)(block - fake.blocks) + 1;
    return leave(SUCCESS);
}

EXPORT int cuMemRelease(uint64_t handle)
{
    BEGIN("%llu", (unsigned long long)handle);
    return leave(SUCCESS);
}

EXPORT int cuMemGetAllocationPropertiesFromHandle(void *properties, uint64_t handle)
{
    int *values = properties;

    BEGIN("%llu", (unsigned long long)handle);
    memset(values, 0, 32);
    values[0] = 1;
    values[2] = fake.blocks[handle - 1].location;
    values[3] = fake.blocks[handle - 1].device;
    return leave(SUCCESS);
}

EXPORT int cuPointerSetAttribute(const void *value, int attribute, uint64_t pointer)
{
    const struct block *block;

    BEGIN("%d %d %llx", *(const int *)value, attribute, (unsigned long long)pointer);
    block = find(pointer);
    if (attribute != 6 || !block)
        return leave(INVALID_VALUE);
    return leave(block->kind == DEVICE ? SUCCESS : NOT_SUPPORTED);
}

/* ---- streams -------------------------------------------------------------------------------------------------------- */

EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
    BEGIN("%u", flags);
    *stream = &fake;
    return leave(SUCCESS);
}

EXPORT int cuStreamDestroy_v2(void *stream)
{
    BEGIN("%p", stream);
    return leave(SUCCESS);
}

EXPORT int cuStreamBeginCapture_v2(void *stream, int mode)
{
    BEGIN("%p %d", stream, mode);
    fake.capturing = 1;
    return leave(SUCCESS);
}

EXPORT int cuStreamEndCapture(void *stream, void **graph)
{
    BEGIN("%p", stream);
    *graph = NULL;
    fake.capturing = 0;
    return leave(fake.spoiled ? STREAM_CAPTURE_INVALIDATED : SUCCESS);
}

/* ---- what a program maps with ----------------------------------------------------------------------------------------- */

#define GRANULE (2u << 20)

EXPORT int cuMemGetAllocationGranularity(size_t *size, const void *properties, int option)
{
    BEGIN("%d %d", *(const int *)properties, option);
    *size = GRANULE;
    return leave(SUCCESS);
}

EXPORT int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wanted,
                               unsigned long long flags)
{
    BEGIN("%zu %zu %llx %llu", size, alignment, (unsigned long long)wanted, flags);
    if (!size || size % GRANULE || flags)
        return leave(INVALID_VALUE);
    *address = fake_reserve(size);
    return leave(SUCCESS);
}

EXPORT int cuMemAddressFree(uint64_t address, size_t size)
{
    const struct reservation *reservation;

    BEGIN("%llx %zu", (unsigned long long)address, size);
    reservation = find_reservation(address);
    return leave(reservation && reservation->base == address && reservation->size == size ? SUCCESS : INVALID_VALUE);
}

EXPORT int cuMemCreate(uint64_t *handle, size_t size, const void *properties, unsigned long long flags)
{
    const int *values = properties;

    BEGIN("%zu %d %d %llu", size, values[2], values[3], flags);
    if (values[0] != 1 || size != GRANULE || flags || (values[2] == 1 && !is_device(values[3])))
        return leave(INVALID_VALUE);
    fake.physical[fake.physical_count] = (struct physical){values[3], values[2], ((const unsigned char *)values)[25]};
    *handle = FIRST_PHYSICAL + (uint64_t)fake.physical_count++ % 64;
    return leave(SUCCESS);
}

EXPORT int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
    const struct physical *physical;

    BEGIN("%llx %zu %zu %llu %llu", (unsigned long long)address, size, offset, (unsigned long long)handle, flags);
    if (size != GRANULE || offset || flags || handle < FIRST_PHYSICAL || !find_reservation(address) || find(address))
        return leave(INVALID_VALUE);
    physical = &fake.physical[handle - FIRST_PHYSICAL];
    fake_map(address, size, physical->device, physical->location, physical->properties);
    return leave(SUCCESS);
}

EXPORT int cuMemSetAccess(uint64_t address, size_t size, const void *access, size_t count)
{
    const int *values = access;

    BEGIN("%llx %zu %d %d %d %zu", (unsigned long long)address, size, values[0], values[1], values[2], count);
    return leave(values[0] == 1 && is_device(values[1]) && values[2] == 3 && find(address) ? SUCCESS : INVALID_VALUE);
}

EXPORT int cuMemUnmap(uint64_t address, size_t size)
{
    BEGIN("%llx %zu", (unsigned long long)address, size);
    return leave(size == GRANULE && fake_free(address) == 0 ? SUCCESS : INVALID_VALUE);
}

/* ---- what a program allocates with ------------------------------------------------------------------------------------ */

static int give(uint64_t *address, enum kind kind, size_t size)
{
    if (!current())
        return INVALID_CONTEXT;
    *address = fake_alloc(kind, current()->device, size, 0);
    return SUCCESS;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t size)
{
    BEGIN("%zu", size);
    return leave(give(address, DEVICE, size));
}

EXPORT int cuMemAllocManaged(uint64_t *address, size_t size, unsigned flags)
{
    BEGIN("%zu %u", size, flags);
    return leave(give(address, MANAGED, size));
}

EXPORT int cuMemAllocAsync(uint64_t *address, size_t size, void *stream)
{
    BEGIN("%zu %p", size, stream);
    return leave(give(address, POOL, size));
}

EXPORT int cuMemHostAlloc(uint64_t *address, size_t size, unsigned flags)
{
    BEGIN("%zu %u", size, flags);
    return leave(give(address, PINNED, size));
}

EXPORT int cuMemFree_v2(uint64_t address)
{
    BEGIN("%llx", (unsigned long long)address);
    return leave(fake_free(address) ? INVALID_VALUE : SUCCESS);
}

EXPORT int cuMemFreeHost(uint64_t address)
{
    return cuMemFree_v2(address);
}

EXPORT int cuMemGetInfo_v2(size_t *available, size_t *total)
{
    BEGIN(NULL);
    *available = *total = SPAN;
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (fake.blocks[i].kind != FREE)
            *available -= fake.blocks[i].size;
    return leave(SUCCESS);
}

/* ---- between processes: there, an allocation of the same size ---------------------------------------------------------- */

EXPORT int cuIpcGetMemHandle(struct ipc_handle *handle, uint64_t address)
{
    const struct block *block;

    BEGIN("%llx", (unsigned long long)address);
    block = find(address);
    if (!block || block->kind != DEVICE)
        return leave(INVALID_VALUE);
    *handle = (struct ipc_handle){{block->size}};
    return leave(SUCCESS);
}

EXPORT int cuIpcOpenMemHandle_v2(uint64_t *address, struct ipc_handle handle, unsigned flags)
{
    BEGIN("%u", flags);
    return leave(flags == 1 ? give(address, DEVICE, handle.words[0]) : INVALID_VALUE);
}

#ifndef CUDA_IS_OLD
/* Small allocations are parts of one block: the second of two may have begun in the page where the first one ended. */
static int share_a_page(const struct block *first, const struct block *second, uint64_t at)
{
    return first->kind == DEVICE && second->kind == DEVICE && first->device == second->device && second->base < at;
}

/* Whether one export may cover a range: all of it there, on one device, of one make. An allocation counts to its page's end. */
static int exportable(uint64_t pointer, uint64_t size)
{
    const struct block *first = NULL;
    uint64_t at = pointer, end = pointer + size;

    if (size > SPAN)
        return INVALID_VALUE;
    while (at < end) {
        const struct block *block = find(at);

        /* the allocation may begin inside of the first page */
        for (uint64_t probe = at; !block && probe < at + page(); probe += 4)
            block = find(probe);
        if (!block)
            return INVALID_VALUE;
        if (block->kind == MANAGED)
            abort(); /* what a real driver does to some programs */
        if (block->kind == POOL)
            return NOT_SUPPORTED;
        if (block->kind == PINNED || block->location != 1)
            return NOT_SUPPORTED;
        if (first && !share_a_page(first, block, at) &&
            (first->kind != MAPPED || block->kind != MAPPED || first->device != block->device ||
             first->properties != block->properties))
            return INVALID_VALUE;
        first = block;
        at = up(block->base + block->size);
    }
    return SUCCESS;
}

/* A file that holds the pages of a range from now on. */
static int export_pages(uint64_t pointer, uint64_t size)
{
    int fd = memfd_create("stand-in dma-buf", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)size) || pwrite(fd, fake_view(pointer), size, 0) != (ssize_t)size ||
        mmap(fake_view(pointer), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        abort();
    return fd;
}

EXPORT int cuMemGetHandleForAddressRange(void *handle, uint64_t pointer, size_t size, int type,
                                         unsigned long long flags)
{
    BEGIN("%llx %zu %d %llu", (unsigned long long)pointer, size, type, flags);
    if (!current())
        return leave(INVALID_CONTEXT);
    if (type != 1 || pointer % page() || size % page() || !size)
        return leave(INVALID_VALUE);
    if (!fake.attributes[current()->device][124])
        return leave(NOT_SUPPORTED);
    if (flags && fake.pcie)
        return leave(fake.pcie);
    code = exportable(pointer, size);
    if (!code)
        *(int *)handle = export_pages(pointer, size);
    return leave(code);
}

EXPORT int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
    BEGIN("%d %d", target, scope);
    if (!current())
        return leave(INVALID_CONTEXT);
    return leave(target == 0 && (scope == 100 || scope == 200) ? SUCCESS : INVALID_VALUE);
}
#endif
