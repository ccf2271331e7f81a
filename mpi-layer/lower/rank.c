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
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf/conf.h"
#include "common/util/escape.h"
#include "common/util/file_id.h"
#include "common/image/image.h"
#include "common/wire/client.h"
#include "common/wire/descriptor.h"
#include "common/wire/placement.h"
#include "common/wire/rundir.h"
#include "common/wire/settings.h"
#include "common/wire/streams.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/identity.h"
#include "mpi-layer/lower/vk_fd.h"

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

bool rank_has_other_hosts(const struct rank *rank)
{
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *hosts = getenv("SLURM_STEP_NUM_NODES");
    if (getenv("OMPI_COMM_WORLD_SIZE"))
        return here && strtoul(here, NULL, 10) < rank->ranks;
    return rank->ranks > 1 && hosts && strtoul(hosts, NULL, 10) > 1;
}

bool rank_is_first_here(void)
{
    const char *number = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    if (!number)
        number = getenv("SLURM_LOCALID");
    return !number || !strcmp(number, "0");
}

/* The program's name and the launch's id (of PMIx or Slurm; without a launcher, the process id). */
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

void rank_job_name(const char *program, char *name, size_t bytes)
{
    const char *given = getenv("BELAY_NAME");
    if (given)
        snprintf(name, bytes, "%s", given);
    else
        make_name(program, name, bytes);
}

/* An arbiter has told the agent all but name and epoch; without one, the environment says the rest. */
static int settings_from_environment(Belay__Wire__RankHello *hello, char *name, struct belay_error *err)
{
    const char *epoch = getenv("BELAY_EPOCH");
    hello->job = name;
    if (epoch)
        return parse_number("BELAY_EPOCH", epoch, &hello->epoch, err);
    return settings_read(hello->settings, NULL, true, err);
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
    rank->undo_fd = (int)vk_fd_own(fd);
    return 0;
}

static int take_kernel_ids(struct rank *rank, const Belay__Wire__RankWelcome *welcome,
                           struct belay_error *err)
{
    rank->kernel_ids = calloc(welcome->n_kernel_ids + 1, sizeof *rank->kernel_ids);
    if (!rank->kernel_ids)
        return belay_error_errno(err, "no memory for the agent's welcome");
    for (; rank->kernel_id_count < welcome->n_kernel_ids; rank->kernel_id_count++) {
        const Belay__Wire__KernelId *id = welcome->kernel_ids[rank->kernel_id_count];
        rank->kernel_ids[rank->kernel_id_count] = (struct rank_kernel_id){id->kind, id->id, id->kernel_id};
    }
    return 0;
}

static int take_devices(struct rank *rank, const Belay__Wire__RankWelcome *welcome, struct belay_error *err)
{
    size_t count = welcome->n_common_devices;
    rank->common_devices = calloc(count + 1, sizeof *rank->common_devices);
    if (!rank->common_devices)
        return belay_error_errno(err, "no memory for the agent's welcome");
    memcpy(rank->common_devices, welcome->common_devices, count * sizeof *rank->common_devices);
    rank->common_count = count;
    return 0;
}

/* It may be of another version, or confused; what it brings is mapped, waited for and restored. */
static int check_welcome(const Belay__Wire__RankHello *hello, const Belay__Wire__RankWelcome *welcome,
                         const int fds[6], unsigned fd_count, struct belay_error *err)
{
    const char *folder = welcome->undo_folder;
    bool is_folder = !folder[0] || (folder[0] == '/' && strlen(folder) < PATH_MAX);
    unsigned expected = (welcome->restore_line ? 5u : 4u) + (welcome->has_parcel ? 1u : 0u);
    struct stat st;
    if (fd_count != expected || (welcome->has_parcel && !welcome->restore_line) || !is_folder ||
        welcome->epoch == 0 || (hello->epoch && welcome->epoch != hello->epoch))
        return belay_error_set(err, EPROTO, "the agent's welcome makes no sense");
    if (descriptor_check_memory(fds[0], CONTROL_BYTES, "the control page", err) ||
        descriptor_check_kind(fds[1], DESCRIPTOR_EVENT, "what wakes the agent", err) ||
        descriptor_check_memory(fds[2], STREAMS_BYTES, "the memory of standard streams", err) ||
        descriptor_check_kind(fds[3], DESCRIPTOR_EVENT, "what wakes the reader of streams", err))
        return -1;
    if (welcome->has_parcel && (fstat(fds[5], &st) || !S_ISSOCK(st.st_mode)))
        return belay_error_set(err, EPROTO, "the agent's welcome makes no sense");
    return welcome->restore_line ? image_check_memfd(fds[4], err) : 0;
}

static void take_welcome(struct rank *rank, const Belay__Wire__RankWelcome *welcome, const int fds[6])
{
    snprintf(rank->job, sizeof rank->job, "%s", welcome->job);
    rank->epoch = welcome->epoch;
    rank->restore_line = welcome->restore_line;
    rank->undo_limit_bytes = welcome->undo_limit_bytes;
    rank->undo_total_bytes = welcome->undo_total_bytes;
    rank->file_limit_bytes = welcome->file_limit_bytes;
    rank->is_output_forwarded = welcome->is_output_forwarded;
    rank->event_fd = (int)vk_fd_own(fds[1]);
    rank->streams_fd = (int)vk_fd_own(fds[2]);
    rank->wake_fd = (int)vk_fd_own(fds[3]);
    rank->image_fd = welcome->restore_line ? (int)vk_fd_own(fds[4]) : -1;
    rank->parcel_fd = welcome->has_parcel ? (int)vk_fd_own(fds[5]) : -1;
}

static int map_control(struct rank *rank, int fd, struct belay_error *err)
{
    const struct control *control;
    void *at = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return belay_error_errno(err, "cannot map the control page");
    control = rank->control = at;
    if (control->magic != CONTROL_MAGIC || control->version_of_layout != CONTROL_VERSION ||
        control->rank != rank->rank || control->ranks != rank->ranks || control->epoch != rank->epoch)
        return belay_error_set(err, EPROTO,
                               "the agent is of another version; end its jobs and start it anew");
    return 0;
}

/* Of several hosts: the launcher must have put the rank where its place is. */
static int find_on_host(const char *hosts, uint32_t node, const char *above, char *path, size_t path_bytes,
                        struct belay_error *err)
{
    char name[HOST_NAME_MAX + 1];
    uint32_t here;
    if (gethostname(name, sizeof name) < 0)
        return belay_error_errno(err, "this host has no name");
    if (placement_find_host(hosts, name, &here, err) < 0)
        return -1;
    if (here != node)
        return belay_error_set(err, EXDEV,
                               "the launcher has put this rank on host %s, which is not its place", name);
    return node == 0 ? placement_rundir(path, path_bytes, above, 0, err)
                     : placement_host_rundir(path, path_bytes, above, name, err);
}

/* The run directory of the agent that has this rank. */
static int find_rundir(const struct rank *rank, char *path, size_t path_bytes, struct belay_error *err)
{
    const char *words = getenv(PLACEMENT_VARIABLE), *hosts = getenv(PLACEMENT_HOSTS_VARIABLE);
    char above[PATH_MAX];
    uint32_t node;
    if (!words)
        return rundir_resolve(path, path_bytes, true, err);
    if (rundir_resolve(above, sizeof above, false, err) ||
        placement_find(words, rank->rank, rank->ranks, &node, err))
        return -1;
    return hosts ? find_on_host(hosts, node, above, path, path_bytes, err)
                 : placement_rundir(path, path_bytes, above, node, err);
}

static int call_hello(struct rank *rank, const Belay__Wire__RankHello *hello, const char *belayd,
                      struct belay_error *err)
{
    char rundir[PATH_MAX];
    int fds[6] = {-1, -1, -1, -1, -1, -1}, result = -1;
    unsigned fd_count = 6;
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_RANK_HELLO;
    request.rank_hello = (Belay__Wire__RankHello *)(uintptr_t)hello;
    if (find_rundir(rank, rundir, sizeof rundir, err))
        return -1;
    int sock = agent_connect(rundir, belayd, err);
    if (sock < 0)
        return -1;
    Belay__Wire__Reply *reply = agent_call(sock, &request, fds, &fd_count, NULL, NULL, err);
    if (reply && reply->body_case != BELAY__WIRE__REPLY__BODY_RANK_WELCOME)
        belay_error_set(err, EPROTO, "the agent's welcome makes no sense");
    else if (reply && !check_welcome(hello, reply->rank_welcome, fds, fd_count, err)) {
        take_welcome(rank, reply->rank_welcome, fds);
        result = map_control(rank, fds[0], err);
        if (result == 0)
            result = open_undo_folder(rank, reply->rank_welcome, err);
        if (result == 0)
            result = take_kernel_ids(rank, reply->rank_welcome, err);
        if (result == 0)
            result = take_devices(rank, reply->rank_welcome, err);
    }
    if (reply)
        belay__wire__reply__free_unpacked(reply, NULL);
    if (result == 0)
        rank->sock = (int)vk_fd_own(sock);
    return result; /* if it has failed, this process ends */
}

int rank_hello(struct rank *rank, const char *program, const char *belayd, struct belay_error *err)
{
    uint8_t digest[IDENTITY_BYTES];
    char text[2 * PATH_MAX + 256], name[RANK_NAME_BYTES];
    Belay__Wire__RankHello hello = BELAY__WIRE__RANK_HELLO__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    rank->image_fd = -1;
    rank_job_name(program, name, sizeof name);
    hello.settings = &settings;
    if (identity_of(program, digest, text, sizeof text, err) || settings_from_environment(&hello, name, err))
        return -1;
    hello.rank = rank->rank;
    hello.ranks = rank->ranks;
    hello.pid = (uint32_t)getpid();
    if (getenv("PMIX_NAMESPACE"))
        hello.launch = getenv("PMIX_NAMESPACE");
    hello.program = (char *)(uintptr_t)program;
    hello.identity.data = digest;
    hello.identity.len = sizeof digest;
    hello.identity_text = text;
    hello.layout_version = LAYER_LAYOUT_VERSION;
    int rc = call_hello(rank, &hello, belayd, err);
    settings_release(&settings);
    return rc;
}
