/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a test steers the stub libibverbs: exported C functions, to be found with dlsym or ctypes beside the
 * verbs themselves. Nothing here is part of libibverbs. Every function may be called from any thread.
 *
 * Verbs are named without their prefix ("reg_mr_iova2", "post_send"); kinds of objects are "context", "pd",
 * "mr", "cq", "channel", "qp", "srq", "ah", "device_list". A name the stub does not know aborts the process:
 * it is the test that is wrong.
 */
#ifndef STUB_CONTROL_H
#define STUB_CONTROL_H

#include <stdint.h>
#include <infiniband/verbs.h>

#define STUB_EXPORT __attribute__((visibility("default")))

/* The error of a fault that returns NULL and leaves errno 0, as a careless provider does. */
#define STUB_NO_ERRNO 0x7fffffff

/* Says that this library is the stub, and which build: "stub", "stub 44", "stub 33", "stub old" or "stub broken". */
STUB_EXPORT const char *stub_version(void);

/* Forgets all faults, lies, delays, gates, captures and counts, and restores the devices. Objects stay. */
STUB_EXPORT void stub_reset(void);

/* Calls of a verb since the last reset; NULL: of all. The counts of post and poll may fall short by a few when
 * two threads are inside at once. */
STUB_EXPORT unsigned long stub_calls(const char *verb);

/* Objects of a kind that exist now; NULL: of all kinds. */
STUB_EXPORT long stub_live(const char *kind);

/* Wrong uses that a real library would not report: a context closed under live objects, a destroy while another
 * thread is inside a call on the object. The use of a destroyed object aborts the process at once. */
STUB_EXPORT unsigned long stub_violations(void);

/* The n-th call of the verb from now (1: the next), and those after it up to `times` in all, fail with `err`.
 * The verb's own way of telling is used: NULL and errno, the errno, or -1 and errno. Where it is the errno, a
 * negative err makes the call return -1 and set errno to its positive. poll_cq returns -err. */
STUB_EXPORT void stub_fail(const char *verb, unsigned long nth, int err, unsigned long times);

/* The n-th call from now of any verb that can fail does so with `err`, once. Verbs that take something away (destroy,
 * close, dealloc, dereg) are not counted unless `destroys`. */
STUB_EXPORT void stub_fail_any(unsigned long nth, int err, int destroys);

/* Whether the fault of stub_fail_any has not happened yet. */
STUB_EXPORT int stub_fault_pending(void);

/* Every call of the verb sleeps so long inside; 0 ends it. */
STUB_EXPORT void stub_delay(const char *verb, unsigned int microseconds);

/* Calls of the verb wait inside until the gate is opened. Not for calls that keep the GIL. */
STUB_EXPORT void stub_gate_close(const char *verb);
STUB_EXPORT void stub_gate_open(const char *verb);

/* Threads inside a call of the verb now. For post and poll only while a delay, gate or capture is on. */
STUB_EXPORT int stub_inside(const char *verb);

/* How many devices there are, 0 to 4; at first 3: stub0 (RoCE, one port), stub1 (InfiniBand, two ports), stub2 (EFA),
 * stub3 (as stub1). */
STUB_EXPORT void stub_set_devices(int count);
STUB_EXPORT void stub_set_guid(int device, uint64_t guid);
STUB_EXPORT void stub_set_port(int device, int link_layer, int state, int active_mtu, int lid);
STUB_EXPORT void stub_set_gid(int device, int index, const uint8_t raw[16]);
STUB_EXPORT void stub_set_limits(int device, const struct ibv_device_attr *attr);

/* What efadv_query_device says of the EFA device: bits of EFADV_DEVICE_ATTR_CAPS_. */
STUB_EXPORT void stub_set_efa_caps(uint32_t caps);

/* modify_qp and create_ah take any values and states, so that marshalling can be tried with all of them. */
STUB_EXPORT void stub_set_lenient(int on);

/* Puts a completion into a CQ as it is, and raises its event when the CQ is armed. 0, or ENOMEM when full. */
STUB_EXPORT int stub_push_wc(struct ibv_cq *cq, const struct ibv_wc *wc, int solicited);

/* The same with what an extended CQ of libefa can tell: the sender's GID (NULL: none), and whether it took no receive. */
STUB_EXPORT int stub_push_wc_ex(struct ibv_cq *cq, const struct ibv_wc *wc, int solicited, const uint8_t *sgid,
                                int unsolicited);

/* Raises a completion event for a CQ that nothing was put into. 0, or EINVAL when it has no channel. */
STUB_EXPORT int stub_push_cq_event(struct ibv_cq *cq);

/* Raises an async event. The element is taken from `cq`, `qp` or `srq` by the type, else `port`. */
STUB_EXPORT void stub_raise_event(struct ibv_context *context, int type, void *object, int port);

/* Events that were read and not acknowledged yet. */
STUB_EXPORT unsigned long stub_unacked(void);

/* The next `times` calls of poll_cq return `value` whatever there is; the array is filled where it exists. */
STUB_EXPORT void stub_lie_poll(int value, unsigned long times);

/* While on, requests stay in their queue instead of completing at once. */
STUB_EXPORT void stub_hold(int on);

/* Completes up to `count` held requests of a QP in order, of the send queue or the receive queue; returns how many. */
STUB_EXPORT int stub_release(struct ibv_qp *qp, int receive, int count, int status);

/* How bad_wr comes back from a refused post. */
enum stub_bad_wr { STUB_BAD_WR_RIGHT, STUB_BAD_WR_UNTOUCHED, STUB_BAD_WR_NULL, STUB_BAD_WR_WILD };

/* The next call of post_send, post_recv or post_srq_recv takes `after` requests, then refuses with `err`. Of
 * wr_complete: the builder of request `after` (or wr_complete itself, where there are no more) refuses, so that
 * nothing is taken. */
STUB_EXPORT void stub_refuse(const char *verb, int after, int err, enum stub_bad_wr bad);

/* Extended sessions (wr_start) and polls (start_poll) that the calling thread has open. */
STUB_EXPORT int stub_open_sessions(void);

/* Capture: while on, every post is copied, and so are inline bytes when on is 2 (the addresses must exist). */
struct stub_request {
    struct ibv_send_wr send;  /* as it came; of a receive only wr_id, next, sg_list and num_sge are set */
    void *queue;              /* the QP or SRQ it was posted to */
    uint64_t at;              /* the address of the request that the library was given */
    uint32_t call;            /* counts the posts since the capture began, from 0 */
    uint32_t kind;            /* 0 send, 1 receive, 2 shared receive, 3 send between wr_start and wr_complete */
    /* Of kind 3, beside wr_id, opcode, send_flags and imm_data of `send`: */
    uint64_t ah, remote_addr;
    uint32_t remote_qpn, remote_qkey, rkey;
};
STUB_EXPORT void stub_capture(int on);
STUB_EXPORT int stub_captured(void);
STUB_EXPORT int stub_captured_request(int index, struct stub_request *ret_request);
STUB_EXPORT int stub_captured_sge(int index, int which, struct ibv_sge *ret_sge);
STUB_EXPORT int stub_captured_inline(int index, void *ret_bytes, int room);

/* What the last successful call of its kind was given. */
struct stub_registration {
    uint64_t addr, length, iova, offset;
    int64_t fd;
    uint32_t access;
    uint32_t verb;            /* 0 reg_mr, 1 reg_mr_iova2, 2 reg_dmabuf_mr */
};
STUB_EXPORT void stub_last_registration(struct stub_registration *ret_registration);
STUB_EXPORT int stub_last_modify(struct ibv_qp_attr *ret_attr);
STUB_EXPORT void stub_last_ah(struct ibv_ah_attr *ret_attr);
STUB_EXPORT uint64_t stub_last_qp_init_ex(uint16_t *ret_efa_flags, uint8_t *ret_sl);
STUB_EXPORT void stub_last_qp_init(struct ibv_qp_init_attr *ret_attr);
STUB_EXPORT int stub_last_srq_modify(struct ibv_srq_attr *ret_attr);

#endif
