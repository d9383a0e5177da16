/* SPDX-License-Identifier: BSD-3-Clause */
/* Description: garbage written to /dev/infiniband/rdma_cm, near enough to commands that many are taken, from two
 * processes at once that meet each other; the host lives, and serves a connection manager's first steps afterwards. */
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include "pair.h"

#define FILES 3
#define IDS 20
#define NOWHERE (-1)

/* Where in each command the fields are that decide whether anything happens; the header not counted. */
static const struct layout {
    int response, id, address, address_size, param;
} layouts[] = {
    [RDMA_USER_CM_CMD_CREATE_ID] = {8, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_DESTROY_ID] = {0, 8, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_BIND_IP] = {NOWHERE, 36, 8, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_RESOLVE_IP] = {NOWHERE, 56, 28, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_QUERY_ROUTE] = {0, 8, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_CONNECT] = {NOWHERE, 272, NOWHERE, NOWHERE, 0},
    [RDMA_USER_CM_CMD_LISTEN] = {NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_ACCEPT] = {NOWHERE, 280, NOWHERE, NOWHERE, 8},
    [RDMA_USER_CM_CMD_REJECT] = {NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_DISCONNECT] = {NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_INIT_QP_ATTR] = {0, 8, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_GET_EVENT] = {0, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_GET_OPTION] = {NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_SET_OPTION] = {0, 8, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_NOTIFY] = {NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {0, 44, 16, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_LEAVE_MCAST] = {0, 8, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_MIGRATE_ID] = {0, 8, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_QUERY] = {0, 8, NOWHERE, NOWHERE, NOWHERE},
    [RDMA_USER_CM_CMD_BIND] = {NOWHERE, 0, 8, 4, NOWHERE},
    [RDMA_USER_CM_CMD_RESOLVE_ADDR] = {NOWHERE, 0, 144, 10, NOWHERE},
    [RDMA_USER_CM_CMD_JOIN_MCAST] = {0, 16, 24, 20, NOWHERE},
};

static const uint16_t spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_IB};
static uint8_t answer[8192];
static int files[FILES];

static void put(uint8_t *in, int at, const void *value, size_t size)
{
    if (at != NOWHERE)
        memcpy(in + at, value, size);
}

/* One command, with its header; some of it is not random. */
static void make(uint8_t *buf)
{
    uint32_t command = (uint32_t)rand() % (sizeof(layouts) / sizeof(layouts[0]) + 1);
    const struct layout *l = &layouts[command % (sizeof(layouts) / sizeof(layouts[0]))];
    struct rdma_ucm_cmd_hdr head = {command, (uint16_t)(rand() % 4 ? 304 : rand() % 590),
                                    (uint16_t)(rand() % 3 ? 440 : rand() % 500)};
    uint64_t response = rand() % 8 ? (uintptr_t)answer : (uintptr_t)rand();
    uint32_t id = (uint32_t)rand() % IDS;
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)(rand() % 3 ? 7000 + rand() % 3 : 0)),
                            .sin_addr.s_addr = htonl(rand() % 4 ? 0x0a630001u + (uint32_t)rand() % 3 : 0xef010203u)};
    uint8_t *in = buf + sizeof(head);

    for (int i = 0; i < 600; i++)
        buf[i] = rand() % 3 ? 0 : (uint8_t)rand();
    memcpy(buf, &head, sizeof(head));
    put(in, l->response, &response, sizeof(response));
    put(in, l->id, &id, sizeof(id));
    put(in, l->address, &a, sizeof(a));
    put(in, l->address_size, &(uint16_t){sizeof(a)}, sizeof(uint16_t));
    if (command == RDMA_USER_CM_CMD_CREATE_ID)
        put(in, 16, &spaces[rand() % 4], sizeof(spaces[0]));
    if (command == RDMA_USER_CM_CMD_MIGRATE_ID)
        put(in, 12, &files[rand() % FILES], sizeof(files[0]));
    if (command == RDMA_USER_CM_CMD_RESOLVE_ADDR)
        memset(in + 8, 0, 2); /* no source */
    if (command == RDMA_USER_CM_CMD_BIND)
        memset(in + 6, 0, 2);
    if (l->param != NOWHERE) {
        in[l->param + 264] %= 60;
        in[l->param + 271] = (uint8_t)rand() & 1;
    }
}

static int open_file(void)
{
    int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

static void throw_garbage(double seconds)
{
    double end = now_s() + seconds;
    long taken = 0, all = 0;

    for (int i = 0; i < FILES; i++)
        files[i] = open_file();
    for (; now_s() < end; all++) {
        int k = rand() % FILES;
        uint8_t buf[600];

        make(buf);
        if (write(files[k], buf, rand() % 9 ? sizeof(buf) : (size_t)rand() % sizeof(buf)) > 0)
            taken++;
        if (rand() % 5000 == 0) {
            CHECK(close(files[k]) == 0);
            files[k] = open_file();
        }
    }
    CHECK(taken > all / 50);
}

static void check_service(void)
{
    struct {
        struct rdma_ucm_cmd_hdr head;
        struct rdma_ucm_create_id in;
    } c = {{RDMA_USER_CM_CMD_CREATE_ID, sizeof(c.in), 4}, {.uid = 1, .response = (uintptr_t)answer, .ps = RDMA_PS_TCP}};

    CHECK(write(open_file(), &c, sizeof(c)) == sizeof(c));
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)getpid();
    int status;
    pid_t child = fork();

    printf("seed %u\n", seed);
    srand(child ? seed : seed + 1);
    throw_garbage(seconds);
    check_service();
    if (!child)
        _exit(PASS);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return PASS;
}
