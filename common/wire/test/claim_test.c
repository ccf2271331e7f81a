/* claim_test.c - which arbiter runs a job: what is written is read, and nothing else is taken for it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/claim.h"

static char folder[] = "claim-test-XXXXXX", path[PATH_MAX];

static void put(const char *text, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    close(fd);
}

static void test_write_and_read(void **state)
{
    (void)state;
    struct claim claim = {.host = "node-1.of.here", .epoch = 4294967295u, .token = UINT64_MAX}, found;
    struct belay_error err;
    errno = 0;
    assert_int_equal(claim_read(folder, &found), -1);
    assert_int_equal(errno, ENOENT);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(claim_write(folder, &claim, &err), 0);
        assert_int_equal(claim_read(folder, &found), 0);
        assert_string_equal(found.host, claim.host);
        assert_int_equal(found.epoch, claim.epoch);
        assert_int_equal(found.token, claim.token);
        claim = (struct claim){.host = "b", .epoch = 1};
    }
}

/* Also what others have put there. */
static void test_what_is_no_claim(void **state)
{
    (void)state;
    char text[128];
    struct claim found;
    struct belay_error err;
    const char *const bad[] = {"", "belay-arbiter-1 a 1", "belay-arbiter-2 a 1 00",
                               "belay-arbiter-1 a/b 1 00", "belay-arbiter-1 -a 1 00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(text, ' ', sizeof text);
        memcpy(text, bad[i], strlen(bad[i]));
        put(text, sizeof text);
        assert_int_equal(claim_read(folder, &found), -1);
        assert_int_equal(errno, EBADMSG);
    }
    put("belay-arbiter-1 a 1 00", 22);
    assert_int_equal(claim_read(folder, &found), -1);
    unlink(path);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    assert_int_equal(claim_read(folder, &found), -1);
    assert_int_equal(claim_write(folder, &(struct claim){.host = "a"}, &err), -1);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(claim_read(folder, &found), -1);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_write_and_read),
                                       cmocka_unit_test(test_what_is_no_claim)};
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/" CLAIM_NAME, folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
