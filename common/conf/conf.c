#include "common/conf/conf.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/duration.h"
#include "common/util/size.h"

#define YEAR_MS (366ull * 24 * 3600 * 1000)

static const struct conf_setting settings[CONF_END] = {
    [CONF_NAME] =
        {
            .name = "name",
            .letter = 'n',
            .variable = "BELAY_NAME",
            .argument = "JOB",
            .unit = CONF_UNIT_TEXT,
            .help = "Name of the job (default: made from the program's name and a number)",
        },
    [CONF_INTERVAL] =
        {
            .name = "interval",
            .letter = 'i',
            .variable = "BELAY_INTERVAL",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 10,
            .max = YEAR_MS,
            .zero_hint = "leave --interval out for lines on demand only",
            .help = "Take a recovery line every T: 500ms, 10s, 5m, 2h, a Slurm time, or auto: the interval "
                    "that wastes the least time (default: on demand only)",
        },
    [CONF_MTBF] =
        {
            .name = "mtbf",
            .variable = "BELAY_MTBF",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 1000,
            .max = 100 * YEAR_MS,
            .fallback = "24h",
            .help = "Mean time between failures of the job's nodes together, for --interval auto",
        },
    [CONF_DUTY_CYCLE] =
        {
            .name = "duty-cycle",
            .variable = "BELAY_DUTY_CYCLE",
            .argument = "PERCENT",
            .unit = CONF_UNIT_COUNT,
            .min = 1,
            .max = 99,
            .fallback = "99",
            .help =
                "Least percentage of the time in which the program runs undisturbed, with --interval auto",
        },
    [CONF_MAX_RESTARTS] =
        {
            .name = "max-restarts",
            .variable = "BELAY_MAX_RESTARTS",
            .argument = "N",
            .unit = CONF_UNIT_COUNT,
            .min = 0,
            .max = 1000000,
            .fallback = "3",
            .help = "Restart the job at most N times after a loss",
        },
    [CONF_MEMORY] =
        {
            .name = "memory",
            .variable = "BELAY_MEMORY",
            .argument = "SIZE",
            .unit = CONF_UNIT_SIZE,
            .min = 1 << 20,
            .max = INT64_MAX,
            .zero_hint = "leave --memory out for no limit",
            .help = "Memory that the job's images may take on a node: 512M, 4G (default: no limit)",
        },
    [CONF_RETENTION] =
        {
            .name = "retention",
            .variable = "BELAY_RETENTION",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 1000,
            .max = YEAR_MS,
            .fallback = "1h",
            .help = "How long images stay for 'belay restart' after a job was lost",
        },
    [CONF_UNDO_LIMIT] =
        {
            .name = "undo-limit",
            .variable = "BELAY_UNDO_LIMIT",
            .argument = "SIZE",
            .unit = CONF_UNIT_SIZE,
            .min = 4096,
            .max = INT64_MAX,
            .fallback = "1G",
            .help = "How much of overwritten and removed files each rank keeps, so that a restart can put "
                    "them back; a file beyond the limit is not protected",
        },
    [CONF_UNDO_TOTAL] =
        {
            .name = "undo-total",
            .variable = "BELAY_UNDO_TOTAL",
            .argument = "SIZE",
            .unit = CONF_UNIT_SIZE,
            .min = 4096,
            .max = INT64_MAX,
            .help = "How much of overwritten and removed files all ranks on a node keep together (default: "
                    "no limit, but a part of the file system stays free)",
        },
    [CONF_UNDO_DIR] =
        {
            .name = "undo-dir",
            .variable = "BELAY_UNDO_DIR",
            .argument = "DIR",
            .unit = CONF_UNIT_FOLDER,
            .help = "Directory for overwritten and removed files (default: in the run directory); on the "
                    "file system of the program's files it saves copying",
        },
    [CONF_ARCHIVE] =
        {
            .name = "archive",
            .variable = "BELAY_ARCHIVE",
            .argument = "DIR",
            .unit = CONF_UNIT_FOLDER,
            .help =
                "Write lines to files below DIR, which all hosts see, for 'belay restart --from'; files as "
                "they were at these lines are kept there, too, unless there is an --undo-dir",
        },
    [CONF_ARCHIVE_EVERY] =
        {
            .name = "archive-every",
            .variable = "BELAY_ARCHIVE_EVERY",
            .argument = "K|T",
            .unit = CONF_UNIT_TEXT,
            .fallback = "10m",
            .help = "Archive each K-th line, or the first line of each time T; and the last one of a halt",
        },
    [CONF_ARCHIVE_KEEP] =
        {
            .name = "archive-keep",
            .variable = "BELAY_ARCHIVE_KEEP",
            .argument = "M",
            .unit = CONF_UNIT_COUNT,
            .min = 1,
            .max = 1000,
            .fallback = "2",
            .help = "How many archived lines stay; older ones are removed",
        },
    [CONF_FILE_LIMIT] =
        {
            .name = "file-limit",
            .variable = "BELAY_FILE_LIMIT",
            .argument = "SIZE",
            .unit = CONF_UNIT_SIZE,
            .min = 4096,
            .max = 256 << 20,
            .fallback = "64M",
            .help =
                "How much of open files that only its own host has each rank takes along to another host; "
                "a rank with more of them cannot go on there",
        },
    [CONF_TRACKER] =
        {
            .name = "tracker",
            .variable = "BELAY_TRACKER",
            .argument = "NAME",
            .unit = CONF_UNIT_TEXT,
            .help = "How written pages are found: pagemap_scan, soft_dirty, bookkeeping or full (default: "
                    "the first of them that works here)",
        },
    [CONF_POLICY] =
        {
            .name = "policy",
            .variable = "BELAY_POLICY",
            .argument = "NAME",
            .unit = CONF_UNIT_TEXT,
            .help =
                "When written pages are copied: precopy (while the program runs, the rest in the pause), "
                "cow (after the pause, from protected memory), cll (as cow, by way of a pool of --pool), "
                "auto "
                "(precopy and cow combined), main_memory (all in the pause) or sequential (all in the pause, "
                "which lasts until the line has committed; default: precopy)",
        },
    [CONF_POOL] =
        {
            .name = "pool",
            .variable = "BELAY_POOL",
            .argument = "SIZE",
            .unit = CONF_UNIT_SIZE,
            .min = 1 << 20,
            .max = 1ll << 40,
            .fallback = "64M",
            .help = "With --policy cll: how much memory each rank has between protected pages and the line; "
                    "when it is full, the program waits at its next write to a protected page",
        },
    [CONF_CHILDREN] =
        {
            .name = "children",
            .variable = "BELAY_CHILDREN",
            .argument = "WORD",
            .unit = CONF_UNIT_TEXT,
            .help = "Lines while a rank has processes of its own that a restart could not bring back: hold "
                    "(none is taken) or lose (default: hold)",
        },
    [CONF_REDUNDANCY] =
        {
            .name = "redundancy",
            .variable = "BELAY_REDUNDANCY",
            .argument = "SCHEME",
            .unit = CONF_UNIT_TEXT,
            .help =
                "Which copies of images other nodes hold: SINGLE (none), PARTNER (each image is on a "
                "second node, so that the loss of one node is survived; default from two nodes on), "
                "XOR[:N] (parity over sets of N nodes, 8 if N is left out: the loss of one node of a set is "
                "survived, with 1/(N-1) of the memory of a copy) or RS:k+m (the loss of m nodes of a set of "
                "k+m "
                "is survived, with m/k of the memory of a copy)",
        },
    [CONF_GRANULARITY] =
        {
            .name = "granularity",
            .variable = "BELAY_GRANULARITY",
            .argument = "WORD",
            .unit = CONF_UNIT_TEXT,
            .help =
                "What is sent of a changed page to the node that holds a copy: page (all of it), line (the "
                "lines of 64 bytes that changed) or auto (what takes less time on this machine; default: "
                "auto)",
        },
    [CONF_COMPRESS] =
        {
            .name = "compress",
            .variable = "BELAY_COMPRESS",
            .argument = "WORD",
            .unit = CONF_UNIT_TEXT,
            .help =
                "Compress what a line sends to other nodes, while the link is slower than that takes: none, "
                "lz4 or zstd (default: none)",
        },
    [CONF_REPROTECT] =
        {
            .name = "reprotect",
            .variable = "BELAY_REPROTECT",
            .argument = "WORD",
            .unit = CONF_UNIT_TEXT,
            .help =
                "When copies and parity are made again that were lost with a node: now (at once, while the "
                "ranks run) or line (with the next line; default: now)",
        },
    [CONF_RESTORE] =
        {
            .name = "restore",
            .variable = "BELAY_RESTORE",
            .argument = "WORD",
            .unit = CONF_UNIT_TEXT,
            .help =
                "When a rank that moves to another node runs again: eager (once its image is there), demand "
                "(at once, while its image is fetched) or auto (demand where this machine can; default: "
                "eager)",
        },
    [CONF_TOUCHED_WINDOW] =
        {
            .name = "touched-window",
            .variable = "BELAY_TOUCHED_WINDOW",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 0,
            .max = 3600 * 1000,
            .fallback = "30s",
            .help =
                "With --restore demand, what a rank has written within T before the line comes before the "
                "rest of its image, or within a shorter time if that is enough (0: nothing does)",
        },
    [CONF_MIN_NODES] =
        {
            .name = "min-nodes",
            .variable = "BELAY_MIN_NODES",
            .argument = "N",
            .unit = CONF_UNIT_COUNT,
            .min = 1,
            .max = 64,
            .fallback = "1",
            .help =
                "After the loss of nodes go on only if N or more are left; else the job ends, and its images "
                "are kept",
        },
    [CONF_SPARES] =
        {
            .name = "spares",
            .variable = "BELAY_SPARES",
            .argument = "N",
            .unit = CONF_UNIT_COUNT,
            .min = 0,
            .max = 62,
            .fallback = "0",
            .help =
                "Nodes without ranks, beside those of the job: one takes the place of a node that is lost",
        },
    [CONF_FAILURE_DOMAINS] =
        {
            .name = "failure-domains",
            .variable = "BELAY_FAILURE_DOMAINS",
            .argument = "FILE",
            .unit = CONF_UNIT_FILE,
            .help = "Which nodes may be lost together: lines \"DOMAIN HOST...\", with --local the numbers of "
                    "nodes; "
                    "each image has its copy in another domain",
        },
    [CONF_LEASE] =
        {
            .name = "lease",
            .variable = "BELAY_LEASE",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 1000,
            .max = 3600 * 1000,
            .zero_hint = "leave --lease out for the usual one",
            .help = "How long the ranks of a node run on of which nothing is heard any more (default: 6s on "
                    "several hosts; on one machine none is needed)",
        },
    [CONF_COMEBACK] =
        {
            .name = "comeback",
            .variable = "BELAY_COMEBACK",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 0,
            .max = YEAR_MS,
            .fallback = "10s",
            .help =
                "Look for a lost node again after T, then after longer and longer times; once it is there, "
                "it is a spare (0: never)",
        },
    [CONF_HALT_AFTER_LINES] =
        {
            .name = "halt-after-lines",
            .variable = "BELAY_HALT_AFTER_LINES",
            .argument = "N",
            .unit = CONF_UNIT_COUNT,
            .min = 1,
            .max = 1000000000,
            .zero_hint = "leave --halt-after-lines out for no halt",
            .help = "End the job once N lines have been committed; its images are kept for 'belay restart'",
        },
    [CONF_HALT_AT] =
        {
            .name = "halt-at",
            .variable = "BELAY_HALT_AT",
            .argument = "TIME",
            .unit = CONF_UNIT_TEXT,
            .help = "At TIME (HH:MM[:SS] or YYYY-MM-DD[THH:MM[:SS]]) take a line and end the job; its images "
                    "are kept for 'belay restart'",
        },
    [CONF_HALT_BEFORE_LIMIT] =
        {
            .name = "halt-before-limit",
            .variable = "BELAY_HALT_BEFORE_LIMIT",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 1000,
            .max = YEAR_MS,
            .zero_hint = "leave --halt-before-limit out for no halt",
            .help = "The same T before Slurm ends the allocation by its time limit",
        },
    [CONF_RECALL] =
        {
            .name = "recall",
            .variable = "BELAY_RECALL",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 0,
            .max = YEAR_MS,
            .fallback = "60s",
            .help = "Call hosts that are silent and may hold what no other node has for T, before the job is "
                    "given up (0: not at all)",
        },
    [CONF_SCRUB_INTERVAL] =
        {
            .name = "scrub-interval",
            .variable = "BELAY_SCRUB_INTERVAL",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 0,
            .max = YEAR_MS,
            .fallback = "10m",
            .help =
                "How often images in memory are compared with their checksums while the job runs (0: never)",
        },
    [CONF_ENCRYPT] =
        {
            .name = "encrypt",
            .variable = "BELAY_ENCRYPT",
            .argument = "0|1",
            .unit = CONF_UNIT_FLAG,
            .min = 0,
            .max = 1,
            .fallback = "0",
            .help = "Encrypt all that agents of several nodes say to one another, images too; without it "
                    "everything is authenticated, and can be read on the way",
        },
    [CONF_FABRIC_PROVIDER] =
        {
            .name = "fabric-provider",
            .variable = "BELAY_FABRIC_PROVIDER",
            .argument = "NAME",
            .unit = CONF_UNIT_TEXT,
            .fallback = "tcp",
            .help = "The provider of libfabric by which agents of several nodes reach one another, as "
                    "fi_info(1) names it",
        },
    [CONF_FAN_OUT] =
        {
            .name = "fan-out",
            .variable = "BELAY_FAN_OUT",
            .argument = "N",
            .unit = CONF_UNIT_COUNT,
            .min = 2,
            .max = 1024,
            .fallback = "16",
            .help = "With how many others at most a node of a job speaks about lines: on more nodes they are "
                    "a tree, and N is the number of each one's children",
        },
    [CONF_RUNDIR] =
        {
            .name = "rundir",
            .variable = "BELAY_RUNDIR",
            .argument = "DIR",
            .unit = CONF_UNIT_TEXT,
            .help = "Directory of the agent's socket and records (default: /run/belay for root, else "
                    "$XDG_RUNTIME_DIR/belay or /tmp/belay-UID)",
        },
    [CONF_RECORD_AGE] =
        {
            .name = "record-age",
            .variable = "BELAY_RECORD_AGE",
            .argument = "T",
            .unit = CONF_UNIT_TIME,
            .min = 60000,
            .max = 100 * YEAR_MS,
            .fallback = "720h",
            .help = "How long records of ended jobs stay for 'belay list' and 'belay status'; an agent looks "
                    "at it when it starts",
        },
    [CONF_LOG] =
        {
            .name = "log",
            .variable = "BELAY_LOG",
            .argument = "LEVEL",
            .unit = CONF_UNIT_TEXT,
            .fallback = "info",
            .help = "How much is said: error, warning, info or debug",
        },
    [CONF_FAULT] =
        {
            .name = "fault",
            .variable = "BELAY_FAULT",
            .argument = "FAULTS",
            .unit = CONF_UNIT_TEXT,
            .help = "Fault points to fire, for tests",
        },
};

const struct conf_setting *conf_setting(enum conf_key key)
{
    return &settings[key];
}

const char *conf_text(enum conf_key key, const char *option)
{
    if (option)
        return option;
    const char *text = getenv(settings[key].variable);
    return text && *text ? text : settings[key].fallback;
}

static int parse_count(const char *text, uint64_t *value, struct belay_error *err)
{
    char *end = NULL;
    errno = 0;
    if (*text >= '0' && *text <= '9')
        *value = strtoull(text, &end, 10);
    if (!end || *end)
        return belay_error_set(err, EINVAL, "'%s' is not a whole number", text);
    return errno ? belay_error_set(err, ERANGE, "'%s' is too large a number", text) : 0;
}

static int parse_flag(const char *text, uint64_t *value, struct belay_error *err)
{
    *value = *text == '1';
    return (*text == '0' || *text == '1') && !text[1]
               ? 0
               : belay_error_set(err, EINVAL, "'%s' is neither 0 nor 1", text);
}

static int parse(enum conf_unit unit, const char *text, uint64_t *value, struct belay_error *err)
{
    if (unit == CONF_UNIT_TIME)
        return duration_parse(text, value, err);
    if (unit == CONF_UNIT_FLAG)
        return parse_flag(text, value, err);
    return unit == CONF_UNIT_SIZE ? size_parse(text, value, err) : parse_count(text, value, err);
}

/* A number as a user would write it; the result is text or a static string. */
static const char *format(enum conf_unit unit, uint64_t value, char text[DURATION_TEXT_BYTES])
{
    _Static_assert(DURATION_TEXT_BYTES == SIZE_TEXT_BYTES, "one buffer serves both");
    if (unit == CONF_UNIT_TIME)
        return duration_format(value, text);
    if (unit == CONF_UNIT_SIZE)
        return size_format(value, text);
    snprintf(text, DURATION_TEXT_BYTES, "%" PRIu64, value);
    return text;
}

static int check_range(const struct conf_setting *setting, uint64_t value, struct belay_error *err)
{
    char low[DURATION_TEXT_BYTES], high[DURATION_TEXT_BYTES];
    if (value == 0 && setting->zero_hint)
        return belay_error_set(err, EINVAL, "refused: %s", setting->zero_hint);
    if (value < setting->min)
        return belay_error_set(err, ERANGE, "less than the smallest value, %s",
                               format(setting->unit, setting->min, low));
    if (value > setting->max)
        return belay_error_set(err, ERANGE, "more than the largest value, %s",
                               format(setting->unit, setting->max, high));
    return 0;
}

int conf_number(enum conf_key key, const char *option, uint64_t *value, struct belay_error *err)
{
    const struct conf_setting *setting = &settings[key];
    const char *text = conf_text(key, option);
    uint64_t number = 0;
    if (text && (parse(setting->unit, text, &number, err) || check_range(setting, number, err)))
        return option ? belay_error_prefix(err, "--%s %s", setting->name, text)
                      : belay_error_prefix(err, "%s=%s", setting->variable, text);
    *value = number;
    return 0;
}

uint64_t conf_default(enum conf_key key)
{
    uint64_t value = 0;
    int rc = settings[key].fallback ? parse(settings[key].unit, settings[key].fallback, &value, NULL) : 0;
    assert(rc == 0);
    (void)rc;
    return value;
}

int conf_pace(const char *interval, const char *mtbf, const char *duty_cycle, struct conf_pace *pace,
              struct belay_error *err)
{
    const char *text = conf_text(CONF_INTERVAL, interval);
    uint64_t duty_percent = 0;
    *pace = (struct conf_pace){0};
    if (text && strcmp(text, "auto") == 0) {
        if (conf_number(CONF_MTBF, mtbf, &pace->mtbf_ms, err) ||
            conf_number(CONF_DUTY_CYCLE, duty_cycle, &duty_percent, err))
            return -1;
        pace->duty_percent = (uint32_t)duty_percent;
        return 0;
    }
    if (mtbf || duty_cycle)
        return belay_error_set(err, EINVAL, "--%s is for --interval auto", mtbf ? "mtbf" : "duty-cycle");
    return conf_number(CONF_INTERVAL, interval, &pace->interval_ms, err);
}

void conf_print(FILE *stream)
{
    for (int key = CONF_NONE + 1; key < CONF_END; key++) {
        const struct conf_setting *setting = &settings[key];
        fprintf(stream, "  %s=%s\n      %s", setting->variable, setting->argument, setting->help);
        if (setting->fallback)
            fprintf(stream, " (default: %s)", setting->fallback);
        fputs(".\n", stream);
    }
}
