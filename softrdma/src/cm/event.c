/* SPDX-License-Identifier: BSD-3-Clause */
/* Making events, keeping them in order, and handing them over. */
#include "event.h"

#include "../config.h"
#include "../guard.h"
#include "file.h"
#include "id.h"
#include "iwarp.h"

struct cm_event *cm_event_for(struct region *r, const struct cm_id *id, enum cm_event_type type, int status)
{
    struct table t = {0, 0};
    uint32_t n;
    struct cm_event *e;

    if (atomic_load(&r->cm.file[id->file].closed)) /* nobody will ever read it */
        return NULL;
    n = table_take(&t, r->cm.event_bits, CM_EVENTS, 0);
    if (n == NONE)
        return NULL;
    e = &r->cm.event[n];
    *e = (struct cm_event){.id = cm_id_number(r, id), .child = NONE, .group = NONE};
    e->resp.uid = id->uid;
    e->resp.id = e->id;
    e->resp.event = type;
    e->resp.status = (uint32_t)status;
    TRACE("cm event %d status %d for identifier %u", (int)type, status, e->id);
    return e;
}

/* An event for a child that nobody has accepted yet is thrown away, as in the kernel. */
struct cm_event *cm_event_new(struct region *r, const struct cm_id *id, enum cm_event_type type, int status)
{
    return id->uid ? cm_event_for(r, id, type, status) : NULL;
}

static void append(struct region *r, struct cm_file *f, struct cm_event *e)
{
    uint32_t place = (uint32_t)(e - r->cm.event) + 1;

    e->next = 0;
    if (f->tail)
        r->cm.event[f->tail - 1].next = place;
    else
        f->head = place;
    f->tail = place;
    cm_file_push(r, f);
}

void cm_event_post(struct region *r, struct cm_event *e)
{
    if (e)
        append(r, &r->cm.file[r->cm.id[e->id].file], e);
}

void cm_event_say(struct region *r, const struct cm_id *id, enum cm_event_type type, int status)
{
    cm_event_post(r, cm_event_new(r, id, type, status));
}

void cm_event_set_data(struct cm_event *e, uint32_t length, const struct rdma_ucm_conn_param *from)
{
    if (!e)
        return;
    e->resp.param.conn.private_data_len = (uint8_t)length;
    if (from)
        memcpy(e->resp.param.conn.private_data, from->private_data, min_u64(from->private_data_len, length));
}

void cm_event_set_datagram(struct cm_event *e, uint32_t length, const struct rdma_ucm_conn_param *from)
{
    if (!e)
        return;
    e->resp.param.ud.private_data_len = (uint8_t)length;
    if (from)
        memcpy(e->resp.param.ud.private_data, from->private_data, min_u64(from->private_data_len, length));
}

static void release(struct region *r, struct cm_event *e)
{
    uint32_t n = (uint32_t)(e - r->cm.event);

    r->cm.event_bits[n / 64] &= ~(UINT64_C(1) << n % 64);
}

/* A request makes room in its listener's backlog as it is read. */
static void count(struct region *r, const struct cm_event *e)
{
    struct cm_id *id = &r->cm.id[e->id];

    id->reported++;
    if (e->child != NONE)
        id->backlog++;
    if (e->group != NONE)
        r->cm.group[e->group].reported++;
}

int cm_event_read(struct region *r, struct cm_file *f, uint64_t response, uint32_t room, uint32_t *ret_event,
                  struct cm_id *ret_about)
{
    struct cm_event *e;

    if (!f->head)
        return ENOENT;
    e = &r->cm.event[f->head - 1];
    if (guard_copy((void *)(uintptr_t)response, &e->resp, min_u64(room, sizeof(e->resp))))
        return EFAULT;
    f->head = e->next;
    if (!f->head)
        f->tail = 0;
    *ret_event = e->resp.event;
    ret_about->device = -1;
    if (e->child == NONE && cm_is_iwarp(&r->cm.id[e->id]))
        *ret_about = r->cm.id[e->id];
    count(r, e);
    release(r, e);
    return 0;
}

/* Takes the first event that is meant for the identifier off the list; NULL: there is none. */
static struct cm_event *take(struct region *r, struct cm_file *f, uint32_t id, uint32_t group)
{
    uint32_t last = 0;

    for (uint32_t at = f->head; at; at = r->cm.event[at - 1].next) {
        struct cm_event *e = &r->cm.event[at - 1];

        if (e->id == id && (group == NONE || e->group == group)) {
            if (last)
                r->cm.event[last - 1].next = e->next;
            else
                f->head = e->next;
            if (f->tail == at)
                f->tail = last;
            cm_file_pull(r, f);
            return e;
        }
        last = at;
    }
    return NULL;
}

void cm_event_drop(struct region *r, const struct cm_id *id, uint32_t group,
                   void (*child)(struct region *r, struct cm_id *id, void *arg), void *arg)
{
    struct cm_file *f = &r->cm.file[id->file];
    struct cm_event *e;

    while ((e = take(r, f, cm_id_number(r, id), group))) {
        uint32_t c = e->child;

        release(r, e);
        if (c != NONE && r->cm.id[c].used && child)
            child(r, &r->cm.id[c], arg);
    }
}

/* The children of unread requests go where those go. */
void cm_event_move(struct region *r, const struct cm_id *id, uint32_t from, uint32_t to)
{
    struct cm_event *e;

    while ((e = take(r, &r->cm.file[from], cm_id_number(r, id), NONE))) {
        if (e->child != NONE)
            r->cm.id[e->child].file = to;
        append(r, &r->cm.file[to], e);
    }
}
