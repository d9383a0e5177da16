/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: whatever RDMA_LIBRARY_PATH and the name of a library hold, and however little room there is for the
 * reason: nothing is opened, and the reason is a text that ends within its room.
 */
#include "loader.h"

#include "input.h"

#define VARIABLE "RDMA_LIBRARY_PATH="

enum { LONGEST = 6000, ROOM = 512 };

/* A text of the bytes that the input has, made longer by repeating it. */
static void take_text(struct input *in, char *ret, size_t longest)
{
    size_t length = take8(in), times = 1 + take8(in) % 40, used = 0;
    char piece[256];

    take(in, piece, length);
    for (size_t i = 0; i < length; i++)
        piece[i] = piece[i] ? piece[i] : '/';
    while (times-- && used + length < longest) {
        memcpy(ret + used, piece, length);
        used += length;
    }
    ret[used] = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* the environment holds this very text: setenv would keep a copy of each there ever was */
    static char variable[sizeof VARIABLE + LONGEST] = VARIABLE, *directory = variable + sizeof VARIABLE - 1;
    static char name[LONGEST + 16];
    struct input in = {data, size};
    size_t room = 1 + take16(&in) % ROOM;
    char *reason = malloc(room); /* of just that size: the sanitizer sees the byte beyond */

    take_text(&in, directory, LONGEST);
    take_text(&in, name, LONGEST);
    strcat(name, ".no-such");
    CHECK(putenv(variable) == 0);
    memset(reason, 0xa5, room);
    CHECK(loader_open(name, LOADER_RDMA_PATH, reason, room) == NULL);
    CHECK(memchr(reason, 0, room));
    free(reason);
    return 0;
}
