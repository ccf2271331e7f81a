/* belay inspect - of each line, what was copied when, and what was sent to other nodes in which granularity;
 * and what the models of both said of it. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/job_view.h"
#include "cmd/options.h"
#include "cmd/render.h"

static const struct argp_option rows[] = {OPTION_JSON, {0}};

static const struct argp argp = {
    .options = rows,
    .parser = tool_options_parser,
    .args_doc = "[JOB]",
    .doc = "Show of each line what was copied before, in and after the pause, what was sent to other nodes "
           "in whole "
           "pages or in lines of 64 bytes, what that cost by the models, and what was measured."
           "\vJOB may be left out if exactly one runs, or if there is only one.",
};

/* Of a line whose changes were sent. */
struct sent {
    const Belay__Wire__LineStatus *line;
    double measured_ms; /* of what was chosen */
    double modelled_ms; /* the same by the model; 0: both were chosen, by different ranks */
};

/* False: nothing but whole images was sent. */
static bool look(const Belay__Wire__LineStatus *line, struct sent *sent)
{
    *sent = (struct sent){.line = line, .measured_ms = line->compare_ms + line->send_ms};
    if (line->line_parts == 0)
        sent->modelled_ms = line->page_model_ms;
    else if (line->page_parts == 0)
        sent->modelled_ms = line->line_model_ms;
    return line->page_parts + line->line_parts > 0;
}

static json_t *real(double value)
{
    return json_real(isfinite(value) ? value : 0);
}

static json_t *tell_line(const struct sent *sent)
{
    const Belay__Wire__LineStatus *line = sent->line;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "line",
                     (json_int_t)line->line, "sent_bytes", (json_int_t)line->sent_bytes, "sent_page_bytes",
                     (json_int_t)line->sent_page_bytes, "page_parts", (json_int_t)line->page_parts,
                     "line_parts", (json_int_t)line->line_parts, "page_model_ms", real(line->page_model_ms),
                     "line_model_ms", real(line->line_model_ms), "modelled_ms", real(sent->modelled_ms),
                     "measured_ms", real(sent->measured_ms), "compare_ms", real(line->compare_ms), "send_ms",
                     real(line->send_ms));
}

/* Lines of which any memory was copied are in the list. */
static json_t *tell_copies(const Belay__Wire__LineStatus *line)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "line",
                     (json_int_t)line->line, "ahead_bytes", (json_int_t)line->ahead_bytes, "right_bytes",
                     (json_int_t)line->right_bytes, "pause_bytes", (json_int_t)line->pause_bytes,
                     "guarded_bytes", (json_int_t)line->guarded_bytes, "pause_copy_ms",
                     real(line->pause_copy_ms), "pause_model_ms", real(line->pause_model_ms),
                     "copied_model_ms", real(line->copied_model_ms), "copy_ms_per_gib",
                     real(line->copy_ms_per_gib), "guard_ms_per_gib", real(line->guard_ms_per_gib),
                     "fault_ms_per_gib", real(line->fault_ms_per_gib), "yield", real(line->yield));
}

static bool has_copies(const Belay__Wire__LineStatus *line)
{
    return line->ahead_bytes + line->pause_bytes + line->guarded_bytes > 0;
}

static int print_json(const Belay__Wire__JobStatus *job)
{
    json_t *lines = json_array(), *copies = json_array();
    struct sent sent;
    for (size_t i = 0; i < job->n_lines; i++) {
        if (look(job->lines[i], &sent))
            json_array_append_new(lines, tell_line(&sent));
        if (has_copies(job->lines[i]))
            json_array_append_new(copies, tell_copies(job->lines[i]));
    }
    return render_print_json(json_pack("{s:o, s:o, s:o}", "job", render_text_json(job->job), "lines", lines,
                                       "copies", copies))
               ? EXIT_INTERNAL
               : EXIT_OK;
}

static void print_copies(const Belay__Wire__JobStatus *job)
{
    unsigned count = 0;
    for (size_t i = 0; i < job->n_lines; i++) {
        const Belay__Wire__LineStatus *line = job->lines[i];
        if (!has_copies(line))
            continue;
        if (count++ == 0)
            printf("%6s %10s %6s %10s %10s %9s %9s %9s %9s %9s %9s\n", "line", "ahead MiB", "right",
                   "pause MiB", "after MiB", "pause ms", "model ms", "copied ms", "copy/GiB", "prot./GiB",
                   "wait/GiB");
        printf("%6" PRIu64 " %10.2f %6.2f %10.2f %10.2f %9.2f %9.2f %9.2f %9.1f %9.1f %9.1f\n", line->line,
               line->ahead_bytes / RENDER_MIB,
               line->ahead_bytes > 0 ? (double)line->right_bytes / (double)line->ahead_bytes : 0,
               line->pause_bytes / RENDER_MIB, line->guarded_bytes / RENDER_MIB, line->pause_copy_ms,
               line->pause_model_ms, line->copied_model_ms, line->copy_ms_per_gib, line->guard_ms_per_gib,
               line->fault_ms_per_gib);
    }
    if (count > 0)
        putchar('\n');
}

static void print_sent(const Belay__Wire__JobStatus *job)
{
    struct sent sent;
    unsigned count = 0;
    for (size_t i = 0; i < job->n_lines; i++) {
        const Belay__Wire__LineStatus *line = job->lines[i];
        if (!look(line, &sent))
            continue;
        if (count++ == 0)
            printf("%6s %10s %10s %6s %8s %8s %13s %13s %12s\n", "line", "pages MiB", "sent MiB", "share",
                   "in pages", "in lines", "model page ms", "model line ms", "measured ms");
        printf("%6" PRIu64 " %10.2f %10.2f %6.2f %8" PRIu64 " %8" PRIu64 " %13.2f %13.2f %12.2f\n",
               line->line, line->sent_page_bytes / RENDER_MIB, line->sent_bytes / RENDER_MIB,
               line->sent_page_bytes > 0 ? (double)line->sent_bytes / (double)line->sent_page_bytes : 0,
               line->page_parts, line->line_parts, line->page_model_ms, line->line_model_ms,
               sent.measured_ms);
    }
    if (count == 0)
        puts("No changes were sent to other nodes.");
}

static int inspect_job(const Belay__Wire__JobStatus *job, bool is_json)
{
    if (is_json)
        return print_json(job);
    print_copies(job);
    print_sent(job);
    return fflush(stdout) ? EXIT_INTERNAL : EXIT_OK;
}

static int inspect(int argc, char **argv)
{
    return job_view(&argp, argc, argv, inspect_job);
}

const struct command command_inspect = {
    .name = "inspect",
    .summary = "show what lines copied and sent to other nodes, and what it cost",
    .argp = &argp,
    .run = inspect,
};
