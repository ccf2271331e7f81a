/* JSON and tables of a job: exactly the documented keys, values as they came, odd bytes survive. */
#include "cmd/render.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Belay__Wire__RankStatus rank = BELAY__WIRE__RANK_STATUS__INIT;
static Belay__Wire__NodeStatus node = BELAY__WIRE__NODE_STATUS__INIT;
static Belay__Wire__EpochStatus epoch = BELAY__WIRE__EPOCH_STATUS__INIT;
static Belay__Wire__LineStatus line = BELAY__WIRE__LINE_STATUS__INIT;
static Belay__Wire__JobStatus job = BELAY__WIRE__JOB_STATUS__INIT;

static Belay__Wire__LoadStatus load = BELAY__WIRE__LOAD_STATUS__INIT;
static Belay__Wire__RankStatus *ranks[] = {&rank};
static Belay__Wire__NodeStatus *nodes[] = {&node};
static Belay__Wire__EpochStatus *history[] = {&epoch};
static Belay__Wire__LineStatus *lines[] = {&line};
static uint32_t lost_nodes[] = {1, 3};
static char *argv[] = {"mpirun", "-n", "4", "./caf\xe9"};

static int fill_job(void **state)
{
    (void)state;
    rank.rank = 2;
    rank.pid = 4711;
    rank.loading = &load;
    load.bytes = 8192;
    load.here_bytes = 4096;
    load.faults = 23;
    load.rate = 1 << 20;
    load.to_go_ms = 1500;
    load.touched_bytes = 65536;
    node.node = "n1";
    node.agent_pid = 99;
    node.ranks = ranks;
    node.n_ranks = 1;
    epoch.epoch = 2;
    epoch.restored_line = 7;
    epoch.reason = "rank 2 was killed by signal 9";
    epoch.restore_ms = 12.5;
    epoch.lost_nodes = lost_nodes;
    epoch.n_lost_nodes = 2;
    line.line = 7;
    line.begun_at_ms = 1700000000123;
    line.state = "committed";
    line.image_bytes = 5ull << 40;
    line.pause_ms = 0.125;
    line.felt_pause_ms = 0.25;
    line.protect_ms = 3.5;
    job.job = "heat";
    job.state = "running";
    job.epoch = 2;
    job.ranks = 4;
    job.restarts = 1;
    job.nodes = nodes;
    job.history = history;
    job.lines = lines;
    job.n_nodes = job.n_history = job.n_lines = 1;
    job.argv = argv;
    job.n_argv = 4;
    return 0;
}

static void expect_keys(const json_t *object, const char *const *keys, size_t count)
{
    assert_true(json_is_object(object));
    for (size_t i = 0; i < count; i++)
        if (!json_object_get(object, keys[i]))
            fail_msg("key %s is missing", keys[i]);
}

#define EXPECT_KEYS(object, ...)                                                                             \
    do {                                                                                                     \
        static const char *const keys[] = {__VA_ARGS__};                                                     \
        expect_keys((object), keys, sizeof keys / sizeof keys[0]);                                           \
    } while (0)

static void test_job_json(void **state)
{
    (void)state;
    json_t *value = render_job_json(&job);
    EXPECT_KEYS(value, "job", "state", "epoch", "ranks", "restarts", "restarts_from_start", "nodes",
                "history", "lines");
    const json_t *first_node = json_array_get(json_object_get(value, "nodes"), 0);
    EXPECT_KEYS(first_node, "node", "agent_pid", "ranks", "number", "is_coordinator", "state");
    const json_t *first_rank = json_array_get(json_object_get(first_node, "ranks"), 0);
    assert_int_equal(json_integer_value(json_object_get(first_rank, "rank")), 2);
    assert_int_equal(json_integer_value(json_object_get(first_rank, "pid")), 4711);
    const json_t *loading = json_object_get(first_rank, "loading");
    EXPECT_KEYS(loading, "bytes", "here_bytes", "faults", "bytes_per_s", "to_go_ms", "first_ms",
                "first_bytes", "touched_bytes", "touched_here_bytes");
    assert_int_equal(json_integer_value(json_object_get(loading, "here_bytes")), 4096);
    const json_t *first_epoch = json_array_get(json_object_get(value, "history"), 0);
    EXPECT_KEYS(first_epoch, "epoch", "restored_line", "reason", "restore_ms", "detect_ms", "fetch_ms",
                "launch_ms", "lost_nodes", "begun_at_ms");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(first_epoch, "lost_nodes"), 1)), 3);
    assert_true(json_real_value(json_object_get(first_epoch, "restore_ms")) == 12.5);
    assert_int_equal(json_array_size(json_object_get(value, "lines")), 1);
    const char *odd = json_string_value(json_array_get(json_object_get(value, "argv"), 3));
    assert_string_equal(odd, "./caf?");
    json_decref(value);
}

/* The newest line of a rank counts, and the nodes that hold its image of that line. */
static void test_holders_json(void **state)
{
    (void)state;
    uint32_t two[] = {1, 2}, other[] = {2}, none[] = {0};
    Belay__Wire__NodeStatus of[4];
    Belay__Wire__NodeStatus *list[] = {&of[0], &of[1], &of[2], &of[3]};
    Belay__Wire__JobStatus several = job;
    static const uint64_t held_lines[] = {7, 6, 7, 8};
    uint32_t *held[] = {two, other, other, none};
    for (uint32_t i = 0; i < 4; i++) {
        belay__wire__node_status__init(&of[i]);
        of[i].number = i;
        of[i].held_line = held_lines[i];
        of[i].held_ranks = held[i];
        of[i].n_held_ranks = i == 0 ? 2 : 1;
    }
    of[0].ranks = ranks;
    of[0].n_ranks = 1;
    several.nodes = list;
    several.n_nodes = 4;
    json_t *value = render_job_json(&several);
    const json_t *node_json = json_array_get(json_object_get(value, "nodes"), 0);
    const json_t *first = json_array_get(json_object_get(node_json, "ranks"), 0);
    const json_t *holders = json_object_get(first, "holders");
    assert_int_equal(json_integer_value(json_object_get(first, "protected_line")), 7);
    assert_int_equal(json_array_size(holders), 2);
    assert_int_equal(json_integer_value(json_array_get(holders, 0)), 0);
    assert_int_equal(json_integer_value(json_array_get(holders, 1)), 2);
    json_decref(value);
}

static void test_line_json(void **state)
{
    (void)state;
    json_t *value = render_line_json(&line);
    EXPECT_KEYS(value, "line", "state", "image_bytes", "dirty_bytes", "captured_bytes", "sent_bytes",
                "converge_ms", "drain_ms", "pause_ms", "felt_pause_ms", "protect_ms", "total_ms", "reason",
                "begun_at_ms", "sent_page_bytes", "page_parts", "line_parts", "compare_ms", "send_ms",
                "page_model_ms", "line_model_ms", "guarded_bytes", "guard_faults", "longest_fault_ms",
                "pool_bytes", "pool_waits", "pool_wait_ms", "ahead_bytes", "right_bytes", "pause_bytes",
                "pause_copy_ms", "pause_model_ms", "copied_model_ms", "copy_ms_per_gib", "guard_ms_per_gib",
                "fault_ms_per_gib", "yield");
    assert_int_equal(json_object_size(value), 37);
    assert_int_equal(json_integer_value(json_object_get(value, "begun_at_ms")), 1700000000123);
    assert_true(json_real_value(json_object_get(value, "protect_ms")) == 3.5);
    assert_true(json_integer_value(json_object_get(value, "image_bytes")) == 5ll << 40);
    assert_true(json_real_value(json_object_get(value, "pause_ms")) == 0.125);
    assert_true(json_real_value(json_object_get(value, "felt_pause_ms")) == 0.25);
    assert_string_equal(json_string_value(json_object_get(value, "state")), "committed");
    json_decref(value);
}

static void test_empty_job(void **state)
{
    (void)state;
    Belay__Wire__JobStatus empty = BELAY__WIRE__JOB_STATUS__INIT;
    json_t *value = render_job_json(&empty);
    assert_non_null(value);
    assert_int_equal(json_array_size(json_object_get(value, "lines")), 0);
    assert_true(json_is_array(json_object_get(value, "nodes")));
    json_decref(value);
}

static void test_text(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    render_job_text(stream, &job);
    render_list_header(stream);
    render_list_row(stream, &job);
    render_line_text(stream, &line);
    fclose(stream);
    assert_non_null(strstr(text, "heat: running"));
    assert_non_null(strstr(text, "2:4711"));
    assert_non_null(
        strstr(text, "  loading   rank 2: 0.0 of 0.0 MiB are here, it has waited for 23 pages; 1.0 MiB/s, "
                     "1.5 s to go\n"));
    assert_non_null(strstr(text, "rank 2 was killed by signal 9"));
    assert_non_null(strstr(text, "line 7 committed: image 5242880.0 MiB"));
    free(text);
}

static char *text_of_pool(uint64_t waits)
{
    char *text = NULL;
    size_t bytes = 0;
    Belay__Wire__LineStatus own_line = line, *own_lines[] = {&own_line};
    Belay__Wire__JobStatus own = job;
    own_line.pool_bytes = 64 << 20;
    own_line.pool_waits = waits;
    own_line.pool_wait_ms = 2.25;
    own.lines = own_lines;
    FILE *stream = open_memstream(&text, &bytes);
    render_job_text(stream, &own);
    fclose(stream);
    return text;
}

static void test_pool(void **state)
{
    (void)state;
    char *full = text_of_pool(12), *roomy = text_of_pool(0);
    assert_non_null(strstr(
        full, "64.0 MiB for each rank, full in line 7: 12 copies for writers waited for room, 2.2 ms"));
    assert_non_null(strstr(roomy, "64.0 MiB for each rank, no copy for a writer waited for room in line 7"));
    free(full);
    free(roomy);
}

/* Wherever a text of others goes. */
static void test_terminals_obey_nothing(void **state)
{
    (void)state;
    char *text = NULL,
         evil[] = "\033]0;title\007\xc2\x9b"
                  "31m\x7f\xe9\nnext",
         *words[] = {evil, evil};
    size_t bytes = 0;
    Belay__Wire__NodeStatus own_node = node, *own_nodes[] = {&own_node};
    Belay__Wire__EpochStatus own_epoch = epoch, *own_history[] = {&own_epoch};
    Belay__Wire__LineStatus own_line = line, *own_lines[] = {&own_line};
    Belay__Wire__JobStatus own = job;
    own.job = own.state = own.cwd = own.message = own_node.node = evil;
    own_epoch.reason = own_line.reason = own_line.state = evil;
    own_line.pause_ms = NAN;
    own.nodes = own_nodes;
    own.history = own_history;
    own.lines = own_lines;
    own.argv = words;
    own.n_argv = 2;
    FILE *stream = open_memstream(&text, &bytes);
    render_job_text(stream, &own);
    render_list_row(stream, &own);
    render_line_text(stream, &own_line);
    fclose(stream);
    for (const char *at = text; *at; at++)
        assert_true((*at >= ' ' && *at <= '~') || *at == '\n');
    assert_null(strstr(text, "\nnext"));
    assert_non_null(strstr(text, "\\x1b]0;title\\x07\\xc2\\x9b31m\\x7f\\xe9\\x0anext"));
    free(text);
    json_t *value = render_job_json(&own), *read;
    char *json = json_dumps(value, JSON_ENSURE_ASCII);
    for (const char *at = json; *at; at++)
        assert_true(*at >= ' ' && *at <= 0x7f);
    read = json_loads(json, 0, NULL);
    assert_true(json_equal(read, value));
    assert_string_equal(json_string_value(json_object_get(read, "message")), "\033]0;title\007\xc2\x9b"
                                                                             "31m\x7f?\nnext");
    free(json);
    json_decref(read);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_json),
        cmocka_unit_test(test_holders_json),
        cmocka_unit_test(test_line_json),
        cmocka_unit_test(test_empty_job),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_terminals_obey_nothing),
    };
    return cmocka_run_group_tests_name("render", tests, fill_job, NULL);
}
