/*
 * test_interpose_file.c - what is noted of the MPI library's writes: those to watched files, before they are
 * made.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mpi-layer/lower/interpose_file.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_lease.h"
#include "mpi-layer/lower/vk_undo.h"

static char path[] = "/tmp/belay-interpose-XXXXXX";
static int fd;
static int notes;                   /* how many there were */
static uint64_t offset, bytes;      /* of the last one */
static long long length_when_noted; /* of the file */

void vk_undo_fd(long noted_fd, uint64_t noted_offset, uint64_t noted_bytes)
{
    struct stat st;
    assert_int_equal(noted_fd, fd);
    assert_int_equal(fstat(fd, &st), 0);
    length_when_noted = st.st_size;
    offset = noted_offset;
    bytes = noted_bytes;
    notes++;
}

static int lease_checks; /* how often the lease was looked at */

void vk_lease_check_lower(void)
{
    lease_checks++;
}

static int watched_fd = -1; /* that is all that vk_fd.c knows here */

void vk_fd_watch(long known)
{
    watched_fd = (int)known;
}

bool vk_fd_is_watched(long known)
{
    return known == watched_fd;
}

void vk_fd_drop(long known)
{
    if (known == watched_fd)
        watched_fd = -1;
}

void vk_fd_take(long known)
{
    (void)known;
}

bool vk_fd_is_lower(long known)
{
    return known == watched_fd;
}

bool vk_fd_is_made(long known)
{
    return known == watched_fd;
}

void vk_fd_unwatch_all(void)
{
    watched_fd = -1;
}

static int setup(void **state)
{
    (void)state;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    fd = mkstemp(path);
    notes = 0;
    lease_checks = 0;
    return fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    close(fd);
    return unlink(path);
}

static void test_writes(void **state)
{
    char data[8] = "1234567";
    struct iovec parts[2] = {{data, 3}, {data, 5}};
    void *watch = interpose_watch(path);

    (void)state;
    assert_non_null(watch);
    assert_int_equal(pwrite(fd, data, 8, 4), 8);
    assert_true(notes == 1 && offset == 4 && bytes == 8 && length_when_noted == 0);
    assert_int_equal(pwritev(fd, parts, 2, 100), 8);
    assert_true(notes == 2 && offset == 100 && bytes == 8 && length_when_noted == 12);
    assert_int_equal(ftruncate(fd, 50), 0);
    assert_true(notes == 3 && offset == 50 && bytes == VK_UNDO_WHOLE && length_when_noted == 108);
    interpose_unwatch(watch);
}

static void test_asynchronous_write(void **state)
{
    char data[8] = "1234567";
    struct aiocb operation = {.aio_fildes = fd, .aio_buf = data, .aio_nbytes = 8, .aio_offset = 16};
    const struct aiocb *list[1] = {&operation};
    void *watch = interpose_watch(path);

    (void)state;
    assert_int_equal(aio_write(&operation), 0);
    while (aio_error(&operation) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    assert_int_equal(aio_return(&operation), 8);
    assert_true(notes == 1 && offset == 16 && bytes == 8 && length_when_noted == 0);
    interpose_unwatch(watch);
}

static void test_only_watched_files(void **state)
{
    (void)state;
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    assert_int_equal(notes, 0);
    void *first = interpose_watch(path), *second = interpose_watch(path);
    interpose_unwatch(first);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    assert_int_equal(notes, 1);
    interpose_unwatch(second);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    assert_int_equal(notes, 1);
    assert_null(interpose_watch("/nowhere/at/all"));
    interpose_unwatch(NULL);
}

/* A descriptor that is closed stands for another file when it is open again. */
static void test_reused_descriptor(void **state)
{
    char other[] = "/tmp/belay-interpose-other-XXXXXX";
    void *watch = interpose_watch(path);

    (void)state;
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    assert_int_equal(notes, 1);
    assert_int_equal(lease_checks, 1);
    assert_int_equal(close(fd), 0);
    int reused = mkstemp(other);
    assert_int_equal(reused, fd);
    assert_int_equal(pwrite(reused, "x", 1, 0), 1);
    assert_int_equal(notes, 1);
    assert_int_equal(lease_checks, 1); /* a file that is not watched is written to as before */
    unlink(other);
    interpose_unwatch(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_asynchronous_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_watched_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reused_descriptor, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
