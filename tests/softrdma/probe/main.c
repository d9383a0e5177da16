/* SPDX-License-Identifier: BSD-3-Clause */
/* probe [-g GID_INDEX] [-d PREFIX] [TOPIC...]: asks all topics, or those named, between the first two devices
 * whose names begin with PREFIX (rxe). */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct topic {
    const char *name;
    void (*ask)(void);
} topics[] = {
    {"limits", ask_limits},       {"memory", ask_memory},   {"refusals", ask_refusals},
    {"states", ask_states},       {"rc", ask_rc},           {"faults", ask_faults},
    {"retry", ask_retry},         {"uc", ask_uc},           {"ud", ask_ud},
    {"multicast", ask_multicast}, {"srq", ask_srq},         {"events", ask_events},
    {"windows", ask_windows},     {"atomics", ask_atomics}, {"extended", ask_extended},
    {"fork", ask_fork},
};

static void open_devices(const char *names)
{
    int count = 0, found = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; list && i < count && found < 2; i++) {
        const char *name = ibv_get_device_name(list[i]);
        if (strncmp(name, names, strlen(names)))
            continue;
        contexts[found] = ibv_open_device(list[i]);
        if (!contexts[found]) {
            fprintf(stderr, "probe: cannot open %s: %s\n", name, strerror(errno));
            exit(2);
        }
        pds[found] = ibv_alloc_pd(contexts[found]);
        fcntl(contexts[found]->async_fd, F_SETFL, O_NONBLOCK);
        found++;
    }
    if (found < 2) {
        fprintf(stderr, "probe: two devices named %s* are needed, %d of %d fit\n", names, found, count);
        exit(2);
    }
    ibv_free_device_list(list);
}

int main(int argc, char **argv)
{
    const char *names = "rxe";
    for (int c; (c = getopt(argc, argv, "g:d:")) != -1;) {
        if (c == 'g')
            gid_index = atoi(optarg);
        else if (c == 'd')
            names = optarg;
        else
            return 2;
    }
    open_devices(names);
    for (size_t i = 0; i < sizeof(topics) / sizeof(*topics); i++) {
        bool wanted = optind == argc;
        for (int k = optind; k < argc; k++)
            wanted |= !strcmp(argv[k], topics[i].name);
        if (wanted)
            topics[i].ask();
    }
    fact("probe", "end of the questions", "reached");
    return 0;
}
