/* belay advise - what each redundancy scheme would cost a job, and what it would survive. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/job_view.h"
#include "cmd/options.h"
#include "cmd/render.h"
#include "common/util/log.h"
#include "common/wire/states.h"
#include "coord/protection.h"

static const struct argp_option rows[] = {OPTION_JSON, {0}};

static const struct argp argp = {
    .options = rows,
    .parser = tool_options_parser,
    .args_doc = "[JOB]",
    .doc =
        "Show what redundancy schemes would cost the job per node, in memory, and in bytes and time of each "
        "line, and what they would survive: by the lines that it has committed."
        "\vJOB may be left out if exactly one runs, or if there is only one.",
};

/* What the job's lines tell. */
struct job_figures {
    uint32_t nodes;
    uint32_t lines; /* that the averages are of */
    struct protection_load load;
};

/* Those that the ranks ran on, spares not counted. */
static uint32_t count_nodes(const Belay__Wire__JobStatus *job)
{
    uint32_t count = 0;
    for (size_t i = 0; i < job->n_nodes; i++)
        count += job->nodes[i]->n_ranks > 0;
    return count > 0 ? count : job->node_count > 0 ? job->node_count : 1;
}

/* The first line is a whole image, and so is what a new partner gets: neither tells what a line changes. */
static bool is_of_changes(const Belay__Wire__LineStatus *line)
{
    return line_state_from(line->line_state, line->state) == LINE_STATE_COMMITTED &&
           line->dirty_bytes < line->image_bytes;
}

static struct job_figures look(const Belay__Wire__JobStatus *job)
{
    struct job_figures figures = {.nodes = count_nodes(job)};
    double dirty = 0, pages = 0, sent = 0, all_sent = 0, send_ms = 0;
    for (size_t i = 0; i < job->n_lines; i++) {
        const Belay__Wire__LineStatus *line = job->lines[i];
        all_sent += (double)line->sent_bytes;
        send_ms += line->send_ms;
        if (line->image_bytes > 0)
            figures.load.image_bytes = (double)line->image_bytes / figures.nodes;
        if (!is_of_changes(line))
            continue;
        figures.lines++;
        dirty += (double)line->dirty_bytes;
        pages += line->page_parts + line->line_parts > 0 ? (double)line->sent_page_bytes : 0;
        sent += line->page_parts + line->line_parts > 0 ? (double)line->sent_bytes : 0;
    }
    if (figures.lines > 0)
        figures.load.staged_bytes = dirty / figures.lines / figures.nodes;
    figures.load.sent_bytes = figures.load.staged_bytes * (pages > 0 ? sent / pages : 1);
    figures.load.send_s = all_sent > 0 && isfinite(send_ms) ? send_ms / 1e3 / all_sent : 0;
    return figures;
}

static json_t *tell_scheme(const struct protection_scheme *scheme, const struct job_figures *figures)
{
    struct protection_cost cost = protection_cost(scheme, &figures->load);
    return json_pack("{s:s, s:i, s:i, s:b, s:f, s:f, s:f, s:f, s:f}", "scheme", scheme->name, "set_nodes",
                     (int)protection_nodes(scheme), "losses", (int)protection_losses(scheme), "fits",
                     protection_nodes(scheme) <= figures->nodes, "memory_bytes", cost.memory_bytes,
                     "line_bytes", cost.line_bytes, "first_line_bytes", cost.first_bytes, "line_ms",
                     cost.line_ms, "first_line_ms", cost.first_ms);
}

static int print_json(const Belay__Wire__JobStatus *job, const struct job_figures *figures)
{
    json_t *schemes = json_array();
    for (unsigned i = 0; i < PROTECTION_SCHEMES; i++)
        json_array_append_new(schemes, tell_scheme(&protection_schemes[i], figures));
    json_t *all = json_pack("{s:o, s:i, s:i, s:f, s:f, s:f, s:f, s:o}", "job", render_text_json(job->job),
                            "nodes", (int)figures->nodes, "lines", (int)figures->lines, "image_bytes",
                            figures->load.image_bytes, "staged_bytes", figures->load.staged_bytes,
                            "sent_bytes", figures->load.sent_bytes, "send_bytes_per_s",
                            figures->load.send_s > 0 ? 1 / figures->load.send_s : 0.0, "schemes", schemes);
    return render_print_json(all) ? EXIT_INTERNAL : EXIT_OK;
}

static void print_time(double ms, bool is_known)
{
    if (is_known)
        printf(" %11.1f", ms);
    else
        printf(" %11s", "-");
}

static int print_text(const struct job_figures *figures)
{
    bool is_known = figures->load.send_s > 0;
    printf("%u nodes, per node: images %.1f MiB, a line changes %.1f MiB of them (average of %u), of which "
           "%.1f MiB "
           "would be sent\n\n",
           figures->nodes, figures->load.image_bytes / RENDER_MIB, figures->load.staged_bytes / RENDER_MIB,
           figures->lines, figures->load.sent_bytes / RENDER_MIB);
    printf("%-8s %11s %11s %11s %11s %11s  %s\n", "scheme", "memory MiB", "line MiB", "line ms", "first MiB",
           "first ms", "survives the loss of");
    for (unsigned i = 0; i < PROTECTION_SCHEMES; i++) {
        const struct protection_scheme *scheme = &protection_schemes[i];
        struct protection_cost cost = protection_cost(scheme, &figures->load);
        uint32_t losses = protection_losses(scheme), nodes = protection_nodes(scheme);
        printf("%-8s %11.1f %11.2f", scheme->name, cost.memory_bytes / RENDER_MIB,
               cost.line_bytes / RENDER_MIB);
        print_time(cost.line_ms, is_known || losses == 0);
        printf(" %11.1f", cost.first_bytes / RENDER_MIB);
        print_time(cost.first_ms, is_known || losses == 0);
        if (losses == 0)
            printf("  processes, no node");
        else
            printf("  %u of each %u nodes", losses, nodes);
        puts(nodes > figures->nodes ? " (more than there are)" : "");
    }
    if (!is_known)
        puts("\nNothing was sent to another node yet: the times are not known.");
    return fflush(stdout) ? EXIT_INTERNAL : EXIT_OK;
}

static int advise_job(const Belay__Wire__JobStatus *job, bool is_json)
{
    const struct job_figures figures = look(job);
    if (figures.load.image_bytes > 0)
        return is_json ? print_json(job, &figures) : print_text(&figures);
    log_error("job \"%s\" has committed no line: nothing is known of its memory", job->job);
    return EXIT_NO_JOB;
}

static int advise(int argc, char **argv)
{
    return job_view(&argp, argc, argv, advise_job);
}

const struct command command_advise = {
    .name = "advise",
    .summary = "show what redundancy schemes would cost a job",
    .argp = &argp,
    .run = advise,
};
