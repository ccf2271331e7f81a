/*
 * test_vk_child.c - waiting for children that a restart has not brought back. The state of the virtual kernel
 * is made here, at its address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_child.h"

enum { OWN_GROUP = 77, OTHER_GROUP = 88, FIRST = 100, SECOND, THIRD, FOURTH, KERNELS };

static char room[4096];
static size_t used;

void *vk_reserve(void *table, uint64_t count, uint64_t *capacity, uint64_t entry_bytes, uint64_t first)
{
    char *block = room + used;
    if (count < *capacity)
        return table;
    *capacity = *capacity ? 2 * *capacity : first;
    assert_true(used + *capacity * entry_bytes <= sizeof room);
    used += *capacity * entry_bytes;
    if (count)
        memcpy(block, table, count * entry_bytes);
    return block;
}

static void add(uint32_t known, uint32_t group, int status)
{
    const struct vk_child child = {
        .known = known, .group = group, .status = status, .is_gone = known != KERNELS};
    assert_true(vk_child_add(&child));
}

static int set_up(void **state)
{
    (void)state;
    void *memory =
        mmap(VK, VK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != VK)
        return -1;
    used = 0;
    VK->ids[VK_ID_GROUP] = (struct vk_id){OWN_GROUP, OWN_GROUP};
    add(KERNELS, OWN_GROUP, 0); /* made after the restart: the kernel knows it */
    add(FIRST, OWN_GROUP, W_EXITCODE(7, 0));
    add(SECOND, OTHER_GROUP, SIGKILL);
    add(THIRD, OWN_GROUP, SIGSEGV | WCOREFLAG);
    add(FOURTH, OTHER_GROUP, W_EXITCODE(0, 0));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return munmap(VK, VK_BYTES);
}

static bool waits(long id, int options, int *status, struct rusage *usage, long *result)
{
    const long args[6] = {id, (long)status, options, (long)usage, 0, 0};
    return vk_child_wait(SYS_wait4, args, result);
}

static void each_is_told_once(void **state)
{
    (void)state;
    struct rusage usage;
    int status = -1;
    long result = -1;
    memset(&usage, 0xff, sizeof usage);
    assert_false(waits(KERNELS, 0, &status, NULL, &result));
    assert_true(waits(SECOND, WNOHANG, &status, &usage, &result));
    assert_int_equal(result, SECOND);
    assert_int_equal(status, SIGKILL);
    assert_int_equal(usage.ru_maxrss, 0);
    assert_int_equal(usage.ru_nivcsw, 0);
    assert_false(waits(SECOND, 0, &status, NULL, &result));
    assert_true(waits(FIRST, 0, NULL, NULL, &result));
    assert_int_equal(result, FIRST);
    for (int left = 2; left > 0; left--)
        assert_true(waits(-1, 0, &status, NULL, &result));
    assert_false(waits(-1, 0, &status, NULL, &result));
}

static void groups_are_kept_apart(void **state)
{
    (void)state;
    int status;
    long result;
    assert_false(waits(-99, 0, &status, NULL, &result));
    assert_true(waits(-OTHER_GROUP, 0, &status, NULL, &result) && result == SECOND);
    assert_true(waits(0, 0, &status, NULL, &result) && result == FIRST);
    assert_true(waits(0, 0, &status, NULL, &result) && result == THIRD);
    assert_false(waits(0, 0, &status, NULL, &result));
}

static void what_is_not_meant_is_left_to_the_kernel(void **state)
{
    (void)state;
    int status;
    long result;
    assert_false(waits(FIRST, __WCLONE, &status, NULL, &result)); /* they have sent SIGCHLD */
    assert_false(waits(FIRST, 1 << 20, &status, NULL, &result));
    assert_false(waits(INT32_MIN, 0, &status, NULL, &result));
    assert_true(waits(FIRST, __WALL | __WCLONE, &status, NULL, &result));
    vk_child_forget(THIRD); /* a new child has its id */
    assert_false(waits(THIRD, 0, &status, NULL, &result));
}

static bool waits_by_id(idtype_t type, id_t id, siginfo_t *info, int options)
{
    long result = -1;
    const long args[6] = {(long)type, (long)id, (long)info, options, 0, 0};
    return vk_child_wait(SYS_waitid, args, &result) && result == 0;
}

static void waitid_tells_how_it_ended(void **state)
{
    (void)state;
    siginfo_t info = {.si_errno = -1};
    assert_false(waits_by_id(P_PID, FIRST, &info, WSTOPPED));
    assert_false(waits_by_id(P_PIDFD, FIRST, &info, WEXITED));
    assert_true(waits_by_id(P_PID, FIRST, &info, WEXITED | WNOWAIT));
    assert_true(waits_by_id(P_PID, FIRST, &info, WEXITED));
    assert_false(waits_by_id(P_PID, FIRST, &info, WEXITED));
    assert_int_equal(info.si_signo, SIGCHLD);
    assert_int_equal(info.si_errno, 0);
    assert_int_equal(info.si_code, CLD_EXITED);
    assert_int_equal(info.si_pid, FIRST);
    assert_int_equal(info.si_status, 7);
    assert_true(waits_by_id(P_PGID, OTHER_GROUP, &info, WEXITED | WNOHANG));
    assert_int_equal(info.si_code, CLD_KILLED);
    assert_int_equal(info.si_status, SIGKILL);
    assert_true(waits_by_id(P_ALL, 0, &info, WEXITED));
    assert_int_equal(info.si_code, CLD_DUMPED);
    assert_int_equal(info.si_status, SIGSEGV);
}

static void only_some_waits_block(void **state)
{
    (void)state;
    assert_true(vk_child_is_blocking(SYS_wait4, 0, WNOHANG));
    assert_false(vk_child_is_blocking(SYS_wait4, WNOHANG, 0));
    assert_true(vk_child_is_blocking(SYS_waitid, WNOHANG, WEXITED));
    assert_false(vk_child_is_blocking(SYS_waitid, 0, WEXITED | WNOHANG));
    assert_false(vk_child_is_blocking(SYS_read, 0, 0));
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(each_is_told_once),
        UNIT(groups_are_kept_apart),
        UNIT(what_is_not_meant_is_left_to_the_kernel),
        UNIT(waitid_tells_how_it_ended),
        UNIT(only_some_waits_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
