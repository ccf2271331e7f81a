/* keeper_test.c - the keeper holds descriptors, outlives its agent, and leaves when it is not needed. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/descriptor.h"
#include "common/wire/fence.h"
#include "node-agent/store/keeper.h"

static char base[64], rundir[80], program[PATH_MAX];

static int setup(void **state)
{
    (void)state;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    strcpy(strrchr(program, '/'), "/belay-keeper");
    strcpy(base, "/tmp/belay-keeper-XXXXXX");
    assert_non_null(mkdtemp(base));
    snprintf(rundir, sizeof rundir, "%s/run", base);
    return mkdir(rundir, 0700);
}

static int teardown(void **state)
{
    (void)state;
    while (waitpid(-1, NULL, 0) > 0)
        continue;       /* keepers that we started: the next test finds its own by being the only child */
    return rmdir(base); /* the keeper has removed its own things */
}

static struct keeper *open_keeper(void)
{
    struct belay_error err = {0};
    struct keeper *keeper = keeper_open(rundir, program, &err);
    if (!keeper)
        fail_msg("%s", err.text);
    return keeper;
}

static int make_memfd(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    return fd;
}

/* A list as text: NAME=CONTENT,... */
static void note(void *context, const char *name, int fd)
{
    char *text = context, content[32] = "";
    assert_true(pread(fd, content, sizeof content - 1, 0) >= 0);
    close(fd);
    sprintf(text + strlen(text), "%s=%s,", name, content);
}

static void check_list(struct keeper *keeper, const char *expected)
{
    char text[512] = "";
    assert_int_equal(keeper_list(keeper, note, text, NULL), 0);
    assert_string_equal(text, expected);
}

/* The keeper is our only child. */
static pid_t pid_of_keeper(void)
{
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    return pid;
}

static void test_put_list_drop(void **state)
{
    (void)state;
    struct keeper *keeper = open_keeper();
    int one = make_memfd("one"), two = make_memfd("two");
    check_list(keeper, "");
    assert_int_equal(keeper_put(keeper, "job/image/1/0", one, NULL), 0);
    check_list(keeper, "job/image/1/0=one,");
    assert_int_equal(keeper_put(keeper, "job/image/1/0", two, NULL), 0); /* replaced */
    assert_int_equal(keeper_put(keeper, "job/commits", one, NULL), 0);
    check_list(keeper, "job/commits=one,job/image/1/0=two,");
    assert_int_equal(keeper_drop(keeper, "job/image/1/0", NULL), 0);
    assert_int_equal(keeper_drop(keeper, "never/there", NULL), 0);
    check_list(keeper, "job/commits=one,");
    assert_int_equal(keeper_drop(keeper, "job/commits", NULL), 0);
    keeper_close(keeper);
    close(one);
    close(two);
    assert_int_equal(access(rundir, F_OK), -1); /* it held nothing: gone, with its files */
}

static void test_survives_the_agent(void **state)
{
    (void)state;
    pid_t agent = fork();
    if (agent == 0) {
        struct keeper *keeper = open_keeper();
        int fd = make_memfd("image");
        keeper_put(keeper, "job/image/1/0", fd, NULL);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(agent, NULL, 0), agent);
    struct keeper *keeper = open_keeper();
    check_list(keeper, "job/image/1/0=image,");
    assert_int_equal(keeper_drop(keeper, "job/image/1/0", NULL), 0);
    keeper_close(keeper);
    assert_int_equal(access(rundir, F_OK), -1);
}

static void test_killed_keeper_is_replaced(void **state)
{
    (void)state;
    struct keeper *keeper = open_keeper();
    int one = make_memfd("one"), two = make_memfd("two");
    assert_int_equal(keeper_put(keeper, "a", one, NULL), 0);
    pid_t pid = pid_of_keeper();
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid); /* it is our child */
    assert_int_equal(keeper_put(keeper, "b", two, NULL), 0);
    check_list(keeper, "b=two,a=one,");
    assert_int_equal(keeper_drop(keeper, "a", NULL), 0);
    assert_int_equal(keeper_drop(keeper, "b", NULL), 0);
    keeper_close(keeper);
    close(one);
    close(two);
}

/* Without memory to start it, for instance, or killed when it held nothing. */
static void test_dead_keepers_leave_no_name(void **state)
{
    struct belay_error err = {0};
    (void)state;
    assert_null(keeper_open(rundir, "/none/belay-keeper", &err));
    struct keeper *keeper = open_keeper();
    pid_t pid = pid_of_keeper();
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    keeper_close(keeper);
    assert_int_equal(rmdir(rundir), 0); /* it is empty */
}

static void test_retention_ends(void **state)
{
    (void)state;
    struct keeper *keeper = open_keeper();
    int fd = make_memfd("image");
    assert_int_equal(keeper_put(keeper, "a", fd, NULL), 0);
    assert_int_equal(keeper_retain(keeper, 20, NULL), 0);
    pid_t pid = pid_of_keeper();
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    keeper_detach(keeper);
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&gone, 1, 10000), 1);
    close(pidfd);
    close(fd);
    keeper_close(keeper);
    assert_int_equal(access(rundir, F_OK), -1);
}

/* A process that only a signal ends, and its pidfd. */
static pid_t make_process(int *pidfd)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    *pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(*pidfd >= 0);
    return pid;
}

static bool is_gone(int pidfd, int timeout_ms)
{
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    return poll(&gone, 1, timeout_ms) == 1;
}

/* Of the job whose lease is over, and of no other; also if they stand still, and without an agent. */
static void test_ranks_end_with_the_lease(void **state)
{
    (void)state;
    struct keeper *keeper = open_keeper();
    int fence_fd = descriptor_make_memory("fence", FENCE_BYTES, NULL), running, stopped, other;
    struct fence *fence = mmap(NULL, FENCE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fence_fd, 0);
    assert_ptr_not_equal(fence, MAP_FAILED);
    pid_t pids[] = {make_process(&running), make_process(&stopped), make_process(&other)};
    kill(pids[1], SIGSTOP);
    fence->until_ns = fence_now_ns() + 100000000;
    assert_int_equal(keeper_put(keeper, "job" KEEPER_FENCE, fence_fd, NULL), 0);
    assert_int_equal(keeper_put(keeper, "job" KEEPER_PROCESS "0", running, NULL), 0);
    assert_int_equal(keeper_put(keeper, "job" KEEPER_PROCESS "1", stopped, NULL), 0);
    assert_int_equal(keeper_put(keeper, "jobs" KEEPER_PROCESS "0", other, NULL), 0);
    __atomic_store_n(&fence->until_ns, fence_now_ns() + 400000000, __ATOMIC_RELEASE); /* another lease */
    keeper_detach(keeper);
    assert_true(is_gone(running, 10000));
    assert_true(fence_is_over(fence));
    assert_true(is_gone(stopped, 10000));
    assert_false(is_gone(other, 0));
    kill(pids[2], SIGKILL);
    keeper_close(keeper);
    keeper = open_keeper();
    assert_int_equal(keeper_drop(keeper, "job" KEEPER_FENCE, NULL), 0);
    assert_int_equal(keeper_drop(keeper, "job" KEEPER_PROCESS "0", NULL), 0);
    assert_int_equal(keeper_drop(keeper, "job" KEEPER_PROCESS "1", NULL), 0);
    assert_int_equal(keeper_drop(keeper, "jobs" KEEPER_PROCESS "0", NULL), 0);
    keeper_close(keeper);
    munmap(fence, FENCE_BYTES);
    close(fence_fd);
    close(running);
    close(stopped);
    close(other);
}

static void test_bad_names(void **state)
{
    (void)state;
    struct keeper *keeper = open_keeper();
    char name[KEEPER_NAME_BYTES + 10];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(keeper_put(keeper, name, 0, NULL), -1);
    assert_int_equal(keeper_put(keeper, "", 0, NULL), -1);
    keeper_close(keeper);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_put_list_drop),
        EACH(test_survives_the_agent),
        EACH(test_killed_keeper_is_replaced),
        EACH(test_retention_ends),
        EACH(test_ranks_end_with_the_lease),
        EACH(test_bad_names),
        EACH(test_dead_keepers_leave_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
