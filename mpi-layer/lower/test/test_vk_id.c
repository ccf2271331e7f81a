/*
 * test_vk_id.c - ids that the application knows and those of the kernel, both ways, and paths below /proc by
 * them. The state of the virtual kernel is made here, at its address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_task.h"
#include "mpi-layer/lower/vk_tid.h"
#include "mpi-layer/lower/vk_width.h"

enum { SELF = 1000001, PARENT, SESSION, THREAD, THREAD_NOW, PEER, PEER_NOW, TWICE, NOBODY };

static struct thread threads[2];
static struct vk_id room[8];
static bool is_own = true;
static char said[256];
static uint64_t number_said;

bool vk_is_own_process(void)
{
    return is_own;
}

void *vk_alloc(uint64_t bytes)
{
    return bytes <= sizeof room ? room : NULL;
}

bool vk_is_pointer(long address)
{
    return address != 0;
}

void vk_say_number(const char *before, uint64_t number)
{
    strcat(said, before);
    number_said = number;
}

long vk_own_signal_send(long pid, long tid)
{
    return pid + tid;
}

struct thread *vk_thread_by_vtid(uint32_t vtid)
{
    for (struct thread *t = VK->threads; t; t = t->next)
        if (t->vtid == vtid)
            return t;
    return NULL;
}

/* As after a restart: this process was SELF, its parent PARENT, and it led its group. */
static int start(void **state)
{
    (void)state;
    const struct vk_id peers[] = {{PEER, PEER_NOW}, {TWICE, 11}, {TWICE, 12}, {SELF, (uint32_t)getpid()}};
    if (mmap((void *)VK_ADDRESS, VK_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)VK_ADDRESS)
        return -1;
    VK->pid = VK->rank_pid = (uint32_t)getpid();
    VK->threads = threads;
    threads[0] = (struct thread){.tid = VK->pid, .vtid = SELF, .life = THREAD_LIVE, .next = &threads[1]};
    threads[1] = (struct thread){.tid = THREAD_NOW, .vtid = THREAD, .life = THREAD_LIVE};
    VK->ids[VK_ID_SELF] = (struct vk_id){SELF, SELF};
    VK->ids[VK_ID_PARENT] = (struct vk_id){PARENT, PARENT};
    VK->ids[VK_ID_GROUP] = (struct vk_id){SELF, SELF};
    VK->ids[VK_ID_SESSION] = (struct vk_id){SESSION, SESSION};
    vk_ids_renew();
    return vk_ids_set_peers(peers, 4) ? 0 : -1;
}

static void test_both_ways(void **state)
{
    (void)state;
    const long known[] = {SELF, PARENT, SESSION, PEER}, now[] = {getpid(), getppid(), getsid(0), PEER_NOW};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(vk_id_kernel(known[i]), now[i]);
        assert_int_equal(vk_id_kernel_signed(-known[i]), -now[i]);
    }
    assert_int_equal(vk_id_known(getpid()), SELF);
    assert_int_equal(vk_id_known(getppid()), PARENT);
    assert_int_equal(vk_id_known(PEER_NOW), PEER);
    assert_int_equal(vk_id_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0), SELF);
    assert_int_equal(vk_id_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0), PARENT);
    assert_int_equal(vk_id_syscall(SYS_getpgid, SELF, 0, 0, 0, 0, 0),
                     getpgid(0) == getpid() ? SELF : getpgid(0));
}

static void test_others_stay(void **state)
{
    (void)state;
    const long ids[] = {NOBODY, TWICE, 0, -1};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(vk_id_kernel(ids[i]), ids[i]);
        assert_int_equal(vk_id_kernel_signed(ids[i]), ids[i]);
    }
    assert_int_equal(vk_id_known_signed(-3), -3); /* an error is no group */
}

static void test_threads(void **state)
{
    (void)state;
    assert_int_equal(vk_kernel_tid(THREAD), THREAD_NOW);
    assert_int_equal(vk_kernel_tid(PEER), PEER_NOW);
    assert_int_equal(vk_known_tid(THREAD_NOW), THREAD);
    assert_int_equal(vk_tgkill_tid(getpid(), THREAD), THREAD_NOW);
    assert_int_equal(vk_tgkill_tid(PEER_NOW, PEER), PEER_NOW);
}

static void assert_path(const char *path, const char *format, long id)
{
    char expected[VK_TASK_PATH_BYTES], found[VK_TASK_PATH_BYTES];
    snprintf(expected, sizeof expected, format, id);
    assert_true(vk_task_path(path, found));
    assert_string_equal(found, expected);
}

static void test_paths(void **state)
{
    (void)state;
    char found[VK_TASK_PATH_BYTES], longest[400];
    assert_path("/proc/1000001", "/proc/%ld", getpid());
    assert_path("/proc/1000001/fd/3", "/proc/%ld/fd/3", getpid());
    assert_path("/proc/1000001/task", "/proc/%ld/task", getpid());
    assert_path("/proc/1000001/task/1000004/comm", "/proc/self/task/%ld/comm", THREAD_NOW);
    assert_path("/proc/self/task/1000004", "/proc/self/task/%ld", THREAD_NOW);
    assert_path("/proc/1000004/comm", "/proc/%ld/comm", THREAD_NOW);
    assert_path("/proc/1000006/maps", "/proc/%ld/maps", PEER_NOW);
    assert_false(vk_task_path("/proc/1000009/maps", found));
    assert_false(vk_task_path("/proc/1000001x", found));
    assert_false(vk_task_path("/proc/self/maps", found));
    assert_false(vk_task_path("/proc/", found));
    assert_false(vk_task_path("1000001", found));
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "/proc/1000001/", 14);
    longest[sizeof longest - 1] = 0;
    assert_false(vk_task_path(longest, found));
    is_own = false; /* a vfork()ed child has no threads of its own */
    assert_path("/proc/1000001/fd", "/proc/%ld/fd", getpid());
    assert_false(vk_task_path("/proc/self/task/1000004", found));
    is_own = true;
}

static void test_senders(void **state)
{
    (void)state;
    int by_kill[32] = {10, 0, 0, 0, PEER_NOW}, by_timer[32] = {10, 0, -2, 0, PEER_NOW};
    vk_id_rename_sender(by_kill);
    vk_id_rename_sender(by_timer);
    assert_int_equal(by_kill[4], PEER);
    assert_int_equal(by_timer[4], PEER_NOW);
    vk_id_rename_sender_back(by_kill);
    vk_id_rename_sender_back(by_timer);
    assert_int_equal(by_kill[4], PEER_NOW);
    assert_int_equal(by_timer[4], PEER_NOW);
}

static void test_arguments_of_others(void **state)
{
    (void)state;
    char *const other[] = {"ps", "-p", "10000010", "x1000002", NULL}, *const own[] = {
                                                                          "sh", "ls /proc/1000001/fd", NULL};
    vk_id_look_for_own(other);
    assert_int_equal(said[0], 0);
    vk_id_look_for_own(own);
    vk_id_look_for_own(own); /* once */
    assert_non_null(strstr(said, "its process id"));
    assert_null(strstr(strstr(said, "its process id") + 1, "its process id"));
    assert_int_equal(number_said, getpid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways), cmocka_unit_test(test_others_stay),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_paths),
        cmocka_unit_test(test_senders),   cmocka_unit_test(test_arguments_of_others),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
