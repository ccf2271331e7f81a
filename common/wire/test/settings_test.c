/* Settings of a job: every one of them is read, sent, and put over a recorded one; what is not given stays.
 */
#include "common/wire/settings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int clear_environment(void **state)
{
    (void)state;
    for (int key = CONF_NONE + 1; key < CONF_END; key++)
        unsetenv(conf_setting(key)->variable);
    return 0;
}

/* A value that each setting takes, and another one; of those that have units, the same in all. */
static const char *value_for(enum conf_key key, bool is_other)
{
    switch (conf_setting(key)->unit) {
    case CONF_UNIT_TIME:
        return is_other ? "3000s" : "2000s";
    case CONF_UNIT_SIZE:
        return is_other ? "3M" : "2M";
    case CONF_UNIT_COUNT:
        return is_other ? "3" : "2";
    case CONF_UNIT_FLAG:
        return is_other ? "1" : "0";
    case CONF_UNIT_FILE:
        return is_other ? "/dev/zero" : "/dev/null";
    case CONF_UNIT_FOLDER:
        return is_other ? "/usr" : "/";
    default:
        return is_other ? "another" : "one";
    }
}

static void number_of(const Belay__Wire__JobSettings *settings, size_t index, char text[32])
{
    const ProtobufCFieldDescriptor *field = &belay__wire__job_settings__descriptor.fields[index];
    const char *at = (const char *)settings + field->offset;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        snprintf(text, 32, "%s", *(char *const *)(const void *)at);
    else
        snprintf(text, 32, "%llu", (unsigned long long)*(const uint64_t *)(const void *)at);
}

static bool is_of_pace(enum conf_key key)
{
    return key == CONF_INTERVAL || key == CONF_MTBF || key == CONF_DUTY_CYCLE;
}

static void test_every_field_is_a_setting(void **state)
{
    (void)state;
    assert_true(settings_count() >= 11);
    for (size_t i = 0; i < settings_count(); i++) {
        enum conf_key key = settings_key(i);
        if (key == CONF_NONE)
            fail_msg("no setting is called %s", belay__wire__job_settings__descriptor.fields[i].name);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(settings_key(k), key);
    }
}

/* By option and by environment alike; over another one; through a message. */
static void test_each_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < settings_count(); i++) {
        enum conf_key key = settings_key(i);
        if (is_of_pace(key))
            continue;
        Belay__Wire__JobSettings first = BELAY__WIRE__JOB_SETTINGS__INIT, other = first;
        const char *options[CONF_END] = {0};
        char text[32], expected[32];
        options[key] = value_for(key, false);
        assert_int_equal(settings_read(&first, options, false, NULL), 0);
        setenv(conf_setting(key)->variable, value_for(key, true), 1);
        assert_int_equal(settings_read(&other, NULL, false, NULL), 0);
        unsetenv(conf_setting(key)->variable);
        number_of(&first, i, text);
        number_of(&other, i, expected);
        assert_string_not_equal(text, expected);
        assert_int_equal(settings_merge(&first, &other), 0);
        number_of(&first, i, text);
        assert_string_equal(text, expected);
        uint8_t bytes[4200];
        size_t count = belay__wire__job_settings__pack(&first, bytes);
        Belay__Wire__JobSettings *sent = belay__wire__job_settings__unpack(NULL, count, bytes);
        number_of(sent, i, text);
        assert_string_equal(text, expected);
        belay__wire__job_settings__free_unpacked(sent, NULL);
        settings_release(&first);
        settings_release(&other);
    }
}

static void test_what_is_not_given_stays(void **state)
{
    (void)state;
    Belay__Wire__JobSettings recorded = BELAY__WIRE__JOB_SETTINGS__INIT, given = recorded, nothing = recorded;
    const char *options[CONF_END] = {[CONF_INTERVAL] = "10s",
                                     [CONF_MAX_RESTARTS] = "5",
                                     [CONF_RETENTION] = "2h",
                                     [CONF_UNDO_DIR] = "/tmp"};
    const char *changes[CONF_END] = {[CONF_MAX_RESTARTS] = "0"};
    assert_int_equal(settings_read(&recorded, options, true, NULL), 0);
    assert_int_equal(settings_read(&nothing, NULL, false, NULL), 0);
    for (size_t i = 0; i < settings_count(); i++) {
        char text[32];
        number_of(&nothing, i, text);
        if (*text && strcmp(text, "0"))
            fail_msg("%s is %s, which was not given", conf_setting(settings_key(i))->name, text);
    }
    assert_int_equal(settings_merge(&recorded, &nothing), 0);
    assert_int_equal(recorded.max_restarts, 5);
    assert_int_equal(recorded.retention_ms, 7200000);
    assert_int_equal(recorded.interval_ms, 10000);
    assert_string_equal(recorded.undo_dir, "/tmp");
    assert_int_equal(settings_read(&given, changes, false, NULL), 0);
    assert_int_equal(settings_merge(&recorded, &given), 0);
    assert_int_equal(recorded.max_restarts, 0);
    assert_int_equal(recorded.retention_ms, 7200000);
    settings_release(&recorded);
    settings_release(&given);
}

static void test_pace_is_one_thing(void **state)
{
    (void)state;
    Belay__Wire__JobSettings recorded = BELAY__WIRE__JOB_SETTINGS__INIT, given = recorded;
    const char *automatic[CONF_END] = {[CONF_INTERVAL] = "auto", [CONF_MTBF] = "2h"};
    const char *fixed[CONF_END] = {[CONF_INTERVAL] = "7s"};
    assert_int_equal(settings_read(&recorded, automatic, true, NULL), 0);
    assert_int_equal(recorded.mtbf_ms, 7200000);
    assert_int_equal(recorded.duty_cycle, 99);
    assert_int_equal(settings_read(&given, fixed, false, NULL), 0);
    assert_int_equal(settings_merge(&recorded, &given), 0);
    assert_int_equal(recorded.interval_ms, 7000);
    assert_int_equal(recorded.mtbf_ms, 0);
    assert_false(recorded.has_duty_cycle);
}

static void test_refusals(void **state)
{
    (void)state;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    struct belay_error err = {0};
    const char *options[CONF_END] = {[CONF_TRACKER] = "full", [CONF_UNDO_DIR] = "/no such folder"};
    assert_int_equal(settings_read(&settings, options, true, &err), -1);
    assert_int_equal(err.code, ENOENT);
    assert_non_null(strstr(err.text, "--undo-dir /no such folder"));
    assert_string_equal(settings.tracker, "");
    assert_int_equal(settings.retention_ms, 0);
    options[CONF_UNDO_DIR] = "/dev/null";
    assert_int_equal(settings_read(&settings, options, true, &err), -1);
    assert_int_equal(err.code, ENOTDIR);
    assert_non_null(strstr(err.text, "--undo-dir /dev/null: Not a directory"));
    options[CONF_UNDO_DIR] = NULL;
    options[CONF_FAILURE_DOMAINS] = "/";
    assert_int_equal(settings_read(&settings, options, true, &err), -1);
    assert_int_equal(err.code, EISDIR);
    setenv("BELAY_MEMORY", "little", 1);
    assert_int_equal(settings_read(&settings, NULL, true, &err), -1);
    assert_non_null(strstr(err.text, "BELAY_MEMORY=little"));
    unsetenv("BELAY_MEMORY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_every_field_is_a_setting, clear_environment),
        cmocka_unit_test_setup(test_each_alone, clear_environment),
        cmocka_unit_test_setup(test_what_is_not_given_stays, clear_environment),
        cmocka_unit_test_setup(test_pace_is_one_thing, clear_environment),
        cmocka_unit_test_setup(test_refusals, clear_environment),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
