/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of libefa, and what its layouts must be. See efadv.h. */
#include "efadv.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- layouts: ABI, as the library lays them out on 64-bit machines -------------------------------------------------- */

#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), "size of " #type)
#define AT(type, member, at) _Static_assert(offsetof(struct type, member) == (at), #type "." #member)

SIZE(dv_device_attr, 32);
AT(dv_device_attr, max_sq_wr, 8);
AT(dv_device_attr, max_rq_wr, 12);
AT(dv_device_attr, max_sq_sge, 16);
AT(dv_device_attr, max_rq_sge, 18);
AT(dv_device_attr, inline_buf_size, 20);
AT(dv_device_attr, inline_buf_size_ex, 22);
AT(dv_device_attr, device_caps, 24);
AT(dv_device_attr, max_rdma_size, 28);
SIZE(dv_ah_attr, 16);
AT(dv_ah_attr, ahn, 8);
SIZE(dv_mr_attr, 16);
AT(dv_mr_attr, ic_id_validity, 8);
AT(dv_mr_attr, recv_ic_id, 10);
AT(dv_mr_attr, rdma_read_ic_id, 12);
AT(dv_mr_attr, rdma_recv_ic_id, 14);
SIZE(dv_cq_attr, 32);
AT(dv_cq_attr, buffer, 8);
AT(dv_cq_attr, entry_size, 16);
AT(dv_cq_attr, num_entries, 20);
AT(dv_cq_attr, doorbell, 24);
SIZE(dv_wq_attr, 40);
AT(dv_wq_attr, buffer, 8);
AT(dv_wq_attr, entry_size, 16);
AT(dv_wq_attr, num_entries, 20);
AT(dv_wq_attr, doorbell, 24);
AT(dv_wq_attr, max_batch, 32);
AT(dv_wq_attr, caps, 36);
SIZE(dv_sq_depth_attr, 24);
AT(dv_sq_depth_attr, flags, 8);
AT(dv_sq_depth_attr, max_send_sge, 12);
AT(dv_sq_depth_attr, max_rdma_sge, 16);
AT(dv_sq_depth_attr, max_inline_data, 20);
SIZE(dv_rq_depth_attr, 16);
AT(dv_rq_depth_attr, max_recv_sge, 8);
SIZE(dv_qp_init_attr, 24);
AT(dv_qp_init_attr, driver_qp_type, 8);
AT(dv_qp_init_attr, flags, 12);
AT(dv_qp_init_attr, sl, 14);
AT(dv_qp_init_attr, wr_flags, 16);
SIZE(dv_cq_init_attr, 56);
AT(dv_cq_init_attr, wc_flags, 8);
AT(dv_cq_init_attr, flags, 16);
AT(dv_cq_init_attr, ext_mem_dmabuf.buffer, 24);
AT(dv_cq_init_attr, ext_mem_dmabuf.length, 32);
AT(dv_cq_init_attr, ext_mem_dmabuf.offset, 40);
AT(dv_cq_init_attr, ext_mem_dmabuf.fd, 48);
SIZE(dv_memory_location, 32);
AT(dv_memory_location, dmabuf.offset, 8);
AT(dv_memory_location, dmabuf.fd, 16);
AT(dv_memory_location, type, 24);
SIZE(dv_comp_cntr_init_attr, 80);
AT(dv_comp_cntr_init_attr, flags, 8);
AT(dv_comp_cntr_init_attr, comp_cntr_ext_mem, 16);
AT(dv_comp_cntr_init_attr, err_cntr_ext_mem, 48);
SIZE(dv_cq, 24);
AT(dv_cq, wc_read_sgid, 8);
AT(dv_cq, wc_is_unsolicited, 16);
SIZE(dv_qp, 16);
AT(dv_qp, wr_set_processing_hints, 8);
SIZE(dv_comp_cntr, 16);
AT(dv_comp_cntr, handle, 8);
SIZE(dv_comp_cntr_attr, 12);
SIZE(dv_attach_comp_cntr_attr, 8);

/* ---- the table ------------------------------------------------------------------------------------------------------ */

struct efadv efadv;
struct efadv_release efadv_release;

static const struct loader_symbol symbols[] = {
#define REQUIRED(name, since, type, parameters) {"efadv_" #name, offsetof(struct efadv, name), true, since},
#define OPTIONAL(name, since, type, parameters) {"efadv_" #name, offsetof(struct efadv, name), false, since},
    EFADV_SYMBOLS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
};

struct loader_library efadv_library = LOADER_LIBRARY("libefa.so.1", LOADER_RDMA_PATH, symbols, &efadv);

static const struct loader_symbol counter_symbols[] = {
#define OPTIONAL(name, since, type, parameters) {"ibv_" #name, offsetof(struct efadv, name), false, since},
    COMP_CNTR_SYMBOLS(OPTIONAL)
#undef OPTIONAL
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* libefa.so.1.2.44.0 is of rdma-core 44.0: two numbers of the interface, then two of the release. */
static void find_release(void)
{
    struct efadv_release *release = &efadv_release;
    char real[PATH_MAX];
    const char *name;
    unsigned minor;

    snprintf(release->path, sizeof release->path, "%s", loader_path(efadv_library.handle));
    if (!realpath(release->path, real))
        snprintf(real, sizeof real, "%s", release->path);
    name = strrchr(real, '/');
    if (sscanf(name ? name + 1 : real, "libefa.so.1.%*u.%u.%u", &release->release, &minor) != 2)
        release->release = minor = 0;

    release->skips_stale = efadv.query_cq != NULL;
    release->cuts_receives = !efadv.query_cq && release->release < 57 && !(release->release == 56 && minor >= 1);
}

int efadv_load(char *reason, size_t reason_size)
{
    static struct loader_library counters =
        LOADER_LIBRARY("libibverbs.so.1", LOADER_RDMA_PATH, counter_symbols, &efadv);

    if (loader_load(&counters, reason, reason_size) < 0 || loader_load(&efadv_library, reason, reason_size) < 0)
        return -1;
    find_release();
    return 0;
}

static bool is_present(const struct loader_symbol *symbol)
{
    void *function;

    memcpy(&function, (const char *)&efadv + symbol->offset, sizeof function);
    return function != NULL;
}

int efadv_is_of(unsigned release)
{
    if (efadv_release.release)
        return efadv_release.release >= release;
    for (size_t i = 0; i < COUNT(symbols); i++) {
        unsigned since = (unsigned)strtoul(symbols[i].since, NULL, 10);

        if (is_present(&symbols[i]) ? since >= release : since <= release)
            return is_present(&symbols[i]);
    }
    return -1;
}

int efadv_each(int (*each)(void *arg, const char *name, const char *since, bool present), void *arg)
{
    int stop = 0;

    for (size_t i = 0; i < COUNT(symbols) && !stop; i++)
        stop = each(arg, symbols[i].name, symbols[i].since, is_present(&symbols[i]));
    for (size_t i = 0; i < COUNT(counter_symbols) && !stop; i++)
        stop = each(arg, counter_symbols[i].name, counter_symbols[i].since, is_present(&counter_symbols[i]));
    return stop;
}
