/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: connections through librdmacm between two processes, one of which dies, forks, is slow or loses its NIC,
 * at each stage of a connection. The argument names the case. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <rdma/rdma_cma.h>
#include <arpa/inet.h>

#include "pair.h"

#define LIMIT_MS 5000

static const char *server = "10.99.0.2";

static struct sockaddr *address(const char *host, uint16_t port)
{
    static struct sockaddr_in a;

    a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    CHECK(inet_pton(AF_INET, host, &a.sin_addr) == 1);
    return (struct sockaddr *)&a;
}

static struct rdma_event_channel *channel(void)
{
    struct rdma_event_channel *c = rdma_create_event_channel();

    CHECK(c && fcntl(c->fd, F_SETFL, O_NONBLOCK) == 0);
    return c;
}

/* The next event; NULL if none comes within the limit. */
static struct rdma_cm_event *next(struct rdma_event_channel *c, int limit_ms)
{
    double until = now_s() + limit_ms / 1000.0;
    struct rdma_cm_event *e;

    do {
        struct pollfd p = {c->fd, POLLIN, 0};
        int left = (int)((until - now_s()) * 1000);

        if (rdma_get_cm_event(c, &e) == 0)
            return e;
        CHECK(errno == EAGAIN);
        poll(&p, 1, left > 0 ? left : 0);
    } while (now_s() < until);
    return NULL;
}

#define EXPECT(channel, what, state)                                                                         \
    do {                                                                                                     \
        struct rdma_cm_event *e_ = next(channel, LIMIT_MS);                                                  \
                                                                                                             \
        if (e_ && (e_->event != (what) || e_->status != (state)))                                            \
            fprintf(stderr, "%s, status %d\n", rdma_event_str(e_->event), e_->status);                       \
        CHECK(e_ && e_->event == (what) && e_->status == (state));                                           \
        CHECK(rdma_ack_cm_event(e_) == 0);                                                                   \
    } while (0)

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};

    CHECK(rdma_create_qp(id, NULL, &a) == 0);
}

static struct rdma_cm_id *listen_at(struct rdma_event_channel *c, uint16_t port)
{
    struct rdma_cm_id *id;

    CHECK(rdma_create_id(c, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, address(server, port)) == 0 && rdma_listen(id, 4) == 0);
    return id;
}

static uint16_t port_of(struct rdma_cm_id *id)
{
    return ntohs(rdma_get_src_port(id));
}

/* A client with its queue pair, ready to connect. */
static struct rdma_cm_id *client(struct rdma_event_channel *c, uint16_t port)
{
    struct rdma_cm_id *id;

    CHECK(rdma_create_id(c, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(id, NULL, address(server, port), 1000) == 0);
    EXPECT(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    CHECK(rdma_resolve_route(id, 1000) == 0);
    EXPECT(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    make_qp(id);
    return id;
}

static void start_to_connect(struct rdma_cm_id *id)
{
    struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};

    CHECK(rdma_connect(id, &p) == 0);
}

static struct rdma_cm_id *request(struct rdma_event_channel *c)
{
    struct rdma_cm_event *e = next(c, LIMIT_MS);
    struct rdma_cm_id *id;

    CHECK(e && e->event == RDMA_CM_EVENT_CONNECT_REQUEST);
    id = e->id;
    CHECK(rdma_ack_cm_event(e) == 0);
    return id;
}

static void drop(struct rdma_cm_id *id)
{
    if (id->qp)
        rdma_destroy_qp(id);
    CHECK(rdma_destroy_id(id) == 0);
}

/* ---- one of them is killed ---- */

enum stage { UNREAD, READ, ACCEPTED, CONNECTED };

/* Tells its port, and gets as far as it is told. */
static int serve(int in, int out)
{
    struct rdma_event_channel *c = channel();
    struct rdma_cm_id *l = listen_at(c, 0), *id;
    uint16_t port = port_of(l);
    char stage;

    CHECK(write(out, &port, sizeof(port)) == sizeof(port) && read(in, &stage, 1) == 1);
    if (stage >= READ) {
        id = request(c);
        make_qp(id);
        if (stage >= ACCEPTED)
            CHECK(rdma_accept(id, &(struct rdma_conn_param){.responder_resources = 1}) == 0);
        if (stage >= CONNECTED)
            EXPECT(c, RDMA_CM_EVENT_ESTABLISHED, 0);
    }
    CHECK(write(out, "d", 1) == 1);
    pause();
    return PASS;
}

static void end(pid_t pid, int signal)
{
    int status;

    kill(pid, signal);
    CHECK(waitpid(pid, &status, 0) == pid);
}

static void server_dies(char stage)
{
    struct rdma_event_channel *c = channel();
    int to, from;
    pid_t pid = spawn(serve, &to, &from);
    struct rdma_cm_id *id;
    uint16_t port;
    char done;

    CHECK(read(from, &port, sizeof(port)) == sizeof(port));
    id = client(c, port);
    start_to_connect(id);
    CHECK(write(to, &stage, 1) == 1);
    if (stage == CONNECTED)
        EXPECT(c, RDMA_CM_EVENT_ESTABLISHED, 0);
    CHECK(read(from, &done, 1) == 1);
    end(pid, SIGKILL);
    if (stage == CONNECTED) {
        EXPECT(c, RDMA_CM_EVENT_DISCONNECTED, 0);
    } else if (stage == ACCEPTED) { /* the library cannot answer for it any more, or is told before it tries */
        struct rdma_cm_event *e = next(c, LIMIT_MS);

        CHECK(e && (e->event == RDMA_CM_EVENT_CONNECT_ERROR || e->event == RDMA_CM_EVENT_ESTABLISHED));
        rdma_ack_cm_event(e);
    } else {
        EXPECT(c, RDMA_CM_EVENT_REJECTED, 28);
    }
    drop(id);
    rdma_destroy_event_channel(c);
    close(to);
    close(from);
}

/* Gets the port, connects, and says when it is as far as it gets by itself. */
static int call(int in, int out)
{
    struct rdma_event_channel *c = channel();
    struct rdma_cm_id *id;
    uint16_t port;

    CHECK(read(in, &port, sizeof(port)) == sizeof(port));
    id = client(c, port);
    start_to_connect(id);
    CHECK(write(out, "r", 1) == 1);
    EXPECT(c, RDMA_CM_EVENT_ESTABLISHED, 0);
    CHECK(write(out, "e", 1) == 1);
    pause();
    return PASS;
}

static void client_dies(char stage)
{
    struct rdma_conn_param p = {.responder_resources = 1};
    struct rdma_event_channel *c = channel();
    struct rdma_cm_id *l = listen_at(c, 0), *id = NULL;
    int to, from;
    pid_t pid = spawn(call, &to, &from);
    uint16_t port = port_of(l);
    char said;

    CHECK(write(to, &port, sizeof(port)) == sizeof(port) && read(from, &said, 1) == 1);
    if (stage >= READ) {
        id = request(c);
        make_qp(id);
    }
    if (stage == CONNECTED) {
        CHECK(rdma_accept(id, &p) == 0);
        EXPECT(c, RDMA_CM_EVENT_ESTABLISHED, 0);
    }
    end(pid, SIGKILL);
    if (stage == CONNECTED) {
        EXPECT(c, RDMA_CM_EVENT_DISCONNECTED, 0);
    } else { /* the request remains, and cannot be accepted */
        sleep_ms(100);
        if (stage == UNREAD)
            id = request(c);
        CHECK(rdma_accept(id, &p) == -1 && errno == EINVAL);
    }
    drop(id);
    drop(l);
    rdma_destroy_event_channel(c);
    close(to);
    close(from);
}

static void deaths(void)
{
    for (char stage = UNREAD; stage <= CONNECTED; stage++)
        server_dies(stage);
    client_dies(UNREAD);
    client_dies(READ);
    client_dies(CONNECTED);
}

/* ---- fork ---- */

/* Both ends in this process, connected. */
static void connect_both(struct rdma_event_channel *c, struct rdma_event_channel *s, struct rdma_cm_id **ret_client,
                         struct rdma_cm_id **ret_server)
{
    struct rdma_cm_id *l = listen_at(s, 0);

    *ret_client = client(c, port_of(l));
    start_to_connect(*ret_client);
    *ret_server = request(s);
    make_qp(*ret_server);
    CHECK(rdma_accept(*ret_server, &(struct rdma_conn_param){.responder_resources = 1}) == 0);
    EXPECT(c, RDMA_CM_EVENT_ESTABLISHED, 0);
    EXPECT(s, RDMA_CM_EVENT_ESTABLISHED, 0);
    drop(l);
}

static int parent_of_a_child(int in, int out)
{
    struct rdma_event_channel *c = channel();
    struct rdma_cm_id *id;
    uint16_t port;
    pid_t child;

    CHECK(read(in, &port, sizeof(port)) == sizeof(port));
    id = client(c, port);
    start_to_connect(id);
    EXPECT(c, RDMA_CM_EVENT_ESTABLISHED, 0);
    child = fork();
    if (child == 0) {
        struct rdma_cm_id *other;

        CHECK(rdma_disconnect(id) == -1 && errno == EACCES);
        CHECK(rdma_create_id(c, &other, NULL, RDMA_PS_TCP) == -1 && errno == EACCES);
        CHECK(write(out, "c", 1) == 1);
        CHECK(read(in, &port, 1) == 1);
        _exit(PASS);
    }
    pause();
    return PASS;
}

static void forks(void)
{
    struct rdma_event_channel *c = channel();
    struct rdma_cm_id *l = listen_at(c, 0), *id;
    int to, from;
    pid_t pid = spawn(parent_of_a_child, &to, &from);
    uint16_t port = port_of(l);
    char said;

    CHECK(write(to, &port, sizeof(port)) == sizeof(port));
    id = request(c);
    make_qp(id);
    CHECK(rdma_accept(id, &(struct rdma_conn_param){.responder_resources = 1}) == 0);
    EXPECT(c, RDMA_CM_EVENT_ESTABLISHED, 0);
    CHECK(read(from, &said, 1) == 1);
    end(pid, SIGKILL);
    CHECK(!next(c, 200)); /* the child holds the connection */
    CHECK(write(to, "g", 1) == 1);
    EXPECT(c, RDMA_CM_EVENT_DISCONNECTED, 0);
    drop(id);
    drop(l);
}

/* ---- timers, with SOFTRDMA_CM_TIMEOUTS=0.0005 ---- */

static void waits(void)
{
    struct rdma_event_channel *c = channel(), *s = channel();
    struct rdma_cm_id *a, *b, *l;

    connect_both(c, s, &a, &b); /* a peer that does not answer a disconnect */
    CHECK(rdma_disconnect(a) == 0);
    EXPECT(s, RDMA_CM_EVENT_DISCONNECTED, 0);
    EXPECT(c, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
    EXPECT(c, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    drop(a);
    drop(b);
    l = listen_at(s, 0); /* a server that reads the request and says nothing */
    a = client(c, port_of(l));
    start_to_connect(a);
    b = request(s);
    EXPECT(c, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    drop(a);
    drop(b);
    CHECK(rdma_create_id(c, &a, NULL, RDMA_PS_TCP) == 0); /* nobody has that address */
    CHECK(rdma_resolve_addr(a, NULL, address("10.99.0.77", 1), 50) == 0);
    EXPECT(c, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    drop(a);
    drop(l);
}

/* More requests than the backlog holds: the rest is sent again until there is room. */
static void overflows(void)
{
    struct rdma_event_channel *c = channel(), *s = channel();
    struct rdma_cm_id *l = listen_at(s, 0), *a[8], *b[8];

    for (int i = 0; i < 8; i++) {
        a[i] = client(c, port_of(l));
        start_to_connect(a[i]);
    }
    for (int i = 0; i < 8; i++)
        b[i] = request(s);
    for (int i = 0; i < 8; i++) {
        drop(b[i]);
        EXPECT(c, RDMA_CM_EVENT_REJECTED, 28);
    }
    for (int i = 0; i < 8; i++)
        drop(a[i]);
    drop(l);
}

/* ---- ports ---- */

static int hold_port(int in, int out)
{
    struct rdma_cm_id *l = listen_at(channel(), 0);
    uint16_t port = port_of(l);
    char c;

    CHECK(write(out, &port, sizeof(port)) == sizeof(port) && read(in, &c, 1) == 1);
    return PASS;
}

static void ports(void)
{
    struct rdma_event_channel *c = channel();
    struct rdma_cm_id *id;
    int to, from;
    pid_t pid = spawn(hold_port, &to, &from);
    uint16_t port;

    CHECK(read(from, &port, sizeof(port)) == sizeof(port));
    CHECK(rdma_create_id(c, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, address(server, port)) == -1 && errno == EADDRINUSE);
    CHECK(rdma_bind_addr(id, address("0.0.0.0", port)) == -1 && errno == EADDRNOTAVAIL);
    end(pid, SIGKILL);
    CHECK(rdma_bind_addr(id, address(server, port)) == 0);
    drop(id);
}

/* ---- the NIC of the server goes (SOFTRDMA_FAULTS) ---- */

static void removal(void)
{
    struct rdma_event_channel *c = channel(), *s = channel(), *w = channel();
    struct rdma_cm_id *a, *b, *bound, *any;

    CHECK(rdma_create_id(w, &any, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(any, address("0.0.0.0", 0)) == 0 && rdma_listen(any, 1) == 0);
    CHECK(rdma_create_id(w, &bound, NULL, RDMA_PS_TCP) == 0 && rdma_bind_addr(bound, address("10.99.0.1", 0)) == 0);
    CHECK(rdma_create_id(c, &a, NULL, RDMA_PS_TCP) == 0);
    drop(a);
    /* both on rxe1 */
    connect_both(c, s, &a, &b);
    for (int both = 0; both < 2; both++) { /* whichever hears first has told the other */
        struct rdma_event_channel *one = both ? s : c;
        struct rdma_cm_event *e = next(one, LIMIT_MS);

        CHECK(e && (e->event == RDMA_CM_EVENT_DEVICE_REMOVAL || e->event == RDMA_CM_EVENT_DISCONNECTED));
        if (e->event == RDMA_CM_EVENT_DISCONNECTED) {
            rdma_ack_cm_event(e);
            e = next(one, LIMIT_MS);
            CHECK(e && e->event == RDMA_CM_EVENT_DEVICE_REMOVAL && e->status == 0);
        }
        rdma_ack_cm_event(e);
    }
    CHECK(!next(w, 100)); /* nothing for those that are bound to none, or to the other */
    CHECK(rdma_accept(b, NULL) == -1);
    drop(a);
    drop(b);
    CHECK(rdma_create_id(c, &a, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(a, address(server, 0)) == -1 && errno == ENODEV);
    drop(a);
    drop(any);
    drop(bound);
}

/* ---- iWARP (SOFTRDMA_DEVICES) ---- */

static void iwarp(void)
{
    struct rdma_event_channel *c = channel(), *s = channel();
    struct rdma_cm_id *l, *a, *b;
    struct rdma_cm_event *e;
    uint8_t data[251] = {1, 2, 3};
    struct rdma_conn_param p = {.private_data = data, .private_data_len = 3, .responder_resources = 1, .initiator_depth = 1};
    uint16_t port;

    server = "10.99.1.2";
    l = listen_at(s, 0);
    port = port_of(l);
    a = client(c, port);
    CHECK(rdma_connect(a, &p) == 0);
    e = next(s, LIMIT_MS);
    CHECK(e && e->event == RDMA_CM_EVENT_CONNECT_REQUEST && e->param.conn.private_data_len == 3);
    CHECK(memcmp(e->param.conn.private_data, data, 3) == 0);
    b = e->id;
    rdma_ack_cm_event(e);
    make_qp(b);
    p.private_data_len = sizeof(data);
    CHECK(rdma_accept(b, &p) == 0);
    CHECK(state_of(b->qp) == IBV_QPS_RTS);
    EXPECT(s, RDMA_CM_EVENT_ESTABLISHED, 0);
    e = next(c, LIMIT_MS);
    CHECK(e && e->event == RDMA_CM_EVENT_ESTABLISHED && e->param.conn.private_data_len == sizeof(data));
    rdma_ack_cm_event(e);
    CHECK(state_of(a->qp) == IBV_QPS_RTS);
    CHECK(rdma_disconnect(a) == 0);
    EXPECT(c, RDMA_CM_EVENT_DISCONNECTED, 0);
    EXPECT(s, RDMA_CM_EVENT_DISCONNECTED, 0);
    CHECK(rdma_disconnect(b) == 0);
    drop(a);
    drop(b);
    a = client(c, port);
    start_to_connect(a);
    b = request(s);
    CHECK(rdma_reject(b, NULL, 0) == 0);
    EXPECT(c, RDMA_CM_EVENT_REJECTED, -ECONNRESET);
    drop(a);
    drop(b);
    drop(l);
    a = client(c, port);
    CHECK(rdma_connect(a, &(struct rdma_conn_param){0}) == -1 && errno == ECONNREFUSED);
    CHECK(state_of(a->qp) == IBV_QPS_INIT && !next(c, 50));
    drop(a);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"deaths", deaths}, {"forks", forks},         {"waits", waits},
                 {"ports", ports},   {"overflows", overflows}, {"removal", removal},
                 {"iwarp", iwarp}};

    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return PASS;
        }
    }
    fprintf(stderr, "which case?\n");
    return FAIL;
}
