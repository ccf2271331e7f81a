#include "slurm-plugin/wish.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/archive/pace.h"
#include "common/util/duration.h"

#define INTERVAL_MIN_MS 10u
#define INTERVAL_MAX_MS (366ull * 24 * 3600 * 1000)

static const struct wish_row rows[WISH_KEYS] = {
    [WISH_INTERVAL] = {.option = "checkpoint-interval",
                       .variable = "BELAY_CHECKPOINT_INTERVAL",
                       .word = "interval",
                       .argument = "time",
                       .help = "protect MPI programs: take a recovery line of their memory every <time> "
                               "(minutes, m:s, h:m:s, d-h, d-h:m, d-h:m:s, or 30s, 5m, 2h, auto; 0: none)"},
    [WISH_DIR] = {.option = "checkpoint-dir",
                  .variable = "BELAY_CHECKPOINT_DIR",
                  .word = "dir",
                  .argument = "dir",
                  .help = "folder that all nodes share, where overwritten and removed files are kept until "
                          "the next line (default: each node keeps those of its tasks)"},
    [WISH_REDUNDANCY] = {.option = "checkpoint-redundancy",
                         .variable = "BELAY_CHECKPOINT_REDUNDANCY",
                         .word = "redundancy",
                         .argument = "scheme",
                         .help =
                             "SINGLE: no copies; PARTNER: another node holds a copy of each image, so that "
                             "the loss of a node is survived (default); XOR[:N], RS:k+m: sets of nodes hold "
                             "parity of their images"},
    [WISH_RESTART] = {.option = "restart-from",
                      .variable = "BELAY_RESTART_FROM",
                      .word = "restart-from",
                      .argument = "line|job:id|dir|none",
                      .help = "of a requeued job: go on from this line only, or, with none, from the start "
                              "(default: the newest line that nodes of the job still hold); job:<id>: go on "
                              "from the newest line that they hold of this earlier job; <dir>: from a line "
                              "that --checkpoint-archive has written there"},
    [WISH_ARCHIVE] = {.option = "checkpoint-archive",
                      .variable = "BELAY_CHECKPOINT_ARCHIVE",
                      .word = "archive",
                      .argument = "k|time",
                      .help =
                          "write each k-th line, or the first line of each <time> (30s, 5m, 2h), to files in "
                          "--checkpoint-dir, for --restart-from=<dir> (default: none)"},
};

const struct wish_row *wish_row(enum wish_key key)
{
    return &rows[key];
}

static bool is_none(const char *text)
{
    return !strcmp(text, "none") || !strcmp(text, "0");
}

static int check_interval(const char *given_by, const char *text, struct belay_error *err)
{
    uint64_t ms;
    if (is_none(text) || !strcmp(text, "auto"))
        return 0;
    if (duration_parse(text, &ms, err) < 0)
        return belay_error_prefix(err, "%s", given_by);
    if (ms == 0 || (ms >= INTERVAL_MIN_MS && ms <= INTERVAL_MAX_MS))
        return 0;
    return belay_error_set(err, ERANGE, "%s: '%s' is not between 10ms and a year", given_by, text);
}

/* Whether it is there is seen where it is used: the host that submits may see other file systems. */
static int check_dir(const char *given_by, const char *text, struct belay_error *err)
{
    return text[0] == '/' ? 0
                          : belay_error_set(err, EINVAL, "%s: '%s' is not the absolute path of a folder",
                                            given_by, text);
}

/* Whether the whole of a scheme's name with numbers was read; belay run looks at the numbers. */
static bool is_formed(const char *text, const char *format)
{
    char upper[16] = "";
    int end = 0;
    for (size_t i = 0; text[i] && i < sizeof upper - 1; i++)
        upper[i] = (char)toupper((unsigned char)text[i]);
    return sscanf(upper, format, &end) == 0 && end > 0 && text[end] == '\0';
}

static int check_redundancy(const char *given_by, const char *text, struct belay_error *err)
{
    if (!strcasecmp(text, "SINGLE") || !strcasecmp(text, "PARTNER") || !strcasecmp(text, "XOR") ||
        is_formed(text, "XOR:%*2u%n") || is_formed(text, "RS:%*2u+%*2u%n"))
        return 0;
    return belay_error_set(
        err, EINVAL, "%s: there is no scheme '%s': write SINGLE, PARTNER, XOR[:N] or RS:k+m", given_by, text);
}

bool wish_restart_is_folder(const char *text)
{
    return text[0] == '/';
}

/* A plain number counts lines here. */
static int check_archive(const char *given_by, const char *text, struct belay_error *err)
{
    struct archive_pace pace;
    if (is_none(text) || archive_pace_parse(text, &pace, NULL) == 0)
        return 0;
    return belay_error_set(err, EINVAL, "%s: '%s' is neither a number of lines nor a time", given_by, text);
}

bool wish_is_archived(const struct wish *wish)
{
    return wish->texts[WISH_ARCHIVE][0] && !is_none(wish->texts[WISH_ARCHIVE]);
}

/* Of ".../JOB.STEP-PROGRAM", also with "/line-N" behind it: the number of the job. */
static uint32_t job_of_folder(const char *text)
{
    for (const char *at = strchr(text, '/'); at; at = strchr(at + 1, '/')) {
        char *end;
        unsigned long long job = strtoull(at + 1, &end, 10);
        if (isdigit((unsigned char)at[1]) && *end == '.' && isdigit((unsigned char)end[1]) &&
            job <= UINT32_MAX)
            return (uint32_t)job;
    }
    return 0;
}

uint32_t wish_restart_job(const char *text)
{
    char *end;
    if (wish_restart_is_folder(text))
        return job_of_folder(text);
    if (strncmp(text, WISH_JOB, strlen(WISH_JOB)) != 0)
        return 0;
    const char *digits = text + strlen(WISH_JOB);
    unsigned long long job = strtoull(digits, &end, 10);
    return isdigit((unsigned char)digits[0]) && !*end && job <= UINT32_MAX ? (uint32_t)job : 0;
}

static int check_restart(const char *given_by, const char *text, struct belay_error *err)
{
    char *end;
    if (!strcmp(text, "none"))
        return 0;
    if (wish_restart_is_folder(text))
        return 0;
    if (strchr(text, '/'))
        return belay_error_set(err, EINVAL, "%s: '%s' is not the absolute path of a folder", given_by, text);
    if (!strncmp(text, WISH_JOB, strlen(WISH_JOB)))
        return wish_restart_job(text) > 0
                   ? 0
                   : belay_error_set(err, EINVAL, "%s: '%s' has no number of a job", given_by, text);
    errno = 0;
    unsigned long long line = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || line == 0)
        return belay_error_set(err, EINVAL, "%s: '%s' is neither the number of a line nor job:ID nor none",
                               given_by, text);
    return 0;
}

int wish_take(struct wish *wish, enum wish_key key, const char *given_by, const char *text,
              struct belay_error *err)
{
    static int (*const checks[WISH_KEYS])(const char *, const char *,
                                          struct belay_error *) = {[WISH_INTERVAL] = check_interval,
                                                                   [WISH_DIR] = check_dir,
                                                                   [WISH_REDUNDANCY] = check_redundancy,
                                                                   [WISH_RESTART] = check_restart,
                                                                   [WISH_ARCHIVE] = check_archive};
    if (!text[0])
        return belay_error_set(err, EINVAL, "%s: a value is missing", given_by);
    if (strlen(text) >= WISH_TEXT_BYTES || strpbrk(text, "\n\r"))
        return belay_error_set(err, EINVAL, "%s: the value cannot be used", given_by);
    if (checks[key](given_by, text, err) < 0)
        return -1;
    snprintf(wish->texts[key], sizeof wish->texts[key], "%s", text);
    for (char *at = wish->texts[key]; key == WISH_REDUNDANCY && *at; at++)
        *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    return 0;
}

void wish_fill(struct wish *wish, const struct wish *other)
{
    for (int key = 0; key < WISH_KEYS; key++)
        if (!wish->texts[key][0])
            memcpy(wish->texts[key], other->texts[key], sizeof wish->texts[key]);
}

bool wish_is_on(const struct wish *wish)
{
    struct belay_error ignored;
    const char *text = wish->texts[WISH_INTERVAL];
    uint64_t ms = 1;
    if (!text[0] || is_none(text))
        return false;
    return !strcmp(text, "auto") || (duration_parse(text, &ms, &ignored) == 0 && ms > 0);
}
