/* crew_test.c - pages that several threads share among them, and how many threads that are. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "node-agent/capture/crew.h"

#define PAGE IMAGE_PAGE_BYTES
#define MUCH_BYTES (1ull << 30)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct run_set copied;
static unsigned calls;

static int note(void *context, const struct run_set *pages, struct belay_error *err)
{
    struct run_set both = {0}, all = {0};
    pthread_mutex_lock(&lock);
    calls++;
    assert_int_equal(runs_intersect(&copied, pages, &both), 0);
    assert_int_equal(both.count, 0);
    assert_int_equal(runs_union(&copied, pages, &all), 0);
    runs_move(&all, &copied);
    pthread_mutex_unlock(&lock);
    bool is_bad = context && pages->runs[0].address == *(const uint64_t *)context;
    return is_bad ? belay_error_set(err, EFAULT, "bad page") : 0;
}

static void make_pages(struct run_set *pages)
{
    for (uint64_t at = 1; at < 100; at += 3)
        assert_int_equal(runs_append(pages, at * PAGE, at % 2 ? PAGE : 2 * PAGE), 0);
}

static void test_each_page_once(void **state)
{
    (void)state;
    struct belay_error err;
    struct run_set pages = {0}, missed = {0};
    make_pages(&pages);
    for (unsigned threads = 1; threads <= CREW_MAX + 1; threads++) {
        calls = 0;
        runs_release(&copied);
        assert_int_equal(crew_copy(&pages, threads, note, NULL, &err), 0);
        assert_int_equal(calls, threads < CREW_MAX ? threads : CREW_MAX);
        assert_int_equal(runs_subtract(&pages, &copied, &missed), 0);
        assert_int_equal(missed.count, 0);
        assert_int_equal(runs_bytes(&copied), runs_bytes(&pages));
    }
    runs_release(&copied);
    runs_release(&pages);
}

static void test_failure_of_one(void **state)
{
    (void)state;
    struct belay_error err = {0};
    struct run_set pages = {0};
    make_pages(&pages);
    uint64_t bad = pages.runs[0].address;
    assert_int_equal(crew_copy(&pages, 3, note, &bad, &err), -1);
    assert_int_equal(err.code, EFAULT);
    runs_release(&copied);
    runs_release(&pages);
}

static void *sleep_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

/*
 * A process with so many threads, all of which wait. Not this one: a thread that has been joined may be among
 * a process's threads for some time yet.
 */
static pid_t start_process(unsigned threads)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned i = 1; i < threads; i++)
            if (pthread_create(&thread, NULL, sleep_for_ever, NULL))
                _exit(1);
        if (write(ends[1], "", 1) == 1)
            sleep_for_ever(NULL);
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return pid;
}

static void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_size(void **state)
{
    (void)state;
    cpu_set_t sets[2];
    assert_int_equal(sched_getaffinity(0, sizeof sets[0], &sets[0]), 0);
    sets[1] = sets[0];
    unsigned processors = (unsigned)CPU_COUNT(&sets[0]), most = processors < 2 ? processors : 2;
    pid_t one = start_process(1), two = start_process(2);
    assert_int_equal(crew_size(one, MUCH_BYTES, sets, 1), 1);
    assert_int_equal(crew_size(two, MUCH_BYTES, sets, 1), most);
    assert_int_equal(crew_size(two, PAGE, sets, 1), 1); /* not worth it */
    if (processors < 4)                                 /* two ranks on them */
        assert_int_equal(crew_size(two, MUCH_BYTES, sets, 2), 1);
    CPU_ZERO(&sets[1]); /* the other one is elsewhere */
    assert_int_equal(crew_size(two, MUCH_BYTES, sets, 2), most);
    end_process(one);
    end_process(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_page_once),
        cmocka_unit_test(test_failure_of_one),
        cmocka_unit_test(test_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
