#include "cmd/halt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/string_list.h"
#include "common/util/clock.h"
#include "common/util/log.h"

#define ASK_AGAIN_MS 3000   /* after a line was asked for in vain */
#define CHILD_LOOK_MS 200   /* for the end of what takes the line */
#define CLOCK_LOOK_MS 30000 /* a clock may be set anew, and a timeout of poll() has 31 bits */

/* ---- what is asked for ---- */

/* Whether all of the text is of the format. */
static bool has_format(const char *text, const char *format, struct tm *time)
{
    const char *rest = strptime(text, format, time);
    return rest && !*rest;
}

static bool read_clock(const char *text, struct tm *time)
{
    return has_format(text, "%H:%M", time) || has_format(text, "%H:%M:%S", time);
}

static bool read_date(const char *text, struct tm *time)
{
    return has_format(text, "%Y-%m-%d", time) || has_format(text, "%Y-%m-%dT%H:%M", time) ||
           has_format(text, "%Y-%m-%dT%H:%M:%S", time);
}

int halt_parse_time(const char *text, int64_t now_s, int64_t *at_s, struct belay_error *err)
{
    const time_t now = (time_t)now_s;
    struct tm today, date = {.tm_isdst = -1};
    if (!localtime_r(&now, &today))
        return belay_error_errno(err, "the present time is not known");
    struct tm clock = {
        .tm_year = today.tm_year, .tm_mon = today.tm_mon, .tm_mday = today.tm_mday, .tm_isdst = -1};
    bool is_clock = read_clock(text, &clock);
    if (!is_clock && !read_date(text, &date))
        return belay_error_set(
            err, EINVAL, "'%s' is no time: write HH:MM, HH:MM:SS, YYYY-MM-DD or YYYY-MM-DDTHH:MM[:SS]", text);
    time_t at = mktime(is_clock ? &clock : &date);
    if (is_clock && at <= now) {
        clock.tm_mday++;
        clock.tm_isdst = -1;
        at = mktime(&clock);
    }
    if (at <= now)
        return belay_error_set(err, ERANGE, "'%s' is past", text);
    *at_s = at;
    return 0;
}

static int prefix(struct belay_error *err, enum conf_key key, const char *text)
{
    return belay_error_prefix(err, "--%s %s", conf_setting(key)->name, text);
}

/* The end of the allocation by its limit, as squeue writes it. */
static int ask_limit(int64_t now_s, int64_t *end_s, struct belay_error *err)
{
    const char *job = getenv("SLURM_JOB_ID");
    char command[96], said[64] = "";
    if (!job || !*job || strlen(job) != strspn(job, "0123456789"))
        return belay_error_set(err, EINVAL, "this is not in a job of Slurm's");
    snprintf(command, sizeof command, "squeue -h -j %.20s -o %%e 2>/dev/null", job);
    FILE *pipe = popen(command, "re");
    if (!pipe)
        return belay_error_errno(err, "squeue cannot be run");
    if (!fgets(said, sizeof said, pipe))
        said[0] = '\0';
    pclose(pipe);
    said[strcspn(said, "\n")] = '\0';
    if (halt_parse_time(said, now_s, end_s, err) == 0)
        return 0;
    return belay_error_set(err, EINVAL, "Slurm tells no time limit of job %.20s", job);
}

static int read_limit(struct halt_plan *plan, const char *option, int64_t now_s, struct belay_error *err)
{
    uint64_t before_ms;
    int64_t end_s;
    const char *text = conf_text(CONF_HALT_BEFORE_LIMIT, option);
    if (!text)
        return 0;
    if (conf_number(CONF_HALT_BEFORE_LIMIT, option, &before_ms, err) < 0)
        return -1;
    if (ask_limit(now_s, &end_s, err) < 0)
        return prefix(err, CONF_HALT_BEFORE_LIMIT, text);
    const int64_t at_s = end_s - (int64_t)(before_ms / 1000);
    if (plan->at_s && plan->at_s <= at_s)
        return 0;
    plan->at_s = at_s;
    plan->at_name = CONF_HALT_BEFORE_LIMIT;
    return 0;
}

int halt_read(struct halt_plan *plan, const char *const texts[CONF_END], struct belay_error *err)
{
    const int64_t now_s = time(NULL);
    const char *at = conf_text(CONF_HALT_AT, texts[CONF_HALT_AT]);
    *plan = (struct halt_plan){0};
    if (conf_number(CONF_HALT_AFTER_LINES, texts[CONF_HALT_AFTER_LINES], &plan->after_lines, err) < 0)
        return -1;
    if (at && halt_parse_time(at, now_s, &plan->at_s, err) < 0)
        return prefix(err, CONF_HALT_AT, at);
    plan->at_name = at ? CONF_HALT_AT : CONF_NONE;
    return read_limit(plan, texts[CONF_HALT_BEFORE_LIMIT], now_s, err);
}

bool halt_is_wanted(const struct halt_plan *plan)
{
    return plan->after_lines || plan->at_s;
}

/* ---- while the job runs ---- */

static bool is_time(const struct halt *halt)
{
    return halt->plan.at_s && time(NULL) >= halt->plan.at_s;
}

void halt_note_line(struct halt *halt, uint64_t line)
{
    if (line <= halt->newest_line || halt->is_met)
        return;
    halt->newest_line = line;
    halt->lines++;
    halt->is_met = is_time(halt) || (halt->plan.after_lines && halt->lines >= halt->plan.after_lines);
}

/* `belay checkpoint JOB`, which tells why there is no line, but once only. Returns 0, or an error's number.
 */
static int spawn(struct halt *halt, char *path, char **environment)
{
    char *argv[] = {path, (char *)(uintptr_t) "checkpoint", (char *)(uintptr_t)halt->job, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (halt->has_asked)
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setsigmask(&attributes, halt->signal_mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int code = posix_spawn(&halt->child, path, &actions, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* Ours, but for the run directory: that of this job. Other threads may read ours. NULL: no memory. */
static char **child_environment(const char *rundir)
{
    struct string_list list = {0};
    int rc = string_list_addf(&list, "%s=%s", conf_setting(CONF_RUNDIR)->variable, rundir);
    const size_t bytes = strcspn(list.items ? list.items[0] : "", "=") + 1;
    for (char **at = environ; *at && rc == 0; at++)
        if (strncmp(*at, list.items[0], bytes) != 0)
            rc = string_list_add(&list, *at);
    if (rc == 0)
        return list.items;
    string_list_free(list.items);
    return NULL;
}

static void take_line(struct halt *halt)
{
    char path[PATH_MAX], **environment = child_environment(halt->rundir);
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    int code = environment ? spawn(halt, path, environment) : ENOMEM;
    string_list_free(environment);
    if (code != 0) {
        halt->child = 0;
        log_warning("%s: a line is due, and %s cannot be run: %s", halt->job, path, strerror(code));
    }
    halt->has_asked = true;
    halt->ask_at_ms = clock_now_ms() + ASK_AGAIN_MS;
}

void halt_look(struct halt *halt)
{
    if (halt->child > 0 && waitpid(halt->child, NULL, WNOHANG) == halt->child) {
        halt->child = 0;
        halt->ask_at_ms = clock_now_ms() + ASK_AGAIN_MS;
    }
    if (halt->child == 0 && !halt->is_met && is_time(halt) && clock_now_ms() >= halt->ask_at_ms)
        take_line(halt);
}

long long halt_look_at_ms(const struct halt *halt)
{
    const long long now_ms = clock_now_ms(), left_ms = (halt->plan.at_s - time(NULL)) * 1000;
    if (halt->child > 0)
        return now_ms + CHILD_LOOK_MS;
    if (halt->plan.at_s == 0 || halt->is_met)
        return 0;
    if (left_ms <= 0)
        return halt->ask_at_ms > now_ms ? halt->ask_at_ms : now_ms + 1;
    return now_ms + (left_ms < CLOCK_LOOK_MS ? left_ms : CLOCK_LOOK_MS);
}

void halt_end_child(struct halt *halt)
{
    if (halt->child <= 0)
        return;
    kill(halt->child, SIGKILL);
    waitpid(halt->child, NULL, 0);
    halt->child = 0;
}

const char *halt_reason(const struct halt *halt, char text[64])
{
    bool is_count = halt->plan.after_lines && halt->lines >= halt->plan.after_lines;
    enum conf_key key = is_count ? CONF_HALT_AFTER_LINES : halt->plan.at_name;
    snprintf(text, 64, "--%s", conf_setting(key)->name);
    return text;
}
