/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels and async events: when one comes, how many, what destroying does with those that nobody
 * read. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

static bool waits(struct ibv_comp_channel *channel, int ms)
{
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
    return poll(&fd, 1, ms) == 1;
}

/* Reads what is there and prints for which CQs of the side. */
static void events_show(struct side *s, int ms)
{
    struct ibv_cq *cq;
    void *context;
    int count = 0;
    while (waits(s->channel, count ? 5 : ms) && !ibv_get_cq_event(s->channel, &cq, &context)) {
        fact_add(" %s", cq == s->recv_cq ? "receive CQ" : cq == s->send_cq ? "send CQ" : "unknown CQ");
        ibv_ack_cq_events(cq, 1);
        count++;
    }
    if (!count)
        fact_add(" no event");
}

static void discard(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) > 0)
        ;
}

static void message(struct pair *p, int flags)
{
    struct work w = work_make(&p->a, &p->b, IBV_WR_SEND, 8, 1);
    w.wr.send_flags |= flags;
    recv_post(&p->b, 101, 64);
    work_post(&p->a, &w);
}

static void ask_arming(void)
{
    struct pair p;
    struct setup how = usual;
    how.channels = true;
    pair_open(&p, &how);
    struct side *b = &p.b;

    fact_begin("events", "not armed");
    message(&p, 0);
    events_show(b, 30);
    fact_end();
    fact_begin("events", "armed over a completion that is there already");
    ibv_req_notify_cq(b->recv_cq, 0);
    events_show(b, 30);
    fact_end();
    fact_begin("events", "armed, two messages");
    message(&p, 0);
    message(&p, 0);
    events_show(b, 200);
    fact_end();
    fact_begin("events", "armed twice, one message");
    ibv_req_notify_cq(b->recv_cq, 0);
    ibv_req_notify_cq(b->recv_cq, 0);
    message(&p, 0);
    events_show(b, 200);
    fact_end();
    discard(b->recv_cq);
    fact_begin("events", "solicited only, plain message");
    ibv_req_notify_cq(b->recv_cq, 1);
    message(&p, 0);
    events_show(b, 30);
    fact_end();
    fact_begin("events", "solicited only, solicited message");
    message(&p, IBV_SEND_SOLICITED);
    events_show(b, 200);
    fact_end();
    fact_begin("events", "any armed after solicited, plain message");
    ibv_req_notify_cq(b->recv_cq, 1);
    ibv_req_notify_cq(b->recv_cq, 0);
    message(&p, 0);
    events_show(b, 200);
    fact_end();
    fact_begin("events", "solicited armed after any, plain message");
    ibv_req_notify_cq(b->recv_cq, 0);
    ibv_req_notify_cq(b->recv_cq, 1);
    message(&p, 0);
    events_show(b, 200);
    fact_end();
    discard(b->recv_cq);
    struct work w = work_make(&p.a, b, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 1);
    w.wr.send_flags |= IBV_SEND_SOLICITED;
    recv_post(b, 102, 8);
    ibv_req_notify_cq(b->recv_cq, 1);
    fact_begin("events", "solicited only, solicited WRITE_WITH_IMM");
    work_post(&p.a, &w);
    events_show(b, 200);
    fact_end();
    ibv_req_notify_cq(p.a.send_cq, 1);
    discard(p.a.send_cq);
    fact_begin("events", "solicited only on the send CQ, WRITE");
    send_simple(&p.a, b, IBV_WR_RDMA_WRITE, 8, 1);
    events_show(&p.a, 30);
    fact_end();
    ibv_req_notify_cq(p.a.send_cq, 0);
    fact_begin("events", "any on the send CQ, unsignaled WRITE");
    w = work_make(&p.a, b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.send_flags = 0;
    work_post(&p.a, &w);
    events_show(&p.a, 30);
    fact_end();
    fact_begin("events", "any on the send CQ, signaled WRITE");
    send_simple(&p.a, b, IBV_WR_RDMA_WRITE, 8, 1);
    events_show(&p.a, 200);
    fact_end();
    discard(b->recv_cq);
    ibv_req_notify_cq(b->recv_cq, 1);
    recv_post(b, 103, 8);
    fact_begin("events", "solicited only, flushed receive");
    side_to(b, IBV_QPS_ERR);
    events_show(b, 50);
    fact_end();
    pair_close(&p);

    pair_open(&p, &how);
    ibv_req_notify_cq(p.a.send_cq, 1);
    w = work_make(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    w.wr.wr.rdma.rkey ^= 0x10000;
    fact_begin("events", "solicited only on the send CQ, failed WRITE");
    work_post(&p.a, &w);
    events_show(&p.a, 50);
    fact_end();
    pair_close(&p);
}

/* What must not hang: an alarm ends the program where the kernel would have gone on. */
static void ask_unread(void)
{
    struct pair p;
    struct setup how = usual;
    how.channels = true;
    pair_open(&p, &how);
    ibv_req_notify_cq(p.b.recv_cq, 0);
    message(&p, 0);
    fact("events", "an event nobody reads", "%s", waits(p.b.channel, 300) ? "waits" : "does not come");
    alarm(20);
    ibv_destroy_qp(p.b.qp);
    p.b.qp = NULL;
    struct ibv_cq *cq = p.b.recv_cq;
    fact_errno("events", "destroy_cq with an unread event", ERRNO_OF_INT(ibv_destroy_cq(cq)));
    fact("events", "and the channel afterwards", "%s",
         waits(p.b.channel, 10) ? "still has an event" : "is empty");
    alarm(0);
    p.b.recv_cq = ibv_create_cq(p.b.ctx, 3, NULL, p.b.channel, 0);
    pair_close(&p);

    /* The unread event of one CQ goes, that of the other stays. */
    pair_open(&p, &how);
    ibv_req_notify_cq(p.b.recv_cq, 0);
    ibv_req_notify_cq(p.b.send_cq, 0);
    message(&p, 0);
    send_simple(&p.b, &p.a, IBV_WR_RDMA_WRITE, 8, 5);
    pause_ms(30);
    alarm(20);
    ibv_destroy_qp(p.b.qp);
    p.b.qp = NULL;
    ibv_destroy_cq(p.b.recv_cq);
    p.b.recv_cq = ibv_create_cq(p.b.ctx, 3, NULL, p.b.channel, 0);
    fact_begin("events", "two unread events, one CQ destroyed");
    events_show(&p.b, 30);
    fact_end();
    alarm(0);
    pair_close(&p);

    /* An unread async event of a QP. */
    struct ibv_async_event event;
    pair_open(&p, &usual);
    side_to(&p.a, IBV_QPS_SQD);
    pause_ms(20);
    alarm(20);
    fact_errno("events", "destroy_qp with an unread async event", ERRNO_OF_INT(ibv_destroy_qp(p.a.qp)));
    p.a.qp = NULL;
    fact("events", "and the async queue afterwards", "%s",
         ibv_get_async_event(contexts[0], &event) ? "is empty" : "still has an event");
    alarm(0);
    pair_close(&p);
}

static void ask_reads(void)
{
    struct pair p;
    struct setup how = usual;
    how.channels = true;
    pair_open(&p, &how);
    uint64_t words[4];
    fcntl(p.b.channel->fd, F_SETFL, fcntl(p.b.channel->fd, F_GETFL) | O_NONBLOCK);
    fact("events", "read of an empty channel", "%s",
         errno_name(ERRNO_OF_INT(read(p.b.channel->fd, words, 8))));
    ibv_req_notify_cq(p.b.recv_cq, 0);
    ibv_req_notify_cq(p.b.send_cq, 0);
    message(&p, 0);
    send_simple(&p.b, &p.a, IBV_WR_RDMA_WRITE, 8, 5);
    pause_ms(30);
    fact_errno("events", "read of 4 bytes", ({
                   errno = 0;
                   read(p.b.channel->fd, words, 4) < 0 ? errno : 0;
               }));
    int got = read(p.b.channel->fd, words, sizeof(words));
    fact("events", "read of 32 bytes with two events there", "%d", got);
    fact("events", "the word read", "%s",
         words[0] == (uintptr_t)p.b.recv_cq || words[0] == (uintptr_t)p.b.send_cq ? "a CQ"
                                                                                  : "something else");
    for (int left = 2 - got / 8; left > 0; left--)
        got = read(p.b.channel->fd, words, 8);
    /* libibverbs was not told: acknowledge by hand what was read past it */
    ibv_ack_cq_events(p.b.recv_cq, 1);
    ibv_ack_cq_events(p.b.send_cq, 1);
    pair_close(&p);

    struct ibv_comp_channel *channel = ibv_create_comp_channel(contexts[0]);
    fact("events", "flags of a channel", "%s",
         fcntl(channel->fd, F_GETFD) & FD_CLOEXEC ? "close on exec" : "inherited by exec");
    fact_errno("events", "destroy_comp_channel", ERRNO_OF_INT(ibv_destroy_comp_channel(channel)));
}

static void ask_async(void)
{
    struct pair p;
    struct setup how = usual;
    how.a_cqe = 1;
    pair_open(&p, &how);
    for (int i = 0; i < 4; i++)
        send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, i);
    pause_ms(50);
    struct ibv_async_event event;
    int count = 0;
    bool ours = true;
    while (!ibv_get_async_event(contexts[0], &event)) {
        count++;
        ours = ours && event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == p.a.send_cq;
        ibv_ack_async_event(&event);
    }
    fact("events", "four completions in a CQ of one", "%d events, %s", count,
         ours ? "all CQ_ERR of that CQ" : "others");
    pair_close(&p);

    pair_open(&p, &usual);
    side_to(&p.a, IBV_QPS_SQD);
    pause_ms(20);
    int got = ibv_get_async_event(contexts[0], &event);
    fact("events", "SQ drained", "%s",
         got                                                                      ? "no event"
         : event.event_type == IBV_EVENT_SQ_DRAINED && event.element.qp == p.a.qp ? "event of that QP"
                                                                                  : "another");
    if (!got)
        ibv_ack_async_event(&event);
    pair_close(&p);
}

void ask_events(void)
{
    ask_arming();
    ask_unread();
    ask_reads();
    ask_async();
}
