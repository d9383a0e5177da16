/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that make event descriptors. */
#include "event.h"
#include "fd.h"
#include "libc.h"
#include "lock.h"
#include "object.h"

int channel_create(struct call *c)
{
    struct ib_uverbs_create_comp_channel_resp out = {0};
    uint32_t channel;
    int fd, err;

    lock_take(&c->r->lock);
    fd = event_open_channel(c->r, c->context, &channel);
    lock_give(&c->r->lock);
    if (fd < 0)
        return -fd;
    out.fd = (uint32_t)fd;
    err = call_respond(c, &out, sizeof(out));
    if (err) {
        event_channel_fd_closed(channel, fd);
        fd_set_kind(fd, FD_OTHER, 0);
        libc_get()->close(fd);
    }
    return err;
}

int async_event_alloc(struct call *c)
{
    int fd, err;

    lock_take(&c->r->lock);
    fd = event_open_async(c->r, c->context);
    lock_give(&c->r->lock);
    if (fd < 0)
        return -fd;
    err = call_new_handle(c, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, (uint64_t)fd);
    if (err) {
        event_async_fd_closed(c->context, fd);
        fd_set_kind(fd, FD_OTHER, 0);
        libc_get()->close(fd);
    }
    return err;
}
