/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: libibverbs is opened and its table filled, once; what it lacks is NULL when optional and named when
 * not; the wrappers give whole port attributes and drop optional access bits, on a new library and on an old one.
 *
 * Arguments: "new", "old", "broken" or "missing", and the folder of that stub.
 */
#include "verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "check.h"

static char reason[1024];

struct library {
    void *handle;
    unsigned long (*calls)(const char *);
    void (*fail)(const char *, unsigned long, int, unsigned long);
};

static struct library the_stub(const char *folder)
{
    struct library lib;
    char path[4096];

    snprintf(path, sizeof path, "%s/libibverbs.so.1", folder);
    lib.handle = dlopen(path, RTLD_NOW);
    CHECK(lib.handle);
    *(void **)&lib.calls = dlsym(lib.handle, "stub_calls");
    *(void **)&lib.fail = dlsym(lib.handle, "stub_fail");
    CHECK(lib.calls && lib.fail);
    return lib;
}

static struct ibv_context *open_first(void)
{
    int count = -1;
    struct ibv_device **list = verbs.get_device_list(&count);
    struct ibv_context *context;

    CHECK(list && count == 3);
    context = verbs.open_device(list[0]);
    CHECK(context);
    verbs.free_device_list(list);
    return context;
}

static void port_attributes_are_whole(struct library lib, bool old)
{
    struct ibv_context *context = open_first();
    struct ibv_port_attr attr, before;

    memset(&attr, 0xff, sizeof attr);
    CHECK(verbs_query_port(context, 1, &attr) == 0);
    CHECK(attr.state == IBV_PORT_ACTIVE && attr.gid_tbl_len == 8 && attr.link_layer == IBV_LINK_LAYER_ETHERNET);
    CHECK(attr.flags == 6 && attr.phys_state == 5);
    /* The old structure ends before this field. */
    CHECK(attr.port_cap_flags2 == (old ? 0 : 0x12));
    CHECK(lib.calls("query_port_compat") == (old ? 1 : 0));
    CHECK(lib.calls("query_port") == (old ? 0 : 1));

    memset(&attr, 0xee, sizeof attr);
    before = attr;
    CHECK(verbs_query_port(context, 2, &attr) == EINVAL);
    CHECK(memcmp(&attr, &before, sizeof attr) == 0);
    lib.fail(old ? "query_port_compat" : "query_port", 1, -ENODEV, 1);
    CHECK(verbs_query_port(context, 1, &attr) == ENODEV);
    CHECK(verbs.close_device(context) == 0);
}

static void registration_drops_optional_bits(struct library lib, bool old)
{
    struct ibv_context *context = open_first();
    struct ibv_pd *pd = verbs.alloc_pd(context);
    const unsigned int access = IBV_ACCESS_LOCAL_WRITE | 1u << 20 | 1u << 29;
    struct ibv_mr *mr;

    CHECK(pd);
    mr = verbs_reg_mr(pd, 0x123456789000u, 77, access);
    CHECK(mr);
    CHECK(mr->addr == (void *)(uintptr_t)0x123456789000u && mr->length == 77);
    CHECK(lib.calls(old ? "reg_mr" : "reg_mr_iova2") == 1);
    CHECK(lib.calls(old ? "reg_mr_iova2" : "reg_mr") == 0);
    CHECK(verbs.dereg_mr(mr) == 0);
    lib.fail(old ? "reg_mr" : "reg_mr_iova2", 1, EFAULT, 1);
    errno = 0;
    CHECK(verbs_reg_mr(pd, 0x1000, 1, IBV_ACCESS_LOCAL_WRITE) == NULL);
    CHECK(verbs_last_errno() == EFAULT);
    CHECK(verbs.dealloc_pd(pd) == 0);
    CHECK(verbs.close_device(context) == 0);
}

static void one_dialect_of_errors(void)
{
    errno = ENOMEM;
    CHECK(verbs_errno(0) == 0);
    CHECK(verbs_errno(EBUSY) == EBUSY);
    CHECK(verbs_errno(-1) == ENOMEM);
    CHECK(verbs_errno(-EINVAL) == EINVAL);
    errno = 0;
    CHECK(verbs_errno(-1) == EIO);
    CHECK(verbs_last_errno() == EIO);
}

static void loads(const char *folder, bool old)
{
    struct library lib;

    CHECK(verbs_load(reason, sizeof reason) == 0);
    lib = the_stub(folder);
    CHECK(verbs.open_device && verbs.create_qp && verbs.destroy_ah);
    CHECK(!verbs.reg_mr_iova2 == old);
    CHECK(!verbs.reg_dmabuf_mr == old);
    /* Once loaded, the environment does not matter any more. */
    setenv("RDMA_LIBRARY_PATH", "/nonexistent", 1);
    CHECK(verbs_load(reason, sizeof reason) == 0);
    CHECK(strcmp(loader_since(&verbs_library, "ibv_reg_dmabuf_mr"), "34") == 0);
    CHECK(strcmp(loader_since(&verbs_library, "ibv_reg_mr_iova2"), "28") == 0);
    CHECK(strcmp(loader_since(&verbs_library, "ibv_unheard_of"), "?") == 0);
    port_attributes_are_whole(lib, old);
    registration_drops_optional_bits(lib, old);
    one_dialect_of_errors();
}

static void does_not_load(const char *folder, const char *says)
{
    static const struct verbs empty;

    for (int i = 0; i < 2; i++) {
        reason[0] = '\0';
        CHECK(verbs_load(reason, sizeof reason) == -1);
        check_says(reason, says);
        check_says(reason, folder);
        CHECK(memcmp(&verbs, &empty, sizeof empty) == 0);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 77;
    setenv("RDMA_LIBRARY_PATH", argv[2], 1);
    if (!strcmp(argv[1], "new"))
        loads(argv[2], false);
    else if (!strcmp(argv[1], "old"))
        loads(argv[2], true);
    else if (!strcmp(argv[1], "broken"))
        does_not_load(argv[2], "ibv_create_qp");
    else
        does_not_load(argv[2], "libibverbs.so.1");
    return 0;
}
