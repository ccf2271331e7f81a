#include "cmd/render.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/duration.h"
#include "common/util/escape.h"
#include "common/wire/states.h"

static const char *name_of_job(const Belay__Wire__JobStatus *status)
{
    return job_state_name(job_state_from(status->job_state, status->state));
}

static const char *name_of_line(const Belay__Wire__LineStatus *line)
{
    return line_state_name(line_state_from(line->line_state, line->state));
}

/* ---- JSON ---- */

json_t *render_text_json(const char *text)
{
    char *valid = strdup(text);
    if (valid)
        escape_make_valid(valid);
    json_t *value = valid ? json_string(valid) : NULL;
    free(valid);
    return value;
}

static void put_number(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

/* A number that JSON does not know, as a damaged record may have it, is 0. */
static void put_ms(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_real(isfinite(value) ? value : 0));
}

static void put_text(json_t *object, const char *key, const char *value)
{
    json_object_set_new(object, key, render_text_json(value));
}

json_t *render_line_json(const Belay__Wire__LineStatus *line)
{
    json_t *object = json_object();
    put_number(object, "line", line->line);
    put_text(object, "state", name_of_line(line));
    put_number(object, "image_bytes", line->image_bytes);
    put_number(object, "dirty_bytes", line->dirty_bytes);
    put_number(object, "captured_bytes", line->captured_bytes);
    put_number(object, "sent_bytes", line->sent_bytes);
    put_number(object, "sent_page_bytes", line->sent_page_bytes);
    put_number(object, "page_parts", line->page_parts);
    put_number(object, "line_parts", line->line_parts);
    put_ms(object, "compare_ms", line->compare_ms);
    put_ms(object, "send_ms", line->send_ms);
    put_ms(object, "page_model_ms", line->page_model_ms);
    put_ms(object, "line_model_ms", line->line_model_ms);
    put_number(object, "guarded_bytes", line->guarded_bytes);
    put_number(object, "guard_faults", line->guard_faults);
    put_ms(object, "longest_fault_ms", line->longest_fault_ms);
    put_number(object, "pool_bytes", line->pool_bytes);
    put_number(object, "pool_waits", line->pool_waits);
    put_ms(object, "pool_wait_ms", line->pool_wait_ms);
    put_number(object, "ahead_bytes", line->ahead_bytes);
    put_number(object, "right_bytes", line->right_bytes);
    put_number(object, "pause_bytes", line->pause_bytes);
    put_ms(object, "pause_copy_ms", line->pause_copy_ms);
    put_ms(object, "pause_model_ms", line->pause_model_ms);
    put_ms(object, "copied_model_ms", line->copied_model_ms);
    put_ms(object, "copy_ms_per_gib", line->copy_ms_per_gib);
    put_ms(object, "guard_ms_per_gib", line->guard_ms_per_gib);
    put_ms(object, "fault_ms_per_gib", line->fault_ms_per_gib);
    put_ms(object, "yield", line->yield);
    put_ms(object, "converge_ms", line->converge_ms);
    put_ms(object, "drain_ms", line->drain_ms);
    put_ms(object, "pause_ms", line->pause_ms);
    put_ms(object, "felt_pause_ms", line->felt_pause_ms);
    put_ms(object, "protect_ms", line->protect_ms);
    put_ms(object, "total_ms", line->total_ms);
    put_number(object, "begun_at_ms", line->begun_at_ms);
    put_text(object, "reason", line->reason);
    return object;
}

static bool holds(const Belay__Wire__NodeStatus *node, uint32_t rank)
{
    for (size_t i = 0; i < node->n_held_ranks; i++)
        if (node->held_ranks[i] == rank)
            return true;
    return false;
}

/* The newest line of which a node holds the rank's image, and the nodes that do. */
static void put_protection(json_t *object, const Belay__Wire__JobStatus *status, uint32_t rank)
{
    json_t *holders = json_array();
    uint64_t line = 0;
    for (size_t i = 0; i < status->n_nodes; i++)
        if (status->nodes[i]->held_line > line && holds(status->nodes[i], rank))
            line = status->nodes[i]->held_line;
    for (size_t i = 0; line && i < status->n_nodes; i++)
        if (status->nodes[i]->held_line == line && holds(status->nodes[i], rank))
            json_array_append_new(holders, json_integer(status->nodes[i]->number));
    put_number(object, "protected_line", line);
    json_object_set_new(object, "holders", holders);
}

static json_t *render_loading_json(const Belay__Wire__LoadStatus *loading)
{
    if (!loading)
        return json_null();
    json_t *object = json_object();
    put_number(object, "bytes", loading->bytes);
    put_number(object, "here_bytes", loading->here_bytes);
    put_number(object, "faults", loading->faults);
    put_ms(object, "bytes_per_s", loading->rate);
    put_ms(object, "to_go_ms", loading->to_go_ms);
    put_ms(object, "first_ms", loading->first_ms);
    put_number(object, "first_bytes", loading->first_bytes);
    put_number(object, "touched_bytes", loading->touched_bytes);
    put_number(object, "touched_here_bytes", loading->touched_here_bytes);
    return object;
}

static json_t *render_rank_json(const Belay__Wire__JobStatus *status, const Belay__Wire__RankStatus *rank)
{
    json_t *object = json_object();
    put_number(object, "rank", rank->rank);
    put_number(object, "pid", rank->pid);
    put_protection(object, status, rank->rank);
    json_object_set_new(object, "loading", render_loading_json(rank->loading));
    return object;
}

static json_t *render_epoch_json(const Belay__Wire__EpochStatus *epoch)
{
    json_t *object = json_object();
    put_number(object, "epoch", epoch->epoch);
    put_number(object, "restored_line", epoch->restored_line);
    put_text(object, "reason", epoch->reason);
    put_ms(object, "restore_ms", epoch->restore_ms);
    put_ms(object, "detect_ms", epoch->detect_ms);
    put_ms(object, "fetch_ms", epoch->fetch_ms);
    put_ms(object, "launch_ms", epoch->launch_ms);
    put_number(object, "begun_at_ms", epoch->begun_at_ms);
    json_t *lost = json_array();
    json_object_set_new(object, "lost_nodes", lost);
    for (size_t i = 0; i < epoch->n_lost_nodes; i++)
        json_array_append_new(lost, json_integer(epoch->lost_nodes[i]));
    return object;
}

static json_t *render_node_json(const Belay__Wire__JobStatus *status, const Belay__Wire__NodeStatus *node)
{
    json_t *object = json_object(), *ranks = json_array();
    put_text(object, "node", node->node);
    put_number(object, "agent_pid", node->agent_pid);
    put_number(object, "number", node->number);
    put_text(object, "state", node->state);
    json_object_set_new(object, "is_coordinator", json_boolean(node->is_coordinator));
    json_object_set_new(object, "ranks", ranks);
    for (size_t i = 0; i < node->n_ranks; i++)
        json_array_append_new(ranks, render_rank_json(status, node->ranks[i]));
    return object;
}

/* The lists of a job: nodes, history, lines, argv. */
static void put_lists(json_t *object, const Belay__Wire__JobStatus *status)
{
    json_t *nodes = json_array(), *history = json_array(), *lines = json_array(), *argv = json_array();
    json_object_set_new(object, "nodes", nodes);
    json_object_set_new(object, "history", history);
    json_object_set_new(object, "lines", lines);
    json_object_set_new(object, "argv", argv);
    for (size_t i = 0; i < status->n_nodes; i++)
        json_array_append_new(nodes, render_node_json(status, status->nodes[i]));
    for (size_t i = 0; i < status->n_history; i++)
        json_array_append_new(history, render_epoch_json(status->history[i]));
    for (size_t i = 0; i < status->n_lines; i++)
        json_array_append_new(lines, render_line_json(status->lines[i]));
    for (size_t i = 0; i < status->n_argv; i++)
        json_array_append_new(argv, render_text_json(status->argv[i]));
}

json_t *render_job_json(const Belay__Wire__JobStatus *status)
{
    json_t *object = json_object();
    put_text(object, "job", status->job);
    put_text(object, "state", name_of_job(status));
    put_number(object, "epoch", status->epoch);
    put_number(object, "ranks", status->ranks);
    put_number(object, "restarts", status->restarts);
    put_number(object, "restarts_from_start", status->restarts_from_start);
    put_lists(object, status);
    put_number(object, "interval_ms", status->interval_ms);
    put_number(object, "mtbf_ms", status->mtbf_ms);
    put_ms(object, "line_cost_ms", status->line_cost_ms);
    put_number(object, "newest_line", status->newest_line);
    put_number(object, "held_bytes", status->held_bytes);
    json_object_set_new(object, "exit_status", json_integer(status->exit_status));
    put_number(object, "files_left", status->files_left);
    put_number(object, "archived_line", status->archived_line);
    json_object_set_new(object, "is_encrypted", json_boolean(status->is_encrypted));
    put_text(object, "cwd", status->cwd);
    put_text(object, "message", status->message);
    put_text(object, "trouble", status->trouble);
    return object;
}

/* Jansson writes the last control character of ASCII as it is. */
static int print_ascii(const char *json)
{
    for (; *json; json++)
        if (*json == 0x7f ? fputs("\\u007f", stdout) == EOF : putchar(*json) == EOF)
            return -1;
    return putchar('\n') == EOF || fflush(stdout) ? -1 : 0;
}

int render_print_json(json_t *value)
{
    char *text =
        value ? json_dumps(value, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9)) : NULL;
    int rc = text ? print_ascii(text) : -1;
    free(text);
    json_decref(value);
    return rc;
}

/* ---- text ---- */

/* One line, of which a terminal obeys nothing: names, paths and reasons in it are others'. */
static void __attribute__((format(printf, 2, 3))) print_line(FILE *stream, const char *format, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, format);
    int length = vasprintf(&text, format, ap);
    va_end(ap);
    if (length >= 0)
        escape_print(stream, text);
    fputc('\n', stream);
    free(length >= 0 ? text : NULL);
}

static void print_argv(FILE *stream, const Belay__Wire__JobStatus *status)
{
    fputs("  command   ", stream);
    for (size_t i = 0; i < status->n_argv; i++) {
        fputs(i ? " " : "", stream);
        escape_print(stream, status->argv[i]);
    }
    fputc('\n', stream);
}

/* What the newest line says of the pools of pages, if ranks have any. */
static void print_pool(FILE *stream, const Belay__Wire__JobStatus *status)
{
    const Belay__Wire__LineStatus *line = NULL;
    for (size_t i = 0; i < status->n_lines; i++)
        if (status->lines[i]->pool_bytes > 0)
            line = status->lines[i];
    if (line && line->pool_waits > 0)
        print_line(stream,
                   "  pool      %.1f MiB for each rank, full in line %" PRIu64 ": %" PRIu64
                   " copies for writers waited for room, %.1f ms in all",
                   render_mib(line->pool_bytes), line->line, line->pool_waits, line->pool_wait_ms);
    else if (line)
        print_line(
            stream,
            "  pool      %.1f MiB for each rank, no copy for a writer waited for room in line %" PRIu64,
            render_mib(line->pool_bytes), line->line);
}

static void print_summary(FILE *stream, const Belay__Wire__JobStatus *status)
{
    char interval[DURATION_TEXT_BYTES];
    print_line(stream, "%s: %s", status->job, name_of_job(status));
    if (status->message[0])
        print_line(stream, "  message   %s", status->message);
    if (status->trouble[0])
        print_line(stream, "  trouble   %s", status->trouble);
    print_argv(stream, status);
    print_line(stream, "  ranks     %" PRIu32 ", epoch %" PRIu32, status->ranks, status->epoch);
    print_line(stream, "  lines     %s%s, newest committed %" PRIu64 ", images %.1f MiB",
               status->interval_ms ? "every "
               : status->mtbf_ms   ? "as worth their cost"
                                   : "on demand",
               status->interval_ms ? duration_format(status->interval_ms, interval) : "", status->newest_line,
               render_mib(status->held_bytes));
    print_pool(stream, status);
    print_line(stream, "  restarts  %" PRIu32 " from a line, %" PRIu32 " from the start", status->restarts,
               status->restarts_from_start);
    if (status->archived_line)
        fprintf(stream, "  archived  line %" PRIu64 "\n", status->archived_line);
    if (status->files_left)
        fprintf(stream, "  files     %" PRIu64 " not put back by restarts\n", status->files_left);
}

/* Of several: what it is to the job, and what it holds. */
static void print_role(FILE *stream, const Belay__Wire__NodeStatus *node)
{
    fputs(", ", stream);
    escape_print(stream, node->state);
    if (node->is_coordinator)
        fputs(", coordinator", stream);
    if (node->held_line && node->n_held_ranks > 0) {
        fprintf(stream, ", holds line %" PRIu64 " of ranks", node->held_line);
        for (size_t i = 0; i < node->n_held_ranks; i++)
            fprintf(stream, " %" PRIu32, node->held_ranks[i]);
    }
}

static void print_nodes(FILE *stream, const Belay__Wire__JobStatus *status)
{
    for (size_t i = 0; i < status->n_nodes; i++) {
        const Belay__Wire__NodeStatus *node = status->nodes[i];
        fputs("  node      ", stream);
        if (status->n_nodes > 1)
            fprintf(stream, "%" PRIu32 " ", node->number);
        escape_print(stream, node->node);
        if (status->n_nodes > 1)
            print_role(stream, node);
        if (node->agent_pid)
            fprintf(stream, ", agent %" PRIu32 ", rank:pid", node->agent_pid);
        for (size_t k = 0; k < node->n_ranks; k++)
            fprintf(stream, " %" PRIu32 ":%" PRIu32, node->ranks[k]->rank, node->ranks[k]->pid);
        fputc('\n', stream);
    }
}

/* Of ranks that run while their images come. */
static void print_loading(FILE *stream, const Belay__Wire__NodeStatus *node)
{
    for (size_t i = 0; i < node->n_ranks; i++) {
        const Belay__Wire__LoadStatus *loading = node->ranks[i]->loading;
        if (!loading)
            continue;
        fprintf(stream,
                "  loading   rank %" PRIu32 ": %.1f of %.1f MiB are here, it has waited for %" PRIu64
                " pages; %.1f MiB/s",
                node->ranks[i]->rank, render_mib(loading->here_bytes), render_mib(loading->bytes),
                loading->faults, loading->rate / RENDER_MIB);
        if (loading->to_go_ms > 0)
            fprintf(stream, ", %.1f s to go", loading->to_go_ms / 1e3);
        fputc('\n', stream);
    }
}

static void print_history(FILE *stream, const Belay__Wire__JobStatus *status)
{
    if (status->n_history > 0)
        fprintf(stream, "\n  %5s %9s %9s %9s %11s  %s\n", "epoch", "from line", "detect ms", "launch ms",
                "restore ms", "reason");
    for (size_t i = 0; i < status->n_history; i++) {
        const Belay__Wire__EpochStatus *epoch = status->history[i];
        print_line(stream, "  %5" PRIu32 " %9" PRIu64 " %9.1f %9.1f %11.1f  %s", epoch->epoch,
                   epoch->restored_line, epoch->detect_ms, epoch->launch_ms, epoch->restore_ms,
                   epoch->reason);
    }
}

static void print_lines(FILE *stream, const Belay__Wire__JobStatus *status)
{
    if (status->n_lines > 0)
        fprintf(stream, "\n  %5s %-9s %9s %9s %9s %9s %11s %8s %8s %8s %10s %8s  %s\n", "line", "state",
                "image MiB", "dirty MiB", "taken MiB", "sent MiB", "converge ms", "drain ms", "pause ms",
                "felt ms", "protect ms", "total ms", "reason");
    for (size_t i = 0; i < status->n_lines; i++) {
        const Belay__Wire__LineStatus *line = status->lines[i];
        print_line(
            stream, "  %5" PRIu64 " %-9s %9.1f %9.1f %9.1f %9.1f %11.1f %8.1f %8.1f %8.1f %10.1f %8.1f  %s",
            line->line, name_of_line(line), render_mib(line->image_bytes), render_mib(line->dirty_bytes),
            render_mib(line->captured_bytes), render_mib(line->sent_bytes), line->converge_ms, line->drain_ms,
            line->pause_ms, line->felt_pause_ms, line->protect_ms, line->total_ms, line->reason);
    }
}

void render_job_text(FILE *stream, const Belay__Wire__JobStatus *status)
{
    print_summary(stream, status);
    print_nodes(stream, status);
    for (size_t i = 0; i < status->n_nodes; i++)
        print_loading(stream, status->nodes[i]);
    print_history(stream, status);
    print_lines(stream, status);
}

void render_line_text(FILE *stream, const Belay__Wire__LineStatus *line)
{
    print_line(stream,
               "line %" PRIu64 " %s: image %.1f MiB, converge %.1f ms, drain %.1f ms, pause %.1f ms "
               "(felt %.1f), total %.1f ms",
               line->line, name_of_line(line), render_mib(line->image_bytes), line->converge_ms,
               line->drain_ms, line->pause_ms, line->felt_pause_ms, line->total_ms);
}

void render_list_header(FILE *stream)
{
    fprintf(stream, "%-24s %-10s %5s %5s %8s %10s\n", "JOB", "STATE", "RANKS", "LINE", "RESTARTS",
            "IMAGES MiB");
}

void render_list_row(FILE *stream, const Belay__Wire__JobStatus *status)
{
    print_line(stream, "%-24s %-10s %5" PRIu32 " %5" PRIu64 " %8" PRIu32 " %10.1f", status->job,
               name_of_job(status), status->ranks, status->newest_line,
               status->restarts + status->restarts_from_start, render_mib(status->held_bytes));
}
