/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: the loader opens a library from RDMA_LIBRARY_PATH or by its soname, fills a table, leaves NULL for
 * optional functions that are missing, and says in words what is wrong otherwise.
 *
 * Arguments: the folder of the stub libibverbs.
 */
#include "check.h"
#include "loader.h"

struct numbers {
    const char *(*version)(void);
    void (*nothing)(void);
    int (*last)(void);
};

static const char *folder;
static char reason[1024];

static void *open_stub(void)
{
    void *handle;

    setenv("RDMA_LIBRARY_PATH", folder, 1);
    handle = loader_open("libibverbs.so.1", LOADER_RDMA_PATH, reason, sizeof reason);
    if (!handle)
        fprintf(stderr, "%s\n", reason);
    CHECK(handle);
    return handle;
}

static void opens_from_the_folder_of_the_environment(void)
{
    void *handle = open_stub();

    check_says(loader_path(handle), folder);
    check_says(loader_path(handle), "libibverbs.so.1");
    CHECK(open_stub() == handle);
}

static void fills_a_table(void)
{
    static const struct loader_symbol symbols[] = {
        {"stub_version", offsetof(struct numbers, version), true, "13"},
        {"stub_no_such_function", offsetof(struct numbers, nothing), false, "99"},
        {"stub_fault_pending", offsetof(struct numbers, last), true, "13"},
    };
    struct numbers table;

    memset(&table, 0xff, sizeof table);
    CHECK(loader_bind(open_stub(), &table, symbols, 3, reason, sizeof reason) == 0);
    CHECK(strcmp(table.version(), "stub") == 0);
    CHECK(table.nothing == NULL);
    CHECK(table.last() == 0);
}

static void names_the_required_function_that_is_missing(void)
{
    static const struct loader_symbol symbols[] = {
        {"stub_no_such_function", 0, true, "41"},
    };
    void *table[1];

    CHECK(loader_bind(open_stub(), table, symbols, 1, reason, sizeof reason) == -1);
    check_says(reason, "stub_no_such_function");
    check_says(reason, folder);
    check_says(reason, "41");
}

static void names_the_library_and_the_folder_that_lacks_it(void)
{
    setenv("RDMA_LIBRARY_PATH", "/nonexistent/place", 1);
    CHECK(loader_open("libibverbs.so.1", LOADER_RDMA_PATH, reason, sizeof reason) == NULL);
    check_says(reason, "libibverbs.so.1");
    check_says(reason, "/nonexistent/place");
    check_says(reason, "RDMA_LIBRARY_PATH");
}

static void an_empty_variable_is_no_variable(void)
{
    void *handle;

    setenv("RDMA_LIBRARY_PATH", "", 1);
    handle = loader_open("libc.so.6", LOADER_RDMA_PATH, reason, sizeof reason);
    if (handle)
        check_says(loader_path(handle), "libc.so.6");
    else /* another C library: then the reason is about the soname, not about a folder */
        check_says(reason, "libc.so.6");
}

static void names_the_library_that_the_search_path_lacks(void)
{
    unsetenv("RDMA_LIBRARY_PATH");
    CHECK(loader_open("libno-such-library.so.7", LOADER_RDMA_PATH, reason, sizeof reason) == NULL);
    check_says(reason, "libno-such-library.so.7");
    CHECK(!strstr(reason, "RDMA_LIBRARY_PATH"));
}

static void a_path_that_is_too_long_is_refused(void)
{
    char *path = malloc(20000);

    memset(path, 'a', 19999);
    path[0] = '/';
    path[19999] = '\0';
    setenv("RDMA_LIBRARY_PATH", path, 1);
    CHECK(loader_open("libibverbs.so.1", LOADER_RDMA_PATH, reason, sizeof reason) == NULL);
    check_says(reason, "RDMA_LIBRARY_PATH");
    free(path);
}

static void a_reason_fits_its_room(void)
{
    char small[16];

    memset(small, 'x', sizeof small);
    setenv("RDMA_LIBRARY_PATH", "/nonexistent/place", 1);
    CHECK(loader_open("libibverbs.so.1", LOADER_RDMA_PATH, small, 8) == NULL);
    CHECK(strlen(small) == 7);
    CHECK(small[8] == 'x');
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 77;
    folder = argv[1];
    opens_from_the_folder_of_the_environment();
    fills_a_table();
    names_the_required_function_that_is_missing();
    names_the_library_and_the_folder_that_lacks_it();
    an_empty_variable_is_no_variable();
    names_the_library_that_the_search_path_lacks();
    a_path_that_is_too_long_is_refused();
    a_reason_fits_its_room();
    return 0;
}
