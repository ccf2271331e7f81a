/*
 * attend.c - belay-arbiter: the arbiter of a launch on several hosts that has begun without `belay run`
 * (docs/hosts.md). Its first rank starts it, in the background:
 *
 *     belay-arbiter NAME HOSTS RANKS PLACEMENT PROGRAM     the job's name; the rest as in placement.h
 *     belay-arbiter await                                  stands for the launcher, which is not a child
 *
 * Standard output tells the ranks what they have to know (hosts.h, and the variables below), or, by an
 * empty text, that it has failed. Descriptor 3 is
 * a pidfd of the process whose end is the end of the launch.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/exit_codes.h"
#include "cmd/hosts.h"
#include "cmd/supervise.h"
#include "common/conf/conf.h"
#include "common/util/log.h"
#include "common/wire/board_client.h"
#include "common/wire/job_name.h"
#include "common/wire/placement.h"
#include "common/wire/settings.h"
#include "common/wire/streams.h"

#define LAUNCHER_FD 3

/* ---- in the place of the launcher ---- */

static void on_end(int number)
{
    (void)number;
    _exit(EXIT_OK); /* how the ranks have ended tells the rest */
}

/* Ranks take these as if the launcher had given them. */
static void tell_variables(void)
{
    static const char *const names[] = PLACEMENT_LAUNCH_VARIABLES;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        printf("%s=%s\n", names[i], getenv(names[i]) ? getenv(names[i]) : "");
    printf("\n");
    fflush(stdout);
}

static int await_launch(void)
{
    struct pollfd launcher = {.fd = LAUNCHER_FD, .events = POLLIN};
    signal(SIGTERM, on_end);
    tell_variables();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    while (poll(&launcher, 1, -1) < 0 && errno == EINTR)
        ;
    return EXIT_OK;
}

/* ---- the arbiter ---- */

static int read_hosts(struct hosts *hosts, char *words, struct belay_error *err)
{
    char *more = NULL;
    for (char *word = strtok_r(words, ",", &more); word; word = strtok_r(NULL, ",", &more)) {
        if (hosts->count == PLACEMENT_NODES_MAX || strlen(word) > HOST_NAME_MAX)
            return belay_error_set(err, EINVAL, "a job has agents on %u hosts at most", PLACEMENT_NODES_MAX);
        snprintf(hosts->of[hosts->count++].name, sizeof hosts->of[0].name, "%s", word);
    }
    return 0;
}

static int read_placement(struct hosts *hosts, const char *ranks, const char *words, struct belay_error *err)
{
    char *end;
    unsigned long count = strtoul(ranks, &end, 10);
    if (*end || count == 0 || count > STREAMS_MAX_RANKS)
        return belay_error_set(err, EINVAL, "a job has 1 to %u ranks", STREAMS_MAX_RANKS);
    hosts->ranks = (uint32_t)count;
    hosts->placement = calloc(count, sizeof *hosts->placement);
    if (!hosts->placement)
        return belay_error_set(err, ENOMEM, "out of memory");
    for (uint32_t rank = 0; rank < hosts->ranks; rank++) {
        if (placement_find(words, rank, hosts->ranks, &hosts->placement[rank], err) < 0)
            return -1;
        if (hosts->placement[rank] >= hosts->count)
            return belay_error_set(err, EINVAL, "rank %u is on no host", rank);
    }
    return 0;
}

/* A requeued job of which no node holds anything goes on from its archive, if it has one. */
static const char *find_archive(const struct job_plan *plan)
{
    static char folder[PATH_MAX], path[PATH_MAX];
    const char *given = getenv("BELAY_RESTART_ARCHIVE"), *base = conf_text(CONF_ARCHIVE, NULL);
    bool may_be_there = !given && plan->resumes && !*plan->resumes && base && job_name_is_valid(plan->name) &&
                        realpath(base, folder);
    if (!may_be_there || !supervise_has_archive(folder, plan->name) ||
        (size_t)snprintf(path, sizeof path, "%s/%s", folder, plan->name) >= sizeof path)
        return given;
    return path;
}

static int make_plan(struct job_plan *plan, struct hosts *hosts, char **arguments, struct belay_error *err)
{
    const char *life = getenv("BELAY_LIFE");
    plan->name = arguments[0];
    plan->program = arguments[4];
    plan->resumes = getenv("BELAY_RESTART");
    plan->archive = find_archive(plan);
    plan->life = life ? (uint32_t)strtoul(life, NULL, 10) : 0;
    plan->hosts = hosts;
    if (job_name_check(plan->name, err) || read_hosts(hosts, arguments[1], err) ||
        read_placement(hosts, arguments[2], arguments[3], err))
        return -1;
    return settings_read(&plan->settings, NULL, true, err);
}

/* Under Slurm, srun is to hear of the loss of this node. The descriptor stays open as long as this process.
 */
static void stay_at_board(void)
{
    struct belay_error err;
    const char *where = getenv(BOARD_VARIABLE);
    int sock = where ? board_open(where, 0, &err) : -1;
    if (where && (sock < 0 || board_stay(sock, &err) < 0))
        log_warning("srun will not hear of the loss of this node: %s", err.text);
}

static int attend(char **arguments)
{
    char self[PATH_MAX] = "";
    char *const stand_in[] = {self, (char *)(uintptr_t) "await", NULL};
    static struct hosts hosts;
    struct belay_error err = {0};
    struct job_plan plan = {.argv = stand_in, .settings = BELAY__WIRE__JOB_SETTINGS__INIT};
    int code = EXIT_USAGE;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        belay_error_errno(&err, "cannot read /proc/self/exe");
    stay_at_board();
    if (self[0] && make_plan(&plan, &hosts, arguments, &err) == 0)
        code = supervise(&plan);
    else
        log_error("%s", err.text);
    settings_release(&plan.settings);
    free(hosts.placement);
    printf("\n\n"); /* for ranks that still wait: it has failed, and has told why */
    fflush(stdout);
    return code;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "await"))
        return await_launch();
    if (argc != 6) {
        log_error("belay-arbiter is started by ranks of a launch on several hosts");
        return EXIT_USAGE;
    }
    pid_t pid = fork(); /* the rank is to have no child that it does not know of */
    if (pid > 0)
        _exit(EXIT_OK);
    if (pid < 0) {
        log_error("the job's arbiter cannot go to the background: %s", strerror(errno));
        return EXIT_INTERNAL;
    }
    return attend(argv + 1);
}
