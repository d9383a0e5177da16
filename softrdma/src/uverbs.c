/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoding of ioctl() and write(), and the table of methods. */
#include "uverbs.h"

#include "cm/cm.h"
#include "config.h"
#include "context.h"
#include "fault/fault.h"
#include "guard.h"
#include "lock.h"
#include "object.h"
#include "process.h"
#include "uverbs_table.h"

const struct uverbs_method uverbs_methods[] = {
    METHOD(DEVICE, INVOKE_WRITE, uverbs_invoke_write, IN(UVERBS_ATTR_WRITE_CMD, 8),
           IN_OPT(UVERBS_ATTR_CORE_IN, 0), OUT_OPT(UVERBS_ATTR_CORE_OUT, 0), DRIVER),
    METHOD(DEVICE, GET_CONTEXT, device_get_context, OUT_OPT(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4),
           OUT_OPT(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8), DRIVER),
    METHOD(DEVICE, QUERY_PORT, device_query_port, IN(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1),
           OUT(UVERBS_ATTR_QUERY_PORT_RESP, 4)),
    METHOD(DEVICE, QUERY_GID_ENTRY, device_query_gid_entry, IN(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 4),
           IN(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, 4), IN(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 4),
           OUT(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, sizeof(struct ib_uverbs_gid_entry))),
    METHOD(DEVICE, QUERY_GID_TABLE, device_query_gid_table, IN(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 8),
           IN(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4), OUT(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 0),
           OUT(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8)),
    METHOD(ASYNC_EVENT, ASYNC_EVENT_ALLOC, async_event_alloc,
           NEW_FD(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)),
    METHOD(PD, PD_DESTROY, pd_destroy, HANDLE(UVERBS_ATTR_DESTROY_PD_HANDLE)),
    METHOD(MR, MR_DESTROY, mr_destroy, HANDLE(UVERBS_ATTR_DESTROY_MR_HANDLE)),
    METHOD(MR, REG_DMABUF_MR, mr_reg_dmabuf, NEW_HANDLE(UVERBS_ATTR_REG_DMABUF_MR_HANDLE),
           HANDLE(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE), IN(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8),
           IN(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8), IN(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8),
           IN(UVERBS_ATTR_REG_DMABUF_MR_FD, 0), IN(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4),
           OUT(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4), OUT(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4)),
    METHOD(MW, MW_DESTROY, mw_destroy, HANDLE(UVERBS_ATTR_DESTROY_MW_HANDLE)),
    METHOD(AH, AH_DESTROY, ah_destroy, HANDLE(UVERBS_ATTR_DESTROY_AH_HANDLE)),
    METHOD(CQ, CQ_CREATE, cq_create, NEW_HANDLE(UVERBS_ATTR_CREATE_CQ_HANDLE),
           IN(UVERBS_ATTR_CREATE_CQ_CQE, 4), IN(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8),
           FD_OPT(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL), IN(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4),
           IN_OPT(UVERBS_ATTR_CREATE_CQ_FLAGS, 4), OUT(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4),
           FD_OPT(UVERBS_ATTR_CREATE_CQ_EVENT_FD), IN_OPT(ATTR_CREATE_CQ_BUFFER_VA, 8),
           IN_OPT(ATTR_CREATE_CQ_BUFFER_LENGTH, 8), FD_OPT(ATTR_CREATE_CQ_BUFFER_FD),
           IN_OPT(ATTR_CREATE_CQ_BUFFER_OFFSET, 8), DRIVER),
    METHOD(CQ, CQ_DESTROY, cq_destroy, HANDLE(UVERBS_ATTR_DESTROY_CQ_HANDLE),
           OUT(UVERBS_ATTR_DESTROY_CQ_RESP, sizeof(struct ib_uverbs_destroy_cq_resp))),
    METHOD(SRQ, SRQ_CREATE, srq_create, NEW_HANDLE(UVERBS_ATTR_CREATE_SRQ_HANDLE),
           HANDLE(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE), IN(UVERBS_ATTR_CREATE_SRQ_TYPE, 4),
           IN(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 8), IN(UVERBS_ATTR_CREATE_SRQ_MAX_WR, 4),
           IN(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 4), IN(UVERBS_ATTR_CREATE_SRQ_LIMIT, 4),
           HANDLE_OPT(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE), HANDLE_OPT(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE),
           IN_OPT(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, 4), FD_OPT(UVERBS_ATTR_CREATE_SRQ_EVENT_FD),
           OUT(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, 4), OUT(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, 4), DRIVER),
    METHOD(SRQ, SRQ_DESTROY, srq_destroy, HANDLE(UVERBS_ATTR_DESTROY_SRQ_HANDLE),
           OUT(UVERBS_ATTR_DESTROY_SRQ_RESP, sizeof(struct ib_uverbs_destroy_srq_resp))),
    METHOD(QP, QP_CREATE, qp_create, NEW_HANDLE(UVERBS_ATTR_CREATE_QP_HANDLE),
           HANDLE_OPT(UVERBS_ATTR_CREATE_QP_PD_HANDLE), HANDLE_OPT(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE),
           HANDLE_OPT(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE), HANDLE_OPT(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
           HANDLE_OPT(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE), HANDLE_OPT(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE),
           IN(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8),
           IN(UVERBS_ATTR_CREATE_QP_CAP, sizeof(struct ib_uverbs_qp_cap)), IN(UVERBS_ATTR_CREATE_QP_TYPE, 4),
           IN_OPT(UVERBS_ATTR_CREATE_QP_FLAGS, 4), FD_OPT(UVERBS_ATTR_CREATE_QP_EVENT_FD),
           OUT(UVERBS_ATTR_CREATE_QP_RESP_CAP, sizeof(struct ib_uverbs_qp_cap)),
           OUT(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4), DRIVER),
    METHOD(QP, QP_DESTROY, qp_destroy, HANDLE(UVERBS_ATTR_DESTROY_QP_HANDLE),
           OUT(UVERBS_ATTR_DESTROY_QP_RESP, sizeof(struct ib_uverbs_destroy_qp_resp))),
};
const size_t uverbs_nmethods = NELEM(uverbs_methods);

const char *uverbs_call_name(size_t i)
{
    static const char *const others[] = {"OPEN", "POST_SEND"};
    size_t n;

    if (i < uverbs_nmethods)
        return uverbs_methods[i].name;
    for (n = 0; uverbs_command_name(n); n++) {
        if (uverbs_nmethods + n == i)
            return uverbs_command_name(n);
    }
    i -= uverbs_nmethods + n;
    return i < NELEM(others) ? others[i] : cm_call_name(i - NELEM(others));
}

static const struct ib_uverbs_attr *find_attr(const struct call *c, uint16_t id)
{
    for (unsigned i = 0; i < c->header.num_attrs; i++) {
        if (c->attrs[i].attr_id == id)
            return &c->attrs[i];
    }
    return NULL;
}

bool call_has(const struct call *c, uint16_t id)
{
    return find_attr(c, id) != NULL;
}

uint64_t call_u64(const struct call *c, uint16_t id)
{
    uint64_t value = 0;

    call_in(c, id, &value, sizeof(value));
    return value;
}

uint32_t call_u32(const struct call *c, uint16_t id)
{
    return (uint32_t)call_u64(c, id);
}

size_t call_size(const struct call *c, uint16_t id)
{
    const struct ib_uverbs_attr *a = find_attr(c, id);

    return a ? a->len : 0;
}

int call_in(const struct call *c, uint16_t id, void *dst, size_t size)
{
    const struct ib_uverbs_attr *a = find_attr(c, id);
    size_t n;

    memset(dst, 0, size);
    if (!a)
        return 0;
    n = min_u64(a->len, size);
    if (a->len <= sizeof(a->data)) { /* small ones travel in the attribute itself */
        memcpy(dst, &a->data, a->len ? n : min_u64(size, sizeof(a->data)));
        return 0;
    }
    return guard_copy(dst, (const void *)(uintptr_t)a->data, n);
}

static int mark_written(struct call *c, const struct ib_uverbs_attr *a)
{
    struct ib_uverbs_attr *user = &c->user_attrs[a - c->attrs];
    uint16_t flags = a->flags | UVERBS_ATTR_F_VALID_OUTPUT;

    return guard_copy(&user->flags, &flags, sizeof(flags));
}

int call_out(struct call *c, uint16_t id, const void *src, size_t size)
{
    static const uint8_t zeros[256];
    const struct ib_uverbs_attr *a = find_attr(c, id);
    uint8_t *dst;
    size_t n;

    if (!a)
        return 0;
    dst = (uint8_t *)(uintptr_t)a->data;
    n = min_u64(a->len, size);
    if (n && guard_copy(dst, src, n))
        return EFAULT;
    while (n < a->len) {
        size_t m = min_u64(a->len - n, sizeof(zeros));

        if (guard_copy(dst + n, zeros, m))
            return EFAULT;
        n += m;
    }
    return mark_written(c, a);
}

int call_new_handle(struct call *c, uint16_t id, uint64_t handle)
{
    const struct ib_uverbs_attr *a = find_attr(c, id);

    if (guard_copy(&c->user_attrs[a - c->attrs].data, &handle, sizeof(handle)))
        return EFAULT;
    return mark_written(c, a);
}

int call_respond(struct call *c, const void *src, size_t size)
{
    return call_out(c, UVERBS_ATTR_CORE_OUT, src, size);
}

int call_respond_driver(struct call *c, const void *src, size_t size)
{
    return call_out(c, UVERBS_ATTR_UHW_OUT, src, size);
}

uint32_t call_object(const struct call *c, uint16_t id, enum object_type type)
{
    const struct ib_uverbs_attr *a = find_attr(c, id);

    return a ? handle_find(c->r, c->context, a->data, type) : NONE;
}

static const struct uverbs_method *find_method(const struct device_model *model, uint16_t object, uint16_t method)
{
    for (size_t i = 0; i < uverbs_nmethods; i++) {
        if (uverbs_methods[i].object == object && uverbs_methods[i].method == method)
            return &uverbs_methods[i];
    }
    for (size_t i = 0; i < model->nmethods; i++) {
        if (model->methods[i].object == object && model->methods[i].method == method)
            return &model->methods[i];
    }
    return NULL;
}

static const struct attr_spec *find_spec(const struct uverbs_method *m, uint16_t id)
{
    for (unsigned i = 0; i < m->nattrs; i++) {
        if (m->attrs[i].id == id)
            return &m->attrs[i];
    }
    return NULL;
}

/* What the kernel's uverbs core checks before a method sees anything. */
static int check_attrs(const struct call *c, const struct uverbs_method *m)
{
    for (unsigned i = 0; i < c->header.num_attrs; i++) {
        const struct ib_uverbs_attr *a = &c->attrs[i];
        const struct attr_spec *spec = find_spec(m, a->attr_id);

        if (a->flags & ~(UVERBS_ATTR_F_MANDATORY | UVERBS_ATTR_F_VALID_OUTPUT))
            return EINVAL;
        if (!spec) {
            if (a->flags & UVERBS_ATTR_F_MANDATORY)
                return EPROTONOSUPPORT;
            continue;
        }
        if (spec->kind == ATTR_IN || spec->kind == ATTR_OUT) {
            if (a->len < spec->size)
                return EINVAL;
        } else if (a->len || a->attr_data.reserved) {
            return EINVAL;
        }
        for (unsigned k = 0; k < i; k++) {
            if (c->attrs[k].attr_id == a->attr_id)
                return EINVAL;
        }
    }
    for (unsigned i = 0; i < m->nattrs; i++) {
        if (m->attrs[i].required && !call_has(c, m->attrs[i].id))
            return EINVAL;
    }
    return 0;
}

int uverbs_ioctl(uint32_t context, void *user_header)
{
    struct ib_uverbs_ioctl_hdr *user = user_header;
    const struct uverbs_method *m;
    struct call c;
    int err;

    err = process_join(); /* a forked child starts to serve here */
    if (err)
        return err;
    if (guard_copy(&c.header, user, sizeof(c.header)))
        return EFAULT;
    c.r = process.region;
    c.context = context;
    c.device = device_at((int)c.r->context[context].device);
    c.user_attrs = user->attrs;
    c.in = NULL;
    if (c.header.length > 4096 || c.header.num_attrs > CALL_MAX_ATTRS ||
        c.header.length != sizeof(c.header) + c.header.num_attrs * sizeof(struct ib_uverbs_attr))
        return EINVAL;
    if (c.header.reserved1 || c.header.reserved2)
        return EPROTONOSUPPORT;
    if (c.header.driver_id != c.device->model->driver_id)
        return EINVAL;
    if (c.header.num_attrs && guard_copy(c.attrs, user->attrs, c.header.num_attrs * sizeof(c.attrs[0])))
        return EFAULT;
    m = find_method(c.device->model, c.header.object_id, c.header.method_id);
    if (!m) {
        TRACE("object %u method %u: not known", c.header.object_id, c.header.method_id);
        return EOPNOTSUPP;
    }
    err = check_attrs(&c, m);
    if (!err && atomic_load(&c.r->context[context].dead) && !strstr(m->name, "DESTROY"))
        err = EIO;
    if (!err && m->run != uverbs_invoke_write)
        err = fault_call(c.r, (uint32_t)c.device->index, m->name);
    if (!err)
        err = m->run(&c);
    if (m->run != uverbs_invoke_write)
        TRACE("%s: %d", m->name, err);
    return err;
}

struct doorbell {
    struct ib_uverbs_cmd_hdr header;
    struct ib_uverbs_post_send post;
};

/* The only command that still comes by write() is the doorbell. */
ssize_t uverbs_write(uint32_t context, const void *user_buf, size_t length)
{
    struct region *r = process.region;
    const struct device_model *m;
    struct doorbell d;
    uint32_t qp;
    int err;

    if (length < sizeof(d) || guard_copy(&d, user_buf, sizeof(d))) {
        errno = length < sizeof(d) ? EINVAL : EFAULT;
        return -1;
    }
    if (d.header.command != IB_USER_VERBS_CMD_POST_SEND || d.header.in_words * 4u != length) {
        errno = d.header.command != IB_USER_VERBS_CMD_POST_SEND ? EOPNOTSUPP : EINVAL;
        return -1;
    }
    err = process_join();
    if (!err && atomic_load(&r->context[context].dead))
        err = EIO;
    if (!err)
        err = fault_call(r, r->context[context].device, "POST_SEND");
    qp = err ? NONE : handle_find(r, context, d.post.qp_handle, OBJ_QP);
    m = device_at((int)r->context[context].device)->model;
    if (!err && !m->doorbell)
        err = EOPNOTSUPP;
    if (!err)
        err = qp == NONE ? EINVAL : m->doorbell(r, &r->qp[qp]);
    if (err) {
        errno = err;
        return -1;
    }
    return (ssize_t)length;
}
