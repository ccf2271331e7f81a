/* rank.c - see rank.h. */
#include "mpi-layer/lower/rank.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf/conf.h"
#include "common/util/escape.h"
#include "common/util/file_id.h"
#include "common/wire/client.h"
#include "common/wire/rundir.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/identity.h"

/* Pairs of variables (rank, size), the most specific launcher first. */
static const char *const launcher_variables[][2] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

static int parse_number(const char *name, const char *text, uint32_t *value, struct belay_error *err)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    if (errno || *end || end == text || number > INT32_MAX)
        return belay_error_set(err, EINVAL, "%s=%s is not a number", name, text);
    *value = (uint32_t)number;
    return 0;
}

int rank_from_environment(struct rank *rank, struct belay_error *err)
{
    rank->rank = 0;
    rank->ranks = 1;
    for (size_t i = 0; i < sizeof launcher_variables / sizeof launcher_variables[0]; i++) {
        const char *const *names = launcher_variables[i];
        const char *number = getenv(names[0]), *count = getenv(names[1]);
        if (!number || !count)
            continue;
        if (parse_number(names[0], number, &rank->rank, err) ||
            parse_number(names[1], count, &rank->ranks, err))
            return -1;
        rank->variable = number - strlen(names[0]) - 1;
        break;
    }
    if (rank->rank >= rank->ranks)
        return belay_error_set(err, EINVAL, "the launcher says rank %u of %u", rank->rank, rank->ranks);
    return 0;
}

int rank_move_high(int fd)
{
    struct rlimit limit;
    int from = 512;
    if (fd < 0)
        return -1;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur > 64)
        from = limit.rlim_cur > 65536 ? 65000 : (int)limit.rlim_cur - 32;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, from);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

/*
 * A name for a job that nobody has named, the same on all ranks: the program's name and the launch's id
 * (of PMIx or Slurm; a program started without a launcher has its own process id).
 */
static void make_name(const char *program, char *name, size_t bytes)
{
    const char *launch = getenv("PMIX_NAMESPACE"), *base = strrchr(program, '/');
    char own[32];
    snprintf(own, sizeof own, "%d", (int)getpid());
    if (!launch)
        launch = getenv("SLURM_JOB_ID") ? getenv("SLURM_JOB_ID") : own;
    snprintf(name, bytes, "%.30s-%.30s", base ? base + 1 : program, launch);
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            *at = '_';
    if (name[0] == '.')
        name[0] = '_';
}

/* An arbiter has told the agent all but name and epoch; without one, the environment says the rest. */
static int settings_from_environment(Belay__Wire__RankHello *hello, char *name, struct belay_error *err)
{
    const char *epoch = getenv("BELAY_EPOCH"), *undo_dir = conf_text(CONF_UNDO_DIR, NULL),
               *tracker = conf_text(CONF_TRACKER, NULL), *policy = conf_text(CONF_POLICY, NULL);
    struct conf_pace pace;
    hello->job = getenv("BELAY_NAME");
    if (!hello->job)
        hello->job = name;
    if (epoch)
        return parse_number("BELAY_EPOCH", epoch, &hello->epoch, err);
    if (undo_dir)
        hello->undo_dir = (char *)(uintptr_t)undo_dir; /* only read */
    if (tracker)
        hello->tracker = (char *)(uintptr_t)tracker;
    if (policy)
        hello->policy = (char *)(uintptr_t)policy;
    if (conf_pace(NULL, NULL, NULL, &pace, err))
        return -1;
    hello->interval_ms = pace.interval_ms;
    hello->mtbf_ms = pace.mtbf_ms;
    hello->duty_percent = pace.duty_percent;
    return conf_number(CONF_MEMORY, NULL, &hello->memory_limit_bytes, err) ||
                   conf_number(CONF_RETENTION, NULL, &hello->retention_ms, err) ||
                   conf_number(CONF_UNDO_LIMIT, NULL, &hello->undo_limit_bytes, err) ||
                   conf_number(CONF_UNDO_TOTAL, NULL, &hello->undo_total_bytes, err)
               ? -1
               : 0;
}

/* The folder that the agent has made, not one that somebody has put in its place. */
static int open_undo_folder(struct rank *rank, const Belay__Wire__RankWelcome *welcome,
                            struct belay_error *err)
{
    struct file_id id = {.device = welcome->undo_device,
                         .inode = welcome->undo_inode,
                         .birth_ns = welcome->undo_birth_ns,
                         .uid = geteuid(),
                         .mode = S_IFDIR};
    char shown[ESCAPE_PATH_BYTES];
    rank->undo_fd = -1;
    if (!welcome->undo_folder[0])
        return 0;
    escape_text(shown, sizeof shown, welcome->undo_folder);
    int fd = open(welcome->undo_folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return belay_error_errno(err, "cannot open the undo directory %s", shown);
    if (!file_id_is_of(&id, fd)) {
        close(fd);
        return belay_error_set(err, EPERM, "the undo directory %s is not the one that the agent has made",
                               shown);
    }
    rank->undo_fd = rank_move_high(fd);
    return 0;
}

static int call_hello(struct rank *rank, const Belay__Wire__RankHello *hello, const char *belayd, int fds[5],
                      struct belay_error *err)
{
    char rundir[PATH_MAX];
    unsigned fd_count = 5;
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_RANK_HELLO;
    request.rank_hello = (Belay__Wire__RankHello *)(uintptr_t)hello;
    if (rundir_resolve(rundir, sizeof rundir, true, err))
        return -1;
    int sock = agent_connect(rundir, belayd, err);
    if (sock < 0)
        return -1;
    Belay__Wire__Reply *reply = agent_call(sock, &request, fds, &fd_count, NULL, NULL, err);
    if (!reply) {
        close(sock);
        return -1;
    }
    int result = 0;
    if (reply->body_case != BELAY__WIRE__REPLY__BODY_RANK_WELCOME ||
        fd_count != (reply->rank_welcome->restore_line ? 5u : 4u)) {
        result = belay_error_set(err, EPROTO, "the agent's welcome makes no sense");
        close(sock);
    } else {
        rank->epoch = reply->rank_welcome->epoch;
        rank->restore_line = reply->rank_welcome->restore_line;
        rank->undo_limit_bytes = reply->rank_welcome->undo_limit_bytes;
        rank->undo_total_bytes = reply->rank_welcome->undo_total_bytes;
        rank->is_output_forwarded = reply->rank_welcome->is_output_forwarded;
        rank->sock = rank_move_high(sock);
        result = open_undo_folder(rank, reply->rank_welcome, err);
    }
    belay__wire__reply__free_unpacked(reply, NULL);
    return result;
}

static int map_control(struct rank *rank, int fd, struct belay_error *err)
{
    void *at = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return belay_error_errno(err, "cannot map the control page");
    rank->control = at;
    if (rank->control->magic != CONTROL_MAGIC || rank->control->version_of_layout != CONTROL_VERSION)
        return belay_error_set(err, EPROTO,
                               "the agent is of another version; end its jobs and start it anew");
    return 0;
}

int rank_hello(struct rank *rank, const char *program, const char *belayd, struct belay_error *err)
{
    uint8_t digest[IDENTITY_BYTES];
    char text[2 * PATH_MAX + 256], name[64];
    int fds[5] = {-1, -1, -1, -1, -1};
    Belay__Wire__RankHello hello = BELAY__WIRE__RANK_HELLO__INIT;
    rank->image_fd = -1;
    make_name(program, name, sizeof name);
    if (identity_of(program, digest, text, sizeof text, err) || settings_from_environment(&hello, name, err))
        return -1;
    hello.rank = rank->rank;
    hello.ranks = rank->ranks;
    hello.pid = (uint32_t)getpid();
    hello.program = (char *)(uintptr_t)program;
    hello.identity.data = digest;
    hello.identity.len = sizeof digest;
    hello.identity_text = text;
    hello.layout_version = LAYER_LAYOUT_VERSION;
    if (call_hello(rank, &hello, belayd, fds, err))
        return -1;
    rank->event_fd = rank_move_high(fds[1]);
    rank->streams_fd = rank_move_high(fds[2]);
    rank->wake_fd = rank_move_high(fds[3]);
    if (rank->restore_line)
        rank->image_fd = rank_move_high(fds[4]);
    return map_control(rank, fds[0], err);
}
