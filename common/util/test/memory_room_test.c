/* The room that cgroups leave, in trees of files made for the purpose. */
#include "common/util/memory_room.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (1ull << 20)

static char root[64];

/* A file of the tree, with the folders above it. */
static void put(const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *slash = strchr(name + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(name, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_tree(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/belay-room-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    put("/proc/meminfo", "MemTotal: 2097152 kB\nMemFree: 1 kB\nMemAvailable: 1048576 kB\n");
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static int remove_tree(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void expect(uint64_t bytes, const char *cgroup)
{
    struct memory_room room;
    memory_room_find(root, &room);
    assert_int_equal(room.bytes, bytes);
    assert_string_equal(room.cgroup, cgroup);
}

static void test_no_cgroups(void **state)
{
    (void)state;
    expect(1024 * MIB, "");
    put("/proc/meminfo", "");
    expect(UINT64_MAX, "");
}

/* As Slurm lays them out: the limit is the job's, above the step's, and caches can go. */
static void test_second_version(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/system.slice/job_7/step_0\n");
    put("/proc/self/mountinfo", "22 1 0:21 / /proc rw - proc proc rw\n"
                                "29 23 0:26 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    put("/cg/system.slice/job_7/step_0/memory.max", "max\n");
    put("/cg/system.slice/job_7/step_0/memory.current", "0\n");
    expect(1024 * MIB, "");
    put("/cg/system.slice/job_7/memory.max", "536870912\n");
    put("/cg/system.slice/job_7/memory.current", "419430400\n");
    expect(112 * MIB, "/system.slice/job_7");
    put("/cg/system.slice/job_7/memory.stat",
        "anon 1\ninactive_file 10485760\nactive_file 5242880\nshmem 7\n");
    expect(127 * MIB, "/system.slice/job_7");
    put("/cg/system.slice/job_7/memory.current", "999999999\n");
    expect(0, "/system.slice/job_7");
    put("/cg/system.slice/job_7/memory.max", "99999999999\n"); /* more than the machine has */
    expect(1024 * MIB, "");
}

/* The first version, in a container that sees a part of the tree only. */
static void test_first_version(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/box/a\n0::/\n");
    put("/proc/self/mountinfo", "30 23 0:30 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                                "31 23 0:31 /box /cg/memory rw - cgroup cgroup rw,memory\n"
                                "32 23 0:32 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    put("/cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/cg/memory/memory.usage_in_bytes", "1\n");
    put("/cg/memory/a/memory.limit_in_bytes", "104857600\n");
    put("/cg/memory/a/memory.usage_in_bytes", "41943040\n");
    put("/cg/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 2097152\n");
    expect(62 * MIB, "/a");
    put("/cg/memory/memory.limit_in_bytes", "4194304\n");
    expect(4 * MIB - 1, "/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_cgroups, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_second_version, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_first_version, make_tree, remove_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
