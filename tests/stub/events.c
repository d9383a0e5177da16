/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stub's completion channels and asynchronous events. As in the real library an event is read from a
 * descriptor that can be polled and set non-blocking, and the destruction of an object waits until all events that
 * were read for it are acknowledged, and forgets those that were not read.
 */
#include "stub.h"
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* A destroy that would hang for good in a real library ends the process here. */
#define ACK_PATIENCE 10

static unsigned long unacked;     /* under stub_mutex */

int stub_queue_open(struct stub_queue *queue)
{
    queue->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    queue->first = NULL;
    queue->last = &queue->first;
    return queue->fd < 0 ? errno : 0;
}

void stub_queue_close(struct stub_queue *queue)
{
    struct stub_event *event;

    close(queue->fd);
    while ((event = queue->first)) {
        queue->first = event->next;
        free(event);
    }
}

/* Under stub_mutex. The descriptor's count is the length of the list, so this read does not wait. */
static void count_down(struct stub_queue *queue)
{
    uint64_t one;

    if (read(queue->fd, &one, sizeof one) != sizeof one)
        stub_die("the event count and the event list differ");
}

static void put_event(struct stub_queue *queue, const struct stub_event *from)
{
    struct stub_event *event = malloc(sizeof *event);
    uint64_t one = 1;

    if (!event)
        stub_die("no memory for an event");
    *event = *from;
    event->next = NULL;
    pthread_mutex_lock(&stub_mutex);
    *queue->last = event;
    queue->last = &event->next;
    if (write(queue->fd, &one, sizeof one) != sizeof one)
        stub_die("an event descriptor is closed");
    pthread_mutex_unlock(&stub_mutex);
}

/* Takes the first event. Waits for one unless the descriptor is non-blocking. -1 and errno, with the mutex free;
 * or 0 with stub_mutex held, so that the caller can count the event before anybody destroys its object. */
static int take_event(struct stub_queue *queue, struct stub_event *ret_event)
{
    struct stub_event *event;

    for (;;) {
        struct pollfd wait = {.fd = queue->fd, .events = POLLIN};
        int flags;

        pthread_mutex_lock(&stub_mutex);
        if ((event = queue->first))
            break;
        pthread_mutex_unlock(&stub_mutex);
        flags = fcntl(queue->fd, F_GETFL);
        if (flags < 0)
            return -1;
        if (flags & O_NONBLOCK)
            return stub_minus_one(EAGAIN);
        if (poll(&wait, 1, -1) < 0)
            return -1;
    }
    queue->first = event->next;
    if (!queue->first)
        queue->last = &queue->first;
    count_down(queue);
    unacked++;
    *ret_event = *event;
    free(event);
    return 0;
}

void stub_queue_purge(struct stub_queue *queue, const void *object)
{
    struct stub_event **at = &queue->first, *event;

    pthread_mutex_lock(&stub_mutex);
    while ((event = *at)) {
        if (event->cq != object && (const void *)event->async.element.cq != object) {
            at = &event->next;
            continue;
        }
        *at = event->next;
        free(event);
        count_down(queue);
    }
    queue->last = at;
    pthread_mutex_unlock(&stub_mutex);
}

/* `completed` is what the acknowledgements count up, under the object's own mutex as in the real library. */
void stub_wait_acked(const uint32_t *completed, const uint32_t *reported, const char *what, pthread_mutex_t *mutex)
{
    for (int ms = 0;; ms++) {
        bool done;

        pthread_mutex_lock(mutex);
        pthread_mutex_lock(&stub_mutex);
        done = *completed == *reported;
        pthread_mutex_unlock(&stub_mutex);
        pthread_mutex_unlock(mutex);
        if (done)
            return;
        if (ms > ACK_PATIENCE * 1000)
            stub_die("the destruction of a %s waits for an acknowledgement that does not come", what);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

STUB_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct stub_context *ctx = stub_context_of(context);
    struct stub_channel *channel;
    int err;

    stub_check(&ctx->object, KIND_context, VERB_create_comp_channel);
    if ((err = stub_enter(VERB_create_comp_channel, &ctx->object)))
        return stub_null(err);
    channel = stub_new(KIND_channel, sizeof *channel, offsetof(struct stub_channel, object), &ctx->object);
    stub_leave(VERB_create_comp_channel, &ctx->object);
    if (!channel)
        return stub_null(ENOMEM);
    if ((err = stub_queue_open(&channel->events))) {
        stub_delete(&channel->object);
        return stub_null(err);
    }
    channel->channel.context = context;
    channel->channel.fd = channel->events.fd;
    return &channel->channel;
}

STUB_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibchannel)
{
    struct stub_channel *channel = (struct stub_channel *)ibchannel;
    int err;

    stub_check(&channel->object, KIND_channel, VERB_destroy_comp_channel);
    if ((err = stub_enter(VERB_destroy_comp_channel, &channel->object)))
        return stub_positive(err);
    stub_leave(VERB_destroy_comp_channel, &channel->object);
    if (channel->channel.refcnt)
        return EBUSY;
    if (channel->quiet)
        stub_violation("destroy_comp_channel under %d queues of efadv_create_cq", channel->quiet);
    if ((err = stub_delete(&channel->object)))
        return err;
    stub_queue_close(&channel->events);
    return 0;
}

void stub_quiet_channel(struct stub_channel *channel)
{
    pthread_mutex_lock(&stub_mutex);
    channel->quiet++;
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ibchannel, struct ibv_cq **cq, void **cq_context)
{
    struct stub_channel *channel = (struct stub_channel *)ibchannel;
    struct stub_event event;
    int err;

    stub_check(&channel->object, KIND_channel, VERB_get_cq_event);
    if ((err = stub_enter(VERB_get_cq_event, &channel->object)))
        return stub_minus_one(err);
    err = take_event(&channel->events, &event);
    if (!err) {
        ((struct stub_cq *)event.cq)->comp_reported++;
        *cq = event.cq;
        *cq_context = event.cq->cq_context;
        pthread_mutex_unlock(&stub_mutex);
    }
    stub_leave(VERB_get_cq_event, &channel->object);
    return err;
}

static void acknowledge(uint32_t *completed, unsigned int n, const uint32_t *reported, pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_lock(&stub_mutex);
    *completed += n;
    unacked -= n;
    if ((int32_t)(*reported - *completed) < 0)
        stub_die("more events acknowledged than were read");
    pthread_mutex_unlock(&stub_mutex);
    pthread_mutex_unlock(mutex);
}

STUB_EXPORT void ibv_ack_cq_events(struct ibv_cq *ibcq, unsigned int nevents)
{
    struct stub_cq *cq = (struct stub_cq *)ibcq;

    if (!nevents)
        return;
    stub_check(&cq->object, KIND_cq, VERB_ack_cq_events);
    if (stub_enter(VERB_ack_cq_events, &cq->object))
        return;
    acknowledge(&ibcq->comp_events_completed, nevents, &cq->comp_reported, &ibcq->mutex);
    stub_leave(VERB_ack_cq_events, &cq->object);
}

/* Completion event of a CQ with a channel. */
void stub_signal(struct stub_cq *cq)
{
    stub_check(&cq->channel->object, KIND_channel, VERB_poll_cq);
    put_event(&cq->channel->events, &(struct stub_event){.cq = &cq->cq});
}

STUB_EXPORT int stub_push_cq_event(struct ibv_cq *cq)
{
    if (!((struct stub_cq *)cq)->channel)
        return EINVAL;
    stub_signal((struct stub_cq *)cq);
    return 0;
}

enum element { ELEMENT_PORT, ELEMENT_CQ, ELEMENT_QP, ELEMENT_SRQ };

static enum element element_of(int type)
{
    switch (type) {
    case IBV_EVENT_CQ_ERR:
        return ELEMENT_CQ;
    case IBV_EVENT_QP_FATAL: case IBV_EVENT_QP_REQ_ERR: case IBV_EVENT_QP_ACCESS_ERR: case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED: case IBV_EVENT_PATH_MIG: case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return ELEMENT_QP;
    case IBV_EVENT_SRQ_ERR: case IBV_EVENT_SRQ_LIMIT_REACHED:
        return ELEMENT_SRQ;
    default:
        return ELEMENT_PORT;
    }
}

STUB_EXPORT void stub_raise_event(struct ibv_context *context, int type, void *object, int port)
{
    struct stub_event event = {.async.event_type = (enum ibv_event_type)type};

    if (element_of(type) == ELEMENT_PORT)
        event.async.element.port_num = port;
    else
        event.async.element.cq = object;
    put_event(&stub_context_of(context)->events, &event);
}

STUB_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *ret_event)
{
    struct stub_context *ctx = stub_context_of(context);
    struct stub_event event;
    int err;

    stub_check(&ctx->object, KIND_context, VERB_get_async_event);
    if ((err = stub_enter(VERB_get_async_event, &ctx->object)))
        return stub_minus_one(err);
    err = take_event(&ctx->events, &event);
    if (!err) {
        *ret_event = event.async;
        switch (element_of(event.async.event_type)) {
        case ELEMENT_CQ: ((struct stub_cq *)event.async.element.cq)->async_reported++; break;
        case ELEMENT_QP: ((struct stub_qp *)event.async.element.qp)->reported++; break;
        case ELEMENT_SRQ: ((struct stub_srq *)event.async.element.srq)->reported++; break;
        case ELEMENT_PORT: break;
        }
        pthread_mutex_unlock(&stub_mutex);
    }
    stub_leave(VERB_get_async_event, &ctx->object);
    return err;
}

STUB_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    if (stub_enter(VERB_ack_async_event, NULL))
        return;
    switch (element_of(event->event_type)) {
    case ELEMENT_CQ: {
        struct ibv_cq *cq = event->element.cq;

        stub_check(&((struct stub_cq *)cq)->object, KIND_cq, VERB_ack_async_event);
        acknowledge(&cq->async_events_completed, 1, &((struct stub_cq *)cq)->async_reported, &cq->mutex);
        break;
    }
    case ELEMENT_QP: {
        struct ibv_qp *qp = event->element.qp;

        stub_check(&((struct stub_qp *)qp)->object, KIND_qp, VERB_ack_async_event);
        acknowledge(&qp->events_completed, 1, &((struct stub_qp *)qp)->reported, &qp->mutex);
        break;
    }
    case ELEMENT_SRQ: {
        struct ibv_srq *srq = event->element.srq;

        stub_check(&((struct stub_srq *)srq)->object, KIND_srq, VERB_ack_async_event);
        acknowledge(&srq->events_completed, 1, &((struct stub_srq *)srq)->reported, &srq->mutex);
        break;
    }
    case ELEMENT_PORT:
        pthread_mutex_lock(&stub_mutex);
        unacked--;
        pthread_mutex_unlock(&stub_mutex);
        break;
    }
    stub_leave(VERB_ack_async_event, NULL);
}

STUB_EXPORT unsigned long stub_unacked(void)
{
    unsigned long n;

    pthread_mutex_lock(&stub_mutex);
    n = unacked;
    pthread_mutex_unlock(&stub_mutex);
    return n;
}
