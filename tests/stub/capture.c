/* SPDX-License-Identifier: BSD-3-Clause */
/* What was posted, kept as the library was given it, for tests to look at: requests, their SGEs and inline bytes. */
#include "stub.h"
#include <stdlib.h>

/* Captured requests and their SGEs, all in arrays that grow; under stub_mutex. */
static struct captured {
    struct stub_request request;
    size_t sge_at, inline_at, inline_length;
} *captured;
static int captured_count, captured_room;
static struct ibv_sge *sges;
static size_t sge_count, sge_room;
static uint8_t *inlines;
static size_t inline_count, inline_room;
static uint32_t captured_calls;
static int capture_mode;

void stub_capture_reset(void)
{
    pthread_mutex_lock(&stub_mutex);
    free(captured);
    free(sges);
    free(inlines);
    captured = NULL;
    sges = NULL;
    inlines = NULL;
    captured_count = captured_room = 0;
    sge_count = sge_room = inline_count = inline_room = 0;
    captured_calls = 0;
    capture_mode = 0;
    pthread_mutex_unlock(&stub_mutex);
}

void stub_capture_mode(int on)
{
    pthread_mutex_lock(&stub_mutex);
    capture_mode = on;
    pthread_mutex_unlock(&stub_mutex);
}

static bool copies_inline(const struct ibv_send_wr *wr)
{
    return capture_mode == 2 && wr->send_flags & IBV_SEND_INLINE;
}

bool stub_copies_inline(void)
{
    bool copies;

    pthread_mutex_lock(&stub_mutex);
    copies = capture_mode == 2;
    pthread_mutex_unlock(&stub_mutex);
    return copies;
}

static void *grown(void *block, size_t *room, size_t needed, size_t each)
{
    if (needed <= *room)
        return block;
    *room = needed * 2 + 64;
    block = realloc(block, *room * each);
    if (!block)
        stub_die("no memory for captured requests");
    return block;
}

/* Under stub_mutex. */
static void copy_request(const struct ibv_send_wr *wr, uint64_t at, void *queue, uint32_t kind)
{
    struct captured *to;
    size_t room = (size_t)captured_room;

    captured = grown(captured, &room, (size_t)captured_count + 1, sizeof *captured);
    captured_room = (int)room;
    sges = grown(sges, &sge_room, sge_count + (size_t)wr->num_sge, sizeof *sges);
    to = &captured[captured_count++];
    to->request = (struct stub_request){.send = *wr, .queue = queue, .at = at, .call = captured_calls, .kind = kind};
    to->sge_at = sge_count;
    to->inline_at = inline_count;
    to->inline_length = 0;
    for (int i = 0; i < wr->num_sge; i++) {
        sges[sge_count++] = wr->sg_list[i];
        if (!copies_inline(wr) || !wr->sg_list[i].length)
            continue;
        inlines = grown(inlines, &inline_room, inline_count + wr->sg_list[i].length, 1);
        memcpy(inlines + inline_count, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
        inline_count += wr->sg_list[i].length;
        to->inline_length += wr->sg_list[i].length;
    }
}

/* What a session staged, once it is complete. Inline data was copied by its setter. */
void stub_capture_session(const struct stub_qp *qp)
{
    const struct stub_session *session = qp->session;

    pthread_mutex_lock(&stub_mutex);
    for (uint32_t i = 0; capture_mode && i < session->count; i++) {
        const struct stub_staged *from = &session->staged[i];
        const uint8_t *bytes = session->inlines + i * qp->cap.max_inline_data;
        struct ibv_send_wr wr = {
            .wr_id = from->wr_id, .num_sge = from->num_sge, .opcode = (enum ibv_wr_opcode)from->opcode,
            .sg_list = session->sges + i * qp->cap.max_send_sge, .send_flags = from->flags, .imm_data = from->imm,
        };
        struct captured *to;

        copy_request(&wr, i, (void *)qp, 3);
        to = &captured[captured_count - 1];
        to->request.ah = (uintptr_t)from->ah;
        to->request.remote_addr = from->remote_addr;
        to->request.remote_qpn = from->qpn;
        to->request.remote_qkey = from->qkey;
        to->request.rkey = from->rkey;
        if (!session->copies || !(from->flags & IBV_SEND_INLINE) || from->num_sge || !from->byte_len)
            continue;
        to->inline_at = inline_count;
        to->inline_length = from->byte_len;
        inlines = grown(inlines, &inline_room, inline_count + from->byte_len, 1);
        memcpy(inlines + inline_count, bytes, from->byte_len);
        inline_count += from->byte_len;
    }
    if (capture_mode)
        captured_calls++;
    pthread_mutex_unlock(&stub_mutex);
}

void stub_capture_posted(const struct stub_wr *wr, void *queue, uint32_t kind)
{
    pthread_mutex_lock(&stub_mutex);
    if (capture_mode) {
        for (; wr; wr = wr->next) {
            struct ibv_send_wr as = {.wr_id = wr->wr_id, .next = (struct ibv_send_wr *)wr->next,
                                     .sg_list = wr->sg_list, .num_sge = wr->num_sge};

            copy_request(kind ? &as : (const struct ibv_send_wr *)wr, (uintptr_t)wr, queue, kind);
        }
        captured_calls++;
    }
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT int stub_captured(void)
{
    int n;

    pthread_mutex_lock(&stub_mutex);
    n = captured_count;
    pthread_mutex_unlock(&stub_mutex);
    return n;
}

STUB_EXPORT int stub_captured_request(int index, struct stub_request *ret_request)
{
    int err = EINVAL;

    pthread_mutex_lock(&stub_mutex);
    if (index >= 0 && index < captured_count) {
        *ret_request = captured[index].request;
        err = 0;
    }
    pthread_mutex_unlock(&stub_mutex);
    return err;
}

STUB_EXPORT int stub_captured_sge(int index, int which, struct ibv_sge *ret_sge)
{
    int err = EINVAL;

    pthread_mutex_lock(&stub_mutex);
    if (index >= 0 && index < captured_count && which >= 0 && which < captured[index].request.send.num_sge) {
        *ret_sge = sges[captured[index].sge_at + (size_t)which];
        err = 0;
    }
    pthread_mutex_unlock(&stub_mutex);
    return err;
}

STUB_EXPORT int stub_captured_inline(int index, void *ret_bytes, int room)
{
    int length = -1;

    pthread_mutex_lock(&stub_mutex);
    if (index >= 0 && index < captured_count) {
        length = (int)captured[index].inline_length;
        if (length && room)
            memcpy(ret_bytes, inlines + captured[index].inline_at, (size_t)(length < room ? length : room));
    }
    pthread_mutex_unlock(&stub_mutex);
    return length;
}
