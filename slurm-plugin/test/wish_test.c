/* Options, variables and defaults of the plugin: which values are taken, and which win. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "slurm-plugin/site.h"
#include "slurm-plugin/wish.h"
#include "slurm-plugin/words.h"

static struct belay_error err;

static int take(struct wish *wish, enum wish_key key, const char *text)
{
    return wish_take(wish, key, "--option", text, &err);
}

static void intervals(void **state)
{
    static const char *const good[] = {"5",   "1:30", "1:30:00", "1-0",   "1-0:30", "1-0:30:15",
                                       "30s", "5m",   "2h",      "500ms", "auto"};
    static const char *const off[] = {"0", "none", "0:00"};
    static const char *const bad[] = {"", "x", "-1", "5x", "1ms", "9999-0", "1:2:3:4", "5 ", "AUTO", "1s\n"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct wish wish = {0};
        assert_int_equal(take(&wish, WISH_INTERVAL, good[i]), 0);
        assert_true(wish_is_on(&wish));
        assert_string_equal(wish.texts[WISH_INTERVAL], good[i]);
    }
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        struct wish wish = {0};
        assert_int_equal(take(&wish, WISH_INTERVAL, off[i]), 0);
        assert_false(wish_is_on(&wish));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wish wish = {0};
        assert_int_equal(take(&wish, WISH_INTERVAL, bad[i]), -1);
        assert_non_null(strstr(err.text, "--option"));
        assert_null(strchr(err.text, '\n'));
        assert_false(wish_is_on(&wish));
    }
}

static void others(void **state)
{
    static const char *const wrong[] = {"copies", "XORR",  "XOR:",     "XOR:4x", "RS",
                                        "RS:4",   "RS:4+", "RS:4+2+1", "RS:+"};
    struct wish wish = {0};
    (void)state;
    assert_int_equal(take(&wish, WISH_REDUNDANCY, "partner"), 0);
    assert_string_equal(wish.texts[WISH_REDUNDANCY], "PARTNER");
    assert_int_equal(take(&wish, WISH_REDUNDANCY, "xor"), 0);
    assert_string_equal(wish.texts[WISH_REDUNDANCY], "XOR");
    assert_int_equal(take(&wish, WISH_REDUNDANCY, "XOR:4"), 0);
    assert_int_equal(take(&wish, WISH_REDUNDANCY, "RS:4+2"), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(take(&wish, WISH_REDUNDANCY, wrong[i]), -1);
    assert_int_equal(take(&wish, WISH_DIR, "/scratch/me"), 0);
    assert_int_equal(take(&wish, WISH_DIR, "scratch"), -1);
    assert_int_equal(take(&wish, WISH_RESTART, "none"), 0);
    assert_int_equal(take(&wish, WISH_RESTART, "12"), 0);
    assert_int_equal(take(&wish, WISH_RESTART, "job:4711"), 0);
    assert_int_equal(wish_restart_job("job:4711"), 4711);
    assert_int_equal(wish_restart_job("4711"), 0);
    assert_int_equal(take(&wish, WISH_RESTART, "job:"), -1);
    assert_int_equal(take(&wish, WISH_RESTART, "job:0"), -1);
    assert_int_equal(take(&wish, WISH_RESTART, "job:-1"), -1);
    assert_int_equal(take(&wish, WISH_RESTART, "job:4294967296"), -1);
    assert_int_equal(take(&wish, WISH_RESTART, "job:7x"), -1);
    assert_int_equal(take(&wish, WISH_RESTART, "12"), 0);
    assert_int_equal(take(&wish, WISH_RESTART, "0"), -1);
    assert_int_equal(take(&wish, WISH_RESTART, "-1"), -1);
    assert_int_equal(take(&wish, WISH_RESTART, "12x"), -1);
    assert_int_equal(take(&wish, WISH_RESTART, "some/images"), -1);
    assert_non_null(strstr(err.text, "absolute path"));
    assert_string_equal(wish.texts[WISH_RESTART], "12");
}

static void archives(void **state)
{
    struct wish wish = {0};
    (void)state;
    assert_false(wish_is_archived(&wish));
    assert_int_equal(take(&wish, WISH_ARCHIVE, "5"), 0);
    assert_true(wish_is_archived(&wish));
    assert_int_equal(take(&wish, WISH_ARCHIVE, "90m"), 0);
    assert_int_equal(take(&wish, WISH_ARCHIVE, "often"), -1);
    assert_int_equal(take(&wish, WISH_ARCHIVE, "-5"), -1);
    assert_string_equal(wish.texts[WISH_ARCHIVE], "90m");
    assert_int_equal(take(&wish, WISH_ARCHIVE, "none"), 0);
    assert_false(wish_is_archived(&wish));
    assert_int_equal(take(&wish, WISH_RESTART, "/scratch/me/4711.0-app/line-3"), 0);
    assert_true(wish_restart_is_folder(wish.texts[WISH_RESTART]));
    assert_false(wish_restart_is_folder("job:4711"));
    assert_int_equal(wish_restart_job("/scratch/me/4711.0-app/line-3"), 4711);
    assert_int_equal(wish_restart_job("/scratch/me/4711.0-app"), 4711);
    assert_int_equal(wish_restart_job("/scratch/me"), 0);
    assert_int_equal(wish_restart_job("/scratch/2026.me/x"), 0);
}

static void the_first_that_is_given_wins(void **state)
{
    struct wish option = {0}, site = {0};
    (void)state;
    assert_int_equal(take(&option, WISH_INTERVAL, "0"), 0);
    assert_int_equal(take(&site, WISH_INTERVAL, "10m"), 0);
    assert_int_equal(take(&site, WISH_REDUNDANCY, "SINGLE"), 0);
    wish_fill(&option, &site);
    assert_false(wish_is_on(&option));
    assert_string_equal(option.texts[WISH_REDUNDANCY], "SINGLE");
}

static void words_of_the_site(void **state)
{
    char *const good[] = {(char *)"interval=5m", (char *)"rundir=/run",  (char *)"retention=1h",
                          (char *)"memory=2G",   (char *)"cgroup=other", (char *)"libdir=/opt/belay"};
    static const char *const bad[] = {"intervall=5", "interval",    "cgroup=../x", "cgroup=.",
                                      "memory=much", "retention=x", "rundir=",     "last-line=soon"};
    static struct site site;
    char path[SITE_RUNDIR_BYTES];
    (void)state;
    assert_int_equal(site_read(&site, "/usr/lib/belay", 0, NULL, &err), 0);
    assert_string_equal(site.folder, "/usr/lib/belay");
    assert_string_equal(site.retention, "10m");
    assert_string_equal(site.group, "belay");
    site_rundir(&site, 7, path);
    assert_string_equal(path, "/tmp/belay-7");
    assert_int_equal(site_read(&site, "/usr/lib/belay", 6, good, &err), 0);
    assert_string_equal(site.wish.texts[WISH_INTERVAL], "5m");
    assert_string_equal(site.folder, "/opt/belay");
    assert_int_equal(site.memory, 2ull << 30);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *const words[] = {(char *)(uintptr_t)bad[i], (char *)"cgroup=other"};
        assert_int_equal(site_read(&site, "/usr/lib/belay", 2, words, &err), -1);
        assert_non_null(strstr(err.text, "plugstack.conf"));
        assert_string_equal(site.group, "other"); /* what makes sense holds */
    }
}

static void names_of_jobs(void **state)
{
    char name[WORDS_NAME_BYTES];
    (void)state;
    words_job_name(12, 0, "/home/me/my app", name);
    assert_string_equal(name, "12.0-my_app");
    words_job_name(UINT32_MAX, UINT32_MAX, "a-name-that-is-longer-than-thirty-letters", name);
    assert_string_equal(name, "4294967295.4294967295-a-name-that-is-longer-than-thi");
}

static void lists_of_libraries(void **state)
{
    char list[32];
    (void)state;
    assert_int_equal(words_preload("/b/libbelay.so", NULL, list, sizeof list, &err), 0);
    assert_string_equal(list, "/b/libbelay.so");
    assert_int_equal(words_preload("/b/libbelay.so", "a.so b.so", list, sizeof list, &err), 0);
    assert_string_equal(list, "/b/libbelay.so:a.so b.so");
    assert_int_equal(words_preload("/b/libbelay.so", "a.so:b.so:c.so:d.so", list, sizeof list, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals),
        cmocka_unit_test(others),
        cmocka_unit_test(archives),
        cmocka_unit_test(names_of_jobs),
        cmocka_unit_test(the_first_that_is_given_wins),
        cmocka_unit_test(lists_of_libraries),
        cmocka_unit_test(words_of_the_site),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
