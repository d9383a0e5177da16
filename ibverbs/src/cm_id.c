/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibverbs._CMID: one rdma_cm_id on an event channel of its own, the C half of CMID and CMListener.
 *
 * Every method is one call of librdmacm, without the GIL; none waits for an event, though rdma_connect and closing may
 * block in the kernel on iWARP. The channel does not block: get_event() gives what is there, copied and acknowledged at
 * once, so that no destroy can wait for an event. A connection request becomes an object on a channel of its own before
 * it is shown. The queue pair is an ordinary QP, taken from state to state as qp_attr() says; librdmacm knows it by
 * its number only, so either may be closed first.
 *
 * Callers serialise what they do with one object, get_event() and close() apart.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ah_attr.h"
#include "args.h"
#include "classes.h"
#include "error.h"
#include "object.h"
#include "qp_attr.h"
#include "qp_rules.h"
#include "rdmacm.h"
#include "verbs.h"

#define PRIVATE_DATA_MOST 255

struct cm_id {
    struct core_object base; /* the handle is a struct rdma_cm_id */
    struct rdma_event_channel *channel;
};

static struct rdma_cm_id *handle_of(const struct cm_id *self)
{
    return self->base.handle;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int cm_id_destroy(struct core_object *op)
{
    struct cm_id *self = (struct cm_id *)op;

    errno = 0;
    if (rdmacm.destroy_id(op->handle))
        return verbs_last_errno();
    rdmacm.destroy_event_channel(self->channel);
    self->channel = NULL;
    return 0;
}

static const struct core_kind cm_id_kind = {CORE_KIND_CM_ID, "rdma_destroy_id", cm_id_destroy, NULL, NULL};

/* A channel that does not block; NULL with errno. */
static struct rdma_event_channel *open_channel(void)
{
    struct rdma_event_channel *channel = rdmacm.create_event_channel();
    int flags, err;

    if (!channel)
        return NULL;
    flags = fcntl(channel->fd, F_GETFL);
    if (flags >= 0 && fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) == 0)
        return channel;
    err = errno;
    rdmacm.destroy_event_channel(channel);
    errno = err;
    return NULL;
}

static struct cm_id *cm_id_alloc(struct core_state *state, PyObject *module)
{
    return (struct cm_id *)core_object_new(state, module, IBVERBS_TYPE_CM_ID, &cm_id_kind);
}

/* A new identifier on a channel of its own. Returns 0 or a positive errno, with the function that failed. */
static int open_id(struct cm_id *self, int port_space, struct rdma_cm_id **ret, const char **ret_function)
{
    int err;

    errno = 0;
    *ret_function = "rdma_create_event_channel";
    self->channel = open_channel();
    if (!self->channel)
        return verbs_last_errno();
    *ret_function = "rdma_create_id";
    if (rdmacm.create_id(self->channel, ret, NULL, (enum rdma_port_space)port_space) == 0)
        return 0;
    err = verbs_last_errno();
    rdmacm.destroy_event_channel(self->channel);
    self->channel = NULL;
    return err;
}

#define NODE "/dev/infiniband/rdma_cm"

/* What is missing for RDMA-CM, which the library's errno does not tell; NULL where that is not known. Without the GIL. */
static const char *what_is_missing(int err)
{
    int fd;

    if (err == ENODEV)
        return "there is no RDMA device: libibverbs lists none";
    if (err != ENOENT && err != ENOMEM) /* what the library makes of any failure to open it */
        return NULL;
    fd = open(NODE, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return NULL;
    }
    if (errno == EACCES || errno == EPERM)
        return NODE " may not be opened by this user";
    if (errno == EMFILE || errno == ENFILE)
        return "no file descriptor is left";
    if (errno == ENOENT)
        return NODE " is not there: load the kernel module rdma_ucm, or pass the device into the container";
    return NULL;
}

static PyObject *cm_id_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct core_state *state = core_state_of(type);
    PyObject *module = state ? core_module_of(type) : NULL;
    const char *function, *missing = NULL;
    char reason[1024];
    struct rdma_cm_id *id = NULL;
    struct cm_id *self;
    int port_space, err;

    if (!module)
        return NULL;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "_CMID takes its argument by position");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "i", &port_space))
        return NULL;
    if (loader_load(&rdmacm_library, reason, sizeof reason) < 0) {
        PyErr_Format(PyExc_ImportError,
                     "%s\nconnections through RDMA-CM need librdmacm: install librdmacm1 (Debian, Ubuntu, SUSE), librdmacm "
                     "(Fedora, RHEL) or rdma-core (Arch, Alpine)",
                     reason);
        return NULL;
    }

    self = cm_id_alloc(state, module);
    if (!self)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = open_id(self, port_space, &id, &function);
    if (err)
        missing = what_is_missing(err);
    Py_END_ALLOW_THREADS
    if (err) {
        Py_DECREF(self);
        return core_raise(state, err, function, missing);
    }
    core_object_attach(&self->base, id);
    return (PyObject *)self;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* None, or the error of a function that returned -1. */
static PyObject *result(struct cm_id *self, int failed, int err, const char *function)
{
    core_exit(&self->base);
    if (failed)
        return core_raise(self->base.state, err, function, NULL);
    Py_RETURN_NONE;
}

#define CALL(self, function, ...)                                                                                      \
    do {                                                                                                               \
        int failed_, err_;                                                                                             \
        Py_BEGIN_ALLOW_THREADS                                                                                         \
        errno = 0;                                                                                                     \
        failed_ = rdmacm.function(__VA_ARGS__);                                                                        \
        err_ = failed_ ? verbs_last_errno() : 0;                                                                       \
        Py_END_ALLOW_THREADS                                                                                           \
        return result(self, failed_, err_, "rdma_" #function);                                                         \
    } while (0)

static PyObject *raise_missing(struct cm_id *self, const char *function)
{
    return core_raise_unsupported(self->base.state, &rdmacm_library, function);
}

/* A socket address from bytes, or NULL from None. Returns 0, or -1 with ValueError. */
static int read_address(const char *bytes, Py_ssize_t length, struct sockaddr_storage *room, struct sockaddr **ret)
{
    *ret = NULL;
    if (!bytes)
        return 0;
    if (length < (Py_ssize_t)sizeof(struct sockaddr) || length > (Py_ssize_t)sizeof *room) {
        PyErr_Format(PyExc_ValueError, "a socket address has %zu to %zu bytes, not %zd", sizeof(struct sockaddr),
                     sizeof *room, length);
        return -1;
    }
    memset(room, 0, sizeof *room);
    memcpy(room, bytes, (size_t)length);
    *ret = (struct sockaddr *)room;
    return 0;
}

static PyObject *cm_id_bind(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    struct sockaddr_storage room;
    struct sockaddr *address;
    const char *bytes;
    Py_ssize_t length;

    if (!PyArg_ParseTuple(args, "y#", &bytes, &length) || read_address(bytes, length, &room, &address) < 0 ||
        core_enter(&self->base, "bind") < 0)
        return NULL;
    CALL(self, bind_addr, handle_of(self), address);
}

static PyObject *cm_id_resolve_addr(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    struct sockaddr_storage source_room, target_room;
    struct sockaddr *source, *target;
    const char *source_bytes, *target_bytes;
    Py_ssize_t source_length, target_length;
    int timeout_ms;

    if (!PyArg_ParseTuple(args, "z#y#i", &source_bytes, &source_length, &target_bytes, &target_length, &timeout_ms) ||
        read_address(source_bytes, source_length, &source_room, &source) < 0 ||
        read_address(target_bytes, target_length, &target_room, &target) < 0 ||
        core_enter(&self->base, "resolve_addr") < 0)
        return NULL;
    CALL(self, resolve_addr, handle_of(self), source, target, timeout_ms);
}

/* What needs a device crashes in the library where there is none yet. Entered on success. */
static int enter_with_device(struct cm_id *self, const char *method)
{
    if (core_enter(&self->base, method) < 0)
        return -1;
    if (handle_of(self)->verbs)
        return 0;
    core_exit(&self->base);
    core_raise_method(&self->base, EINVAL, method, "the address is not resolved to a device");
    return -1;
}

static PyObject *cm_id_resolve_route(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    int timeout_ms;

    if (!PyArg_ParseTuple(args, "i", &timeout_ms) || enter_with_device(self, "resolve_route") < 0)
        return NULL;
    CALL(self, resolve_route, handle_of(self), timeout_ms);
}

static PyObject *cm_id_listen(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    int backlog;

    if (!PyArg_ParseTuple(args, "i", &backlog) || core_enter(&self->base, "listen") < 0)
        return NULL;
    CALL(self, listen, handle_of(self), backlog);
}

/* (private data, responder resources, initiator depth, retry count, rnr retry count, qp_num) */
static int read_param(PyObject *args, struct rdma_conn_param *ret)
{
    Py_ssize_t length;
    const char *data;

    memset(ret, 0, sizeof *ret);
    if (!PyArg_ParseTuple(args, "y#bbbbI", &data, &length, &ret->responder_resources, &ret->initiator_depth,
                          &ret->retry_count, &ret->rnr_retry_count, &ret->qp_num))
        return -1;
    if (length > PRIVATE_DATA_MOST) {
        PyErr_Format(PyExc_ValueError, "private data has at most %d bytes, not %zd", PRIVATE_DATA_MOST, length);
        return -1;
    }
    ret->private_data = length ? data : NULL;
    ret->private_data_len = (uint8_t)length;
    ret->flow_control = 1;
    return 0;
}

static PyObject *cm_id_connect(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    struct rdma_conn_param param;

    if (read_param(args, &param) < 0 || enter_with_device(self, "connect") < 0)
        return NULL;
    CALL(self, connect, handle_of(self), &param);
}

static PyObject *cm_id_accept(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    struct rdma_conn_param param;

    if (read_param(args, &param) < 0 || enter_with_device(self, "accept") < 0)
        return NULL;
    CALL(self, accept, handle_of(self), &param);
}

static PyObject *cm_id_reject(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    Py_ssize_t length;
    const char *data;

    if (!PyArg_ParseTuple(args, "y#", &data, &length))
        return NULL;
    if (length > PRIVATE_DATA_MOST)
        return PyErr_Format(PyExc_ValueError, "private data has at most %d bytes, not %zd", PRIVATE_DATA_MOST, length);
    if (core_enter(&self->base, "reject") < 0)
        return NULL;
    CALL(self, reject, handle_of(self), length ? data : NULL, (uint8_t)length);
}

static PyObject *cm_id_disconnect(PyObject *op, PyObject *ignored)
{
    struct cm_id *self = (struct cm_id *)op;

    (void)ignored;
    if (core_enter(&self->base, "disconnect") < 0)
        return NULL;
    CALL(self, disconnect, handle_of(self));
}

static PyObject *cm_id_establish(PyObject *op, PyObject *ignored)
{
    struct cm_id *self = (struct cm_id *)op;

    (void)ignored;
    if (!rdmacm.establish)
        return raise_missing(self, "rdma_establish");
    if (core_enter(&self->base, "establish") < 0)
        return NULL;
    CALL(self, establish, handle_of(self));
}

static PyObject *cm_id_join(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    struct rdma_cm_join_mc_attr_ex attr = {
        .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
    };
    struct sockaddr_storage room;
    const char *bytes;
    Py_ssize_t length;
    int send_only;

    if (!PyArg_ParseTuple(args, "y#p", &bytes, &length, &send_only) ||
        read_address(bytes, length, &room, &attr.addr) < 0)
        return NULL;
    if (!rdmacm.join_multicast_ex)
        return raise_missing(self, "rdma_join_multicast_ex");
    attr.join_flags = send_only ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER : RDMA_MC_JOIN_FLAG_FULLMEMBER;
    if (enter_with_device(self, "join") < 0)
        return NULL;
    CALL(self, join_multicast_ex, handle_of(self), &attr, NULL);
}

static PyObject *cm_id_leave(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    struct sockaddr_storage room;
    struct sockaddr *address;
    const char *bytes;
    Py_ssize_t length;

    if (!PyArg_ParseTuple(args, "y#", &bytes, &length) || read_address(bytes, length, &room, &address) < 0 ||
        core_enter(&self->base, "leave") < 0)
        return NULL;
    CALL(self, leave_multicast, handle_of(self), address);
}

/* ---- the queue pair ---------------------------------------------------------------------------------------------- */

/* (state): what the connection says of a queue pair in that state, as the mask and the fields of QP.modify(). */
static PyObject *cm_id_qp_attr(PyObject *op, PyObject *args)
{
    struct cm_id *self = (struct cm_id *)op;
    struct ibv_qp_attr attr;
    int qp_state, failed, err, mask = 0;

    if (!PyArg_ParseTuple(args, "i", &qp_state))
        return NULL;
    if (!rdmacm.init_qp_attr)
        return raise_missing(self, "rdma_init_qp_attr");
    if (enter_with_device(self, "qp_attr") < 0)
        return NULL;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = (enum ibv_qp_state)qp_state;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    failed = rdmacm.init_qp_attr(handle_of(self), &attr, &mask);
    err = failed ? verbs_last_errno() : 0;
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    if (failed)
        return core_raise_format(self->base.state, err, "rdma_init_qp_attr", "for %s",
                                 qp_state_name((uint32_t)qp_state));
    return Py_BuildValue("iN", mask, core_qp_attr_dict(self->base.state, &attr, NULL));
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* One event, copied out of the library. */
struct event {
    enum rdma_cm_event_type type;
    int status;
    int err; /* the errno that came with an event which the library made itself */
    bool of_datagrams;
    struct rdma_cm_id *request; /* a connection request, on a channel of its own; ours to destroy */
    struct rdma_event_channel *channel;
    uint8_t private_data[256];
    uint8_t private_length;
    struct rdma_conn_param connection;
    struct rdma_ud_param datagrams;
};

static bool carries_datagrams(const struct rdma_cm_event *event)
{
    return event->event == RDMA_CM_EVENT_MULTICAST_JOIN || event->event == RDMA_CM_EVENT_MULTICAST_ERROR ||
           event->id->ps == RDMA_PS_UDP || event->id->ps == RDMA_PS_IPOIB;
}

static void copy_event(struct event *to, const struct rdma_cm_event *from)
{
    const void *data;

    to->type = from->event;
    to->status = from->status;
    to->of_datagrams = carries_datagrams(from);
    if (to->of_datagrams) {
        to->datagrams = from->param.ud;
        data = from->param.ud.private_data;
        to->private_length = data ? from->param.ud.private_data_len : 0;
    } else {
        to->connection = from->param.conn;
        data = from->param.conn.private_data;
        to->private_length = data ? from->param.conn.private_data_len : 0;
    }
    if (to->private_length) /* of a multicast event the pointer is no pointer to bytes, and the length 0 */
        memcpy(to->private_data, data, to->private_length);
}

/* A request leaves its listener's channel; where that fails, so does it. Returns 0 or a positive errno. */
static int adopt(struct event *event, struct rdma_cm_id *id)
{
    int err;

    event->channel = open_channel();
    if (event->channel && rdmacm.migrate_id(id, event->channel) == 0) {
        event->request = id;
        return 0;
    }
    err = verbs_last_errno();
    if (event->channel)
        rdmacm.destroy_event_channel(event->channel);
    event->channel = NULL;
    return err;
}

/* The next event; 0, EAGAIN where there is none, or a positive errno with the function that failed. Without the GIL. */
static int take_event(struct cm_id *self, struct event *ret, const char **ret_function)
{
    struct rdma_cm_event *event;
    struct rdma_cm_id *request = NULL;
    int err = 0;

    memset(ret, 0, sizeof *ret);
    *ret_function = "rdma_get_cm_event";
    errno = 0;
    if (rdmacm.get_cm_event(self->channel, &event))
        return verbs_last_errno();
    ret->err = errno;
    copy_event(ret, event);
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        *ret_function = "rdma_migrate_id";
        request = event->id;
        err = adopt(ret, request);
    }
    rdmacm.ack_cm_event(event);
    if (err) /* the peer is told by this, too */
        rdmacm.destroy_id(request);
    return err;
}

/* The object of a request; NULL with an exception, and then the peer is refused. */
static PyObject *request_object(struct cm_id *listener, struct event *event)
{
    struct cm_id *child = cm_id_alloc(listener->base.state, listener->base.module);

    if (child) {
        child->channel = event->channel;
        core_object_attach(&child->base, event->request);
        return (PyObject *)child;
    }
    Py_BEGIN_ALLOW_THREADS
    rdmacm.destroy_id(event->request);
    rdmacm.destroy_event_channel(event->channel);
    Py_END_ALLOW_THREADS
    return NULL;
}

/* (responder resources, initiator depth, retry count, rnr retry count, qp_num), or (AHAttr, qp_num, qkey) */
static PyObject *parameters(struct core_state *state, const struct event *event)
{
    const struct rdma_conn_param *connection = &event->connection;
    const struct rdma_ud_param *datagrams = &event->datagrams;

    if (event->of_datagrams)
        return Py_BuildValue("NII", core_ah_attr_copy(state, &datagrams->ah_attr), datagrams->qp_num, datagrams->qkey);
    return Py_BuildValue("iiiiI", connection->responder_resources, connection->initiator_depth,
                         connection->retry_count, connection->rnr_retry_count, connection->qp_num);
}

static PyObject *cm_id_get_event(PyObject *op, PyObject *ignored)
{
    struct cm_id *self = (struct cm_id *)op;
    PyObject *request = NULL;
    const char *function;
    struct event event;
    int err;

    (void)ignored;
    if (core_enter(&self->base, "get_event") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = take_event(self, &event, &function);
    Py_END_ALLOW_THREADS
    core_exit(&self->base);
    if (err == EAGAIN)
        Py_RETURN_NONE;
    if (err)
        return core_raise(self->base.state, err, function, NULL);

    if (event.request) {
        request = request_object(self, &event);
        if (!request)
            return NULL;
    } else {
        Py_INCREF(Py_None);
        request = Py_None;
    }
    return Py_BuildValue("iiiNy#N", (int)event.type, event.status, event.err, request, event.private_data,
                         (Py_ssize_t)event.private_length, parameters(self->base.state, &event));
}

/* ---- what it is -------------------------------------------------------------------------------------------------- */

static PyObject *address_bytes(const struct sockaddr *address)
{
    Py_ssize_t length = address->sa_family == AF_INET    ? (Py_ssize_t)sizeof(struct sockaddr_in)
                        : address->sa_family == AF_INET6 ? (Py_ssize_t)sizeof(struct sockaddr_in6)
                                                         : 0;

    return PyBytes_FromStringAndSize((const char *)address, length);
}

static PyObject *cm_id_get_source(PyObject *op, void *ignored)
{
    struct cm_id *self = (struct cm_id *)op;

    (void)ignored;
    return core_check_open(&self->base, "source") < 0 ? NULL : address_bytes(&handle_of(self)->route.addr.src_addr);
}

static PyObject *cm_id_get_target(PyObject *op, void *ignored)
{
    struct cm_id *self = (struct cm_id *)op;

    (void)ignored;
    return core_check_open(&self->base, "target") < 0 ? NULL : address_bytes(&handle_of(self)->route.addr.dst_addr);
}

/* (name, port, whether it is iWARP); None before it has a device. */
static PyObject *cm_id_get_device(PyObject *op, void *ignored)
{
    struct cm_id *self = (struct cm_id *)op;
    struct ibv_context *context;

    (void)ignored;
    if (core_check_open(&self->base, "device") < 0)
        return NULL;
    context = handle_of(self)->verbs;
    if (!context)
        Py_RETURN_NONE;
    return Py_BuildValue("siN", verbs.get_device_name(context->device), handle_of(self)->port_num,
                         PyBool_FromLong(context->device->transport_type == IBV_TRANSPORT_IWARP));
}

static PyObject *cm_id_get_fd(PyObject *op, void *ignored)
{
    struct cm_id *self = (struct cm_id *)op;

    (void)ignored;
    return core_check_open(&self->base, "fd") < 0 ? NULL : PyLong_FromLong(self->channel->fd);
}

/* (Context): from now on it is the connections', and nobody's to close. */
static PyObject *cm_id_share(PyObject *op, PyObject *context)
{
    struct cm_id *self = (struct cm_id *)op;

    if (core_check_argument(&self->base, context, CORE_TYPE_CONTEXT, "context", "a Context", "share") < 0)
        return NULL;
    ((struct core_object *)context)->shared = true;
    Py_RETURN_NONE;
}

/* ---- the class --------------------------------------------------------------------------------------------------- */

static PyMethodDef cm_id_methods[] = {
    CORE_LIFETIME_METHODS,
    {"bind", cm_id_bind, METH_VARARGS, "(address): rdma_bind_addr."},
    {"resolve_addr", cm_id_resolve_addr, METH_VARARGS, "(source or None, target, timeout_ms): rdma_resolve_addr."},
    {"resolve_route", cm_id_resolve_route, METH_VARARGS, "(timeout_ms): rdma_resolve_route."},
    {"listen", cm_id_listen, METH_VARARGS, "(backlog): rdma_listen."},
    {"connect", cm_id_connect, METH_VARARGS,
     "(private_data, responder_resources, initiator_depth, retry_count, rnr_retry_count, qp_num): rdma_connect."},
    {"accept", cm_id_accept, METH_VARARGS, "The same for rdma_accept."},
    {"reject", cm_id_reject, METH_VARARGS, "(private_data): rdma_reject."},
    {"disconnect", cm_id_disconnect, METH_NOARGS, "rdma_disconnect."},
    {"establish", cm_id_establish, METH_NOARGS, "rdma_establish."},
    {"join", cm_id_join, METH_VARARGS, "(address, send_only): rdma_join_multicast_ex."},
    {"leave", cm_id_leave, METH_VARARGS, "(address): rdma_leave_multicast."},
    {"qp_attr", cm_id_qp_attr, METH_VARARGS, "(state): the mask and the fields for QP.modify(). rdma_init_qp_attr."},
    {"share", cm_id_share, METH_O, "(context): nobody closes it from now on."},
    {"get_event", cm_id_get_event, METH_NOARGS,
     "(event, status, errno, request or None, private data, parameters), or None where there is none."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef cm_id_getset[] = {
    CORE_LIFETIME_GETSET,
    {"source", cm_id_get_source, NULL, "The local socket address, as bytes.", NULL},
    {"target", cm_id_get_target, NULL, "The peer's socket address, as bytes.", NULL},
    {"device", cm_id_get_device, NULL, "(name, port, whether it is iWARP), or None.", NULL},
    {"fd", cm_id_get_fd, NULL, "The descriptor that is readable while there is an event.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef cm_id_members[] = {CORE_LIFETIME_MEMBERS, {NULL, 0, 0, 0, NULL}};

static PyType_Slot cm_id_slots[] = {
    {Py_tp_doc, "_CMID(port_space, /)\n--\n\nOne rdma_cm_id on a channel of its own; CMID and CMListener are made of it."},
    {Py_tp_new, cm_id_new},
    CORE_LIFETIME_SLOTS,
    {Py_tp_repr, core_object_repr},
    {Py_tp_methods, cm_id_methods},
    {Py_tp_getset, cm_id_getset},
    {Py_tp_members, cm_id_members},
    {0, NULL},
};

const PyType_Spec ibverbs_cm_id_spec = {
    .basicsize = sizeof(struct cm_id),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = cm_id_slots,
};
