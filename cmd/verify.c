/* belay verify - compare what a job's nodes hold with its sums, copies with their images, parity with a
 * recomputation. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/members.h"
#include "cmd/options.h"
#include "cmd/render.h"
#include "cmd/tool.h"
#include "common/util/log.h"
#include "common/wire/placement.h"
#include "common/wire/states.h"

#define ROUNDS 10u   /* lines may commit meanwhile, and are brought into the images */
#define PAUSE_MS 100 /* between rounds */

static const struct argp_option rows[] = {OPTION_JSON, {0}};

static const struct argp argp = {
    .options = rows,
    .parser = tool_options_parser,
    .args_doc = "[JOB]",
    .doc = "Compare what the nodes of a running job hold of its newest line: images with their sums, copies "
           "with the images, parity with a recomputation from the images."
           "\vJOB may be left out if exactly one runs. The exit code is 0 only if all that is held could be "
           "compared "
           "and agrees, 81 if anything differs, 74 if something could not be compared.",
};

/* What all nodes say. */
struct round {
    Belay__Wire__Reply *replies[PLACEMENT_NODES_MAX]; /* by node; NULL: none */
    char missing[PLACEMENT_NODES_MAX][96];            /* why; "": it is not asked */
    uint32_t nodes;
    bool is_whole; /* all could be compared, at one line */
};

/* What is said of them. */
struct finding {
    uint64_t line;
    uint32_t images, copies, tables, shared, parities, nodes;
    uint64_t bytes;
    uint32_t different, unknown;
};

/* ---- the nodes are asked ---- */

/* Spares have no part in the line. */
static bool has_part(const Belay__Wire__JobStatus *status, uint32_t node)
{
    for (size_t i = 0; i < status->n_nodes; i++)
        if (status->nodes[i]->number == node)
            return strcmp(status->nodes[i]->state, "lost") != 0 &&
                   strcmp(status->nodes[i]->state, "spare") != 0;
    return true;
}

static void ask_node(const struct tool *tool, const Belay__Wire__JobStatus *status, uint32_t number,
                     struct round *round)
{
    struct belay_error err = {.code = ENOTCONN, .text = "it does not answer"};
    struct tool node;
    if (status->node_count <= 1) {
        round->replies[number] = call_verify(&tool->agent, status->job, &err);
    } else if (members_open(&node, tool, status->nodes_dir, number)) {
        if (node.agent.sock >= 0)
            round->replies[number] = call_verify(&node.agent, status->job, &err);
        tool_close(&node);
    }
    if (!round->replies[number])
        snprintf(round->missing[number], sizeof round->missing[number], "%.95s", err.text);
}

static uint64_t newest_line(const struct round *round)
{
    uint64_t line = 0;
    for (uint32_t i = 0; i < round->nodes; i++)
        if (round->replies[i] && round->replies[i]->verified->line > line)
            line = round->replies[i]->verified->line;
    return line;
}

/* A node that holds nothing has nothing to compare. */
static bool is_whole(const struct round *round)
{
    uint64_t line = newest_line(round);
    for (uint32_t i = 0; i < round->nodes; i++) {
        const Belay__Wire__Verified *said = round->replies[i] ? round->replies[i]->verified : NULL;
        if (round->missing[i][0] || (said && said->n_parts > 0 && said->line != line))
            return false;
        for (size_t at = 0; said && at < said->n_parts; at++)
            if (said->parts[at]->result == BELAY__WIRE__PART_RESULT__PART_UNKNOWN)
                return false;
    }
    return line > 0;
}

static void round_release(struct round *round)
{
    for (uint32_t i = 0; i < round->nodes; i++)
        calls_free(round->replies[i]);
    *round = (struct round){0};
}

static void ask_all(const struct tool *tool, const Belay__Wire__JobStatus *status, struct round *round)
{
    *round = (struct round){.nodes = status->node_count > 1 ? status->node_count : 1};
    if (round->nodes > PLACEMENT_NODES_MAX)
        round->nodes = PLACEMENT_NODES_MAX;
    for (uint32_t i = 0; i < round->nodes; i++)
        if (has_part(status, i))
            ask_node(tool, status, i, round);
    round->is_whole = is_whole(round);
}

/* ---- what they say ---- */

static const char *name_of(const Belay__Wire__PartCheck *part, char *text, size_t bytes)
{
    static const char *const names[] = {
        [BELAY__WIRE__PART_KIND__PART_NONE] = "part %u",
        [BELAY__WIRE__PART_KIND__PART_IMAGE] = "the image of rank %u",
        [BELAY__WIRE__PART_KIND__PART_SHARED] = "what rank %u shares with others",
        [BELAY__WIRE__PART_KIND__PART_PARITY] = "the parity of slot %u",
        [BELAY__WIRE__PART_KIND__PART_TABLES] = "the tables of rank %u",
    };
    uint32_t kind = part->kind <= BELAY__WIRE__PART_KIND__PART_TABLES ? (uint32_t)part->kind : 0;
    snprintf(text, bytes, names[kind], part->rank);
    return text;
}

static void complain(const char *job, uint32_t node, const Belay__Wire__PartCheck *part, const char *why)
{
    char name[64];
    log_error("job \"%s\": %s of line %" PRIu64 " on node %" PRIu32 ": %s", job,
              name_of(part, name, sizeof name), part->line, node, why);
}

static bool is_same_root(const Belay__Wire__PartCheck *one, const Belay__Wire__PartCheck *other)
{
    return one->root.len == other->root.len && !memcmp(one->root.data, other->root.data, one->root.len);
}

/* An image, and the tables of it elsewhere, have one root. */
static bool is_copy(const Belay__Wire__PartCheck *one, const Belay__Wire__PartCheck *other)
{
    bool is_shared = one->kind == BELAY__WIRE__PART_KIND__PART_SHARED;
    return one->kind != BELAY__WIRE__PART_KIND__PART_PARITY &&
           other->kind != BELAY__WIRE__PART_KIND__PART_PARITY &&
           is_shared == (other->kind == BELAY__WIRE__PART_KIND__PART_SHARED) && one->rank == other->rank &&
           one->line == other->line && one->root.len > 0 && other->root.len > 0;
}

/* The node before this one that holds the same part; round->nodes: none. */
static uint32_t find_other(const struct round *round, uint32_t node, const Belay__Wire__PartCheck *part,
                           const Belay__Wire__PartCheck **other)
{
    for (uint32_t i = 0; i < node; i++)
        for (size_t at = 0; round->replies[i] && at < round->replies[i]->verified->n_parts; at++) {
            *other = round->replies[i]->verified->parts[at];
            if (is_copy(part, *other))
                return i;
        }
    return round->nodes;
}

static void count_part(const struct round *round, uint32_t node, const Belay__Wire__PartCheck *part,
                       struct finding *finding, const char **why, char *text, size_t bytes)
{
    const Belay__Wire__PartCheck *other = NULL;
    uint32_t its = find_other(round, node, part, &other);
    bool is_image = part->kind == BELAY__WIRE__PART_KIND__PART_IMAGE;
    finding->bytes += part->bytes;
    finding->images += is_image && (its == round->nodes || other->kind != part->kind);
    finding->copies += is_image && its < round->nodes && other->kind == part->kind;
    finding->tables += part->kind == BELAY__WIRE__PART_KIND__PART_TABLES;
    finding->shared += part->kind == BELAY__WIRE__PART_KIND__PART_SHARED;
    finding->parities += part->kind == BELAY__WIRE__PART_KIND__PART_PARITY;
    *why = part->result == BELAY__WIRE__PART_RESULT__PART_AGREES ? NULL : part->text;
    if (!*why && its < round->nodes && !is_same_root(part, other)) {
        snprintf(text, bytes, "it is not what node %" PRIu32 " holds of it", its);
        *why = text;
    }
    if (part->result == BELAY__WIRE__PART_RESULT__PART_UNKNOWN)
        finding->unknown++;
    else if (*why)
        finding->different++;
}

static void look(const struct round *round, const char *job, struct finding *finding)
{
    char text[64];
    *finding = (struct finding){.line = newest_line(round)};
    for (uint32_t i = 0; i < round->nodes; i++) {
        const Belay__Wire__Verified *said = round->replies[i] ? round->replies[i]->verified : NULL;
        if (round->missing[i][0]) {
            log_error("job \"%s\": what node %" PRIu32 " holds is not compared: %s", job, i,
                      round->missing[i]);
            finding->unknown++;
        }
        finding->nodes += said && said->n_parts > 0;
        if (said && said->n_parts > 0 && said->line != finding->line) {
            log_error("job \"%s\": node %" PRIu32 " holds line %" PRIu64 ", others line %" PRIu64, job, i,
                      said->line, finding->line);
            finding->unknown++;
        }
        for (size_t at = 0; said && at < said->n_parts; at++) {
            const char *why;
            count_part(round, i, said->parts[at], finding, &why, text, sizeof text);
            if (why)
                complain(job, i, said->parts[at], why);
        }
    }
}

static json_t *tell_part(uint32_t node, const Belay__Wire__PartCheck *part)
{
    static const char *const kinds[] = {"none", "image", "shared", "parity", "tables"};
    static const char *const results[] = {"unknown", "agrees", "differs"};
    return json_pack("{s:i, s:s, s:i, s:I, s:s, s:I, s:o}", "node", (int)node, "kind",
                     part->kind <= BELAY__WIRE__PART_KIND__PART_TABLES ? kinds[part->kind] : kinds[0],
                     part->kind == BELAY__WIRE__PART_KIND__PART_PARITY ? "slot" : "rank", (int)part->rank,
                     "line", (json_int_t)part->line, "result",
                     part->result <= BELAY__WIRE__PART_RESULT__PART_DIFFERS ? results[part->result]
                                                                            : results[0],
                     "bytes", (json_int_t)part->bytes, "text", render_text_json(part->text));
}

static int print_json(const char *job, const struct round *round, const struct finding *finding)
{
    json_t *parts = json_array();
    for (uint32_t i = 0; i < round->nodes; i++)
        for (size_t at = 0; round->replies[i] && at < round->replies[i]->verified->n_parts; at++)
            json_array_append_new(parts, tell_part(i, round->replies[i]->verified->parts[at]));
    return render_print_json(json_pack("{s:o, s:I, s:i, s:i, s:I, s:o}", "job", render_text_json(job), "line",
                                       (json_int_t)finding->line, "different", (int)finding->different,
                                       "unknown", (int)finding->unknown, "bytes", (json_int_t)finding->bytes,
                                       "parts", parts));
}

static void print_text(const struct finding *finding)
{
    printf("line %" PRIu64 " on %" PRIu32 " %s: %" PRIu32 " images", finding->line, finding->nodes,
           finding->nodes == 1 ? "node" : "nodes", finding->images);
    if (finding->copies > 0)
        printf(", %" PRIu32 " copies", finding->copies);
    if (finding->tables > 0)
        printf(", %" PRIu32 " tables", finding->tables);
    if (finding->shared > 0)
        printf(", %" PRIu32 " of what ranks share", finding->shared);
    if (finding->parities > 0)
        printf(", parity of %" PRIu32 " slots", finding->parities);
    printf(" (%.1f MiB) agree\n", (double)finding->bytes / RENDER_MIB);
}

static int report(const char *job, const struct round *round, bool is_json)
{
    struct finding finding;
    look(round, job, &finding);
    if (finding.line == 0)
        log_error("job \"%s\": no line is committed that could be compared", job);
    if (is_json && print_json(job, round, &finding))
        return EXIT_INTERNAL;
    if (finding.different > 0)
        return EXIT_DIFFERS;
    if (finding.unknown > 0 || finding.line == 0)
        return EXIT_NO_LINE;
    if (!is_json)
        print_text(&finding);
    return fflush(stdout) ? EXIT_INTERNAL : EXIT_OK;
}

/* Of one round: what is different stays so, and what cannot be compared now may be a moment later. */
static int compare(const struct tool *tool, const Belay__Wire__JobStatus *status, bool is_json)
{
    static const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    static struct round round; /* too large for the stack */
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (i > 0)
            nanosleep(&pause, NULL);
        round_release(&round);
        ask_all(tool, status, &round);
        if (round.is_whole)
            break;
    }
    int code = report(status->job, &round, is_json);
    round_release(&round);
    return code;
}

static int verify_job(const struct tool *tool, const struct tool_options *options)
{
    struct belay_error err = {0};
    int code = tool_require_agent(tool, options->job);
    if (code != EXIT_OK)
        return code;
    Belay__Wire__JobStatus *status = tool_find_job(tool, options->job, &err);
    if (status && job_state_has_ended(job_state_from(status->job_state, status->state))) {
        belay_error_set(&err, ESRCH, "job \"%.64s\" has ended", status->job);
        job_status_free(status);
        status = NULL;
    }
    if (!status) {
        log_error("%s", err.text);
        return tool_exit_code(&err);
    }
    members_add_status(tool, status);
    code = compare(tool, status, options->is_json);
    job_status_free(status);
    return code;
}

static int verify(int argc, char **argv)
{
    return tool_run(&argp, argc, argv, false, verify_job);
}

const struct command command_verify = {
    .name = "verify",
    .summary = "compare what is held of a running job's newest line",
    .argp = &argp,
    .run = verify,
    .takes_slurm_job = true,
};
