/* SPDX-License-Identifier: BSD-3-Clause */
/* The front: what arrives by ioctl() and write() on a command descriptor, decoded and handed to the one
 * method that the tables in uverbs.c and uverbs_write.c name. Methods return 0 or a positive errno and never
 * see a raw user pointer. */
#ifndef SOFTRDMA_UVERBS_H
#define SOFTRDMA_UVERBS_H

#include "device.h"
#include "region.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#define CALL_MAX_ATTRS 32

/* What precedes the attributes, as in struct ib_uverbs_ioctl_hdr. */
struct call_header {
    uint16_t length, object_id, method_id, num_attrs;
    uint64_t reserved1;
    uint32_t driver_id, reserved2;
};
_Static_assert(sizeof(struct call_header) == sizeof(struct ib_uverbs_ioctl_hdr), "the kernel's layout");

/* Newer than some headers: memory of the program's for a completion queue. */
enum {
    ATTR_CREATE_CQ_BUFFER_VA = UVERBS_ATTR_CREATE_CQ_EVENT_FD + 1,
    ATTR_CREATE_CQ_BUFFER_LENGTH,
    ATTR_CREATE_CQ_BUFFER_FD,
    ATTR_CREATE_CQ_BUFFER_OFFSET,
};

/* One call in progress. */
struct call {
    struct region *r;
    uint32_t context;
    const struct device *device;
    struct call_header header;
    struct ib_uverbs_attr attrs[CALL_MAX_ATTRS];
    struct ib_uverbs_attr *user_attrs; /* where they came from: flags and new handles go back there */
    const void *in;                    /* core input of a command that came by INVOKE_WRITE */
};

enum attr_kind { ATTR_HANDLE, ATTR_NEW_HANDLE, ATTR_FD, ATTR_NEW_FD, ATTR_IN, ATTR_OUT };

struct attr_spec {
    uint16_t id;
    uint8_t kind;
    bool required;
    uint16_t size; /* smallest that will do, of ATTR_IN and ATTR_OUT */
};

struct uverbs_method {
    uint16_t object, method;
    const char *name;
    int (*run)(struct call *);
    struct attr_spec attrs[16]; /* ends with an unused row: size and kind zero, not required */
    uint8_t nattrs;
};

/* A command of the older interface, which INVOKE_WRITE carries. */
struct write_method {
    uint32_t command;
    uint16_t in, out; /* sizes of the core structures */
    const char *name;
    int (*run)(struct call *);
};

extern const struct uverbs_method uverbs_methods[];
extern const size_t uverbs_nmethods;

/* What a call is named by whoever asks for it to fail: methods and commands, then OPEN and POST_SEND; NULL at the end.
 * uverbs_command_name: the commands alone. */
const char *uverbs_call_name(size_t i);
const char *uverbs_command_name(size_t i);

int uverbs_ioctl(uint32_t context, void *user_header);
ssize_t uverbs_write(uint32_t context, const void *user_buf, size_t length);
int uverbs_invoke_write(struct call *c);

/* Attributes by id. The scalar of one that is absent is 0. */
bool call_has(const struct call *c, uint16_t id);
uint64_t call_u64(const struct call *c, uint16_t id);
uint32_t call_u32(const struct call *c, uint16_t id);
size_t call_size(const struct call *c, uint16_t id);
/* Input, cut or padded with zeros to the size given; 0 or EFAULT. */
int call_in(const struct call *c, uint16_t id, void *dst, size_t size);
/* Output, cut or padded to what the caller has room for. An attribute that is absent is no error. */
int call_out(struct call *c, uint16_t id, const void *src, size_t size);
/* The handle or descriptor that the call made. */
int call_new_handle(struct call *c, uint16_t id, uint64_t handle);
/* The answer of an INVOKE_WRITE command, and the driver's part of any answer. */
int call_respond(struct call *c, const void *src, size_t size);
int call_respond_driver(struct call *c, const void *src, size_t size);

/* Table index of a handle attribute, or NONE. */
uint32_t call_object(const struct call *c, uint16_t id, enum object_type type);

#endif
