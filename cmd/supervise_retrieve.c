/*
 * supervise_retrieve.c - `belay restart --from`: the images of an archived line are taken into the memory of
 * the job's nodes, which then hold the job as one that was lost. What follows is any restart.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/exit_codes.h"
#include "cmd/string_list.h"
#include "cmd/supervise.h"
#include "cmd/supervise_state.h"
#include "common/archive/folder.h"
#include "common/archive/manifest.h"
#include "common/util/escape.h"
#include "common/util/file_id.h"
#include "common/util/log.h"
#include "common/wire/epoch_record.h"
#include "common/wire/job_name.h"
#include "common/wire/settings.h"
#include "coord/epoch_message.h"

/* ---- which line ---- */

/* The newest whole one; 0: none. */
static uint64_t newest_line(const char *folder)
{
    size_t count;
    int fd = archive_open_path(folder, NULL);
    uint64_t newest = 0, *lines = fd >= 0 ? archive_list_lines(fd, &count) : NULL;
    for (size_t i = 0; lines && i < count; i++)
        if (archive_is_complete(fd, lines[i]))
            newest = lines[i];
    free(lines);
    if (fd >= 0)
        close(fd);
    return newest;
}

static int append(char path[PATH_MAX], const char *name, struct belay_error *err)
{
    size_t used = strlen(path);
    return (size_t)snprintf(path + used, PATH_MAX - used, "/%s", name) < PATH_MAX - used
               ? 0
               : belay_error_set(err, ENAMETOOLONG, "the path of the archive is too long");
}

bool supervise_has_archive(const char *base, const char *job)
{
    char path[PATH_MAX];
    return (size_t)snprintf(path, sizeof path, "%s/%s", base, job) < sizeof path && newest_line(path) > 0;
}

/* A step of a job of Slurm's is known by its own number and its program (slurm-plugin/words.h). */
static bool is_step_of(const char *name, const char *step)
{
    const char *one = strchr(name, '.'), *other = strchr(step, '.');
    return one && other && !strcmp(one, other);
}

static bool is_wanted(const struct supervisor *s, const char *name)
{
    const char *wanted = s->plan->name;
    return !wanted || !strcmp(wanted, name) || (s->plan->hosts && is_step_of(name, wanted));
}

/* Below the folder of an archive: the job that is named, or the only one. */
static int find_job(const struct supervisor *s, char path[PATH_MAX], struct belay_error *err)
{
    char found[NAME_MAX + 1] = "";
    unsigned count = 0;
    DIR *names = opendir(path);
    for (struct dirent *name; names && (name = readdir(names));) {
        if (!job_name_is_valid(name->d_name) || !is_wanted(s, name->d_name) ||
            !supervise_has_archive(path, name->d_name))
            continue;
        count++;
        snprintf(found, sizeof found, "%s", name->d_name);
    }
    if (names)
        closedir(names);
    if (count > 1)
        return belay_error_set(err, EINVAL, "several jobs have archived lines there: name one (DIR/JOB)");
    return count == 1 ? append(path, found, err)
                      : belay_error_set(err, ENOENT, "no archived line is there that is whole");
}

/* DIR, DIR/JOB or DIR/JOB/line-N; path becomes the last one. */
static int find_line(const struct supervisor *s, char path[PATH_MAX], struct belay_error *err)
{
    char name[ARCHIVE_NAME_BYTES];
    if (archive_line_of(strrchr(path, '/') + 1) > 0)
        return 0;
    uint64_t line = newest_line(path);
    if (line == 0 && find_job(s, path, err) < 0)
        return -1;
    if (line == 0)
        line = newest_line(path);
    archive_line_name(line, name);
    return append(path, name, err);
}

static int read_manifest(struct supervisor *s, struct belay_error *err)
{
    int folder = archive_open_path(s->archive_folder, err);
    s->manifest = folder >= 0 ? archive_manifest_read(folder, err) : NULL;
    if (folder >= 0)
        close(folder);
    if (!s->manifest)
        return -1;
    if (s->manifest->line != archive_line_of(strrchr(s->archive_folder, '/') + 1))
        return belay_error_set(err, EBADMSG, "it is of line %" PRIu64, s->manifest->line);
    if (!is_wanted(s, s->manifest->job->job))
        return belay_error_set(err, EINVAL, "it is of job \"%s\"", s->manifest->job->job);
    return 0;
}

/* The plan is the archived job's now. */
static int make_plan(struct supervisor *s, struct belay_error *err)
{
    const Belay__Wire__JobOpen *job = s->manifest->job;
    struct job_plan *plan = malloc(sizeof *plan);
    if (!plan || settings_merge(&s->settings, job->settings) < 0) {
        free(plan);
        return belay_error_set(err, ENOMEM, "out of memory");
    }
    *plan = *s->plan;
    plan->name = job->job;
    plan->is_restart = true;
    uint32_t spares = (uint32_t)s->settings.spares;
    if (job->n_host_names == 0 && job->node_count > spares + 1 && !plan->hosts)
        plan->nodes = job->node_count - spares;
    s->resumed = plan;
    s->plan = plan;
    return 0;
}

int supervise_find_archive(struct supervisor *s, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    if (!s->plan->archive)
        return 0;
    if (!realpath(s->plan->archive, s->archive_folder))
        return belay_error_errno(err, "cannot go on from %s",
                                 escape_text(shown, sizeof shown, s->plan->archive));
    if (find_line(s, s->archive_folder, err) < 0 || read_manifest(s, err) < 0)
        return belay_error_prefix(err, "cannot go on from %s",
                                  escape_text(shown, sizeof shown, s->archive_folder));
    return make_plan(s, err);
}

/* ---- where its ranks go ---- */

static uint32_t member_count(const struct supervisor *s)
{
    uint32_t spares = (uint32_t)s->settings.spares;
    return s->nodes.count > spares ? s->nodes.count - spares : 1;
}

static bool has_shared(const struct supervisor *s)
{
    return s->manifest->n_parts > s->manifest->ranks;
}

/* Where it ran; on fewer nodes, several of the former ones are one. The launcher may have placed it already.
 */
static uint32_t node_of(const struct supervisor *s, uint32_t rank)
{
    bool is_placed = s->plan->hosts && s->hosts.ranks == s->manifest->ranks && !has_shared(s);
    return is_placed ? s->hosts.placement[rank] : s->manifest->nodes[rank] % member_count(s);
}

static int find_nodes(struct supervisor *s, struct belay_error *err)
{
    const Belay__Wire__JobOpen *job = s->manifest->job;
    if (s->plan->argv || job->n_host_names < 2)
        return 0;
    if (job->n_argv == 0)
        return belay_error_set(err, EINVAL, "the launch line of %s is not recorded: give it after '--'",
                               job->job);
    char **argv = string_list_copy(job->argv, job->n_argv);
    char **environment = string_list_copy(job->environment, job->n_environment);
    int rc = !argv || !environment ? belay_error_set(err, ENOMEM, "out of memory") : 0;
    if (rc == 0 && job->cwd[0] && chdir(job->cwd) < 0)
        rc = belay_error_errno(err, "cannot go back to the job's directory %s", job->cwd);
    if (rc == 0)
        rc = supervise_find_hosts(s, argv, environment, err);
    string_list_free(argv);
    string_list_free(environment);
    return rc;
}

/* ---- files ---- */

/* Is the folder still there in which files are as they were? Its host may count its disks anew. */
static int find_undo(const struct supervisor *s, bool *is_there, struct belay_error *err)
{
    const Belay__Wire__UndoFolder *undo = s->manifest->job->undo;
    struct file_id id = {0};
    char shown[ESCAPE_PATH_BYTES];
    *is_there = undo && undo->path[0] && file_id_at(AT_FDCWD, undo->path, &id) == 0 && S_ISDIR(id.mode) &&
                id.inode == undo->inode && (!undo->birth_ns || !id.birth_ns || id.birth_ns == undo->birth_ns);
    if (*is_there || s->plan->leaves_files)
        return 0;
    return belay_error_set(
        err, EUCLEAN,
        "files cannot be put back to what they were at line %" PRIu64
        ", since %s is not there any more: with --leave-files the job goes on with files as "
        "they are",
        s->manifest->line, undo ? escape_text(shown, sizeof shown, undo->path) : "their folder");
}

/* ---- the agents ---- */

struct order {
    Belay__Wire__ArchiveTake take;
    Belay__Wire__JobOpen open;
    Belay__Wire__UndoFolder undo;
};

static int split_parts(const struct supervisor *s, uint32_t node, Belay__Wire__ArchiveTake *take)
{
    const Belay__Wire__ArchiveManifest *manifest = s->manifest;
    take->parts = calloc(manifest->n_parts + 1, sizeof(Belay__Wire__ArchivePart *));
    take->others = calloc(manifest->n_parts + 1, sizeof(Belay__Wire__ArchivePart *));
    for (size_t i = 0; take->parts && take->others && i < manifest->n_parts; i++) {
        Belay__Wire__ArchivePart *part = manifest->parts[i];
        uint32_t rank = part->part < manifest->ranks ? part->part : part->part - manifest->ranks;
        if (node_of(s, rank) == node)
            take->parts[take->n_parts++] = part;
        else if (part->part < manifest->ranks)
            take->others[take->n_others++] = part;
    }
    return take->parts && take->others ? 0 : -1;
}

static int send_order(struct supervisor *s, uint32_t number, bool has_undo, struct belay_error *err)
{
    const Belay__Wire__ArchiveManifest *manifest = s->manifest;
    struct node *node = &s->nodes.of[number];
    struct order order = {.take = BELAY__WIRE__ARCHIVE_TAKE__INIT, .open = *manifest->job};
    char *hosts[PLACEMENT_NODES_MAX];
    if (node->sock < 0 && supervise_connect(s, node, err) < 0)
        return -1;
    order.open.node = number;
    order.open.node_count = s->nodes.count;
    order.open.arbiter_pid = (uint32_t)getpid();
    order.open.n_host_names = s->hosts.count > 1 ? s->hosts.count : 0;
    order.open.host_names = hosts;
    for (size_t i = 0; i < order.open.n_host_names; i++)
        hosts[i] = s->hosts.of[i].name;
    order.open.undo = NULL;
    if (has_undo) {
        order.undo = *manifest->job->undo;
        order.undo.device = 0; /* as the node has it now */
        order.open.undo = &order.undo;
    }
    order.take.open = &order.open;
    order.take.folder = s->archive_folder;
    order.take.line = manifest->line;
    order.take.last_line = manifest->last_line;
    order.take.ranks = manifest->ranks;
    order.take.epoch = manifest->epoch;
    const struct caller agent = watch_caller(node);
    int rc = split_parts(s, number, &order.take) == 0 ? send_archive_take(&agent, &order.take, err)
                                                      : belay_error_set(err, ENOMEM, "out of memory");
    free(order.take.parts);
    free(order.take.others);
    return rc;
}

/* All of them at once. incarnations: by node, of those that have taken their part. */
static int have_taken(struct supervisor *s, bool has_undo, uint64_t *incarnations, struct belay_error *err)
{
    bool is_due[PLACEMENT_NODES_MAX] = {false};
    struct belay_error first = {0}, why;
    for (uint32_t i = 0; i < s->nodes.count && first.code == 0; i++) {
        is_due[i] = send_order(s, i, has_undo, &why) == 0;
        if (!is_due[i])
            first = why;
    }
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        const struct caller agent = watch_caller(&s->nodes.of[i]);
        Belay__Wire__Reply *reply = is_due[i] ? receive_archive_taken(&agent, &why) : NULL;
        if (reply)
            incarnations[i] = reply->archive_taken->incarnation;
        else if (first.code == 0)
            first = why;
        calls_free(reply);
    }
    if (first.code == 0)
        return 0;
    *err = first;
    errno = first.code;
    return -1;
}

/* What was taken is given up; nothing of the archive is. */
static void give_back(struct supervisor *s, const uint64_t *incarnations)
{
    struct belay_error err;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        const struct caller agent = watch_caller(&s->nodes.of[i]);
        if (incarnations[i])
            calls_free(call_clean(&agent, s->manifest->job->job, &err));
    }
}

/* ---- the record ---- */

static struct digest root_of(const Belay__Wire__ArchiveManifest *manifest, uint32_t rank)
{
    struct digest root = archive_part_root(manifest->parts[rank]);
    for (size_t i = manifest->ranks; i < manifest->n_parts; i++)
        if (manifest->parts[i]->part == manifest->ranks + rank) {
            const struct digest shared = archive_part_root(manifest->parts[i]);
            root = digest_sum(&root, &shared);
        }
    return root;
}

/* As if the archived epoch had been opened on these nodes. */
static int write_record(const struct supervisor *s, const uint64_t *incarnations, struct belay_error *err)
{
    const Belay__Wire__ArchiveManifest *manifest = s->manifest;
    uint32_t members = member_count(s);
    struct epoch_start *start = epoch_start_create(members, manifest->ranks);
    if (!start)
        return belay_error_set(err, ENOMEM, "out of memory");
    start->epoch = manifest->epoch;
    start->line = manifest->line;
    start->last_line = manifest->last_line;
    for (uint32_t i = 0; i < members; i++) {
        start->members[i] = i;
        start->incarnations[i] = incarnations[i];
    }
    for (uint32_t rank = 0; rank < manifest->ranks; rank++) {
        uint32_t node = node_of(s, rank);
        start->placement[rank] = start->holder[rank] = node;
        start->roots[rank] = root_of(manifest, rank);
        start->processors[node] = manifest->processors[rank];
    }
    const Belay__Wire__EpochRecord record = epoch_message_of_start(start, manifest->job->job);
    int rc = epoch_record_write(s->rundir, &record);
    if (rc < 0)
        belay_error_errno(err, "the record of its epochs cannot be written below %s", s->rundir);
    free(start);
    return rc;
}

/* ---- the whole ---- */

/* Of the folder of the job. -1 with err. */
static int open_job_folder(const struct supervisor *s, struct belay_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s", (int)(strrchr(s->archive_folder, '/') - s->archive_folder),
             s->archive_folder);
    return archive_open_path(path, err);
}

static int lock(struct supervisor *s, struct belay_error *err)
{
    int folder = open_job_folder(s, err);
    s->archive_lock = folder < 0 ? -1 : supervise_lock_archive(folder, s->manifest->job->job, err);
    if (folder >= 0)
        close(folder);
    return s->archive_lock < 0 ? -1 : 0;
}

/* Ranks on other hosts, whose arbiter may have been lost just now, run until their leases are over. */
static void await_leases(const struct supervisor *s)
{
    if (s->manifest->job->n_host_names > 1)
        poll(NULL, 0, (int)supervise_lease_ms(s));
}

/* Files go back to the line, and what led to newer lines goes: these are no lines to go on from any more. */
static void drop_newer(const struct supervisor *s)
{
    size_t count;
    int folder = open_job_folder(s, NULL);
    uint64_t *lines = folder >= 0 ? archive_list_lines(folder, &count) : NULL;
    for (size_t i = 0; lines && i < count; i++) {
        if (lines[i] <= s->manifest->line)
            continue;
        if (archive_is_complete(folder, lines[i]))
            log_warning("%s: archived line %" PRIu64 " is given up for line %" PRIu64, s->manifest->job->job,
                        lines[i], s->manifest->line);
        archive_remove_line(folder, lines[i]);
    }
    free(lines);
    if (folder >= 0)
        close(folder);
}

static int check_ranks(const struct supervisor *s, struct belay_error *err)
{
    if (s->hosts.ranks == 0 || s->hosts.ranks == s->manifest->ranks)
        return 0;
    return belay_error_set(err, EPERM,
                           "line %" PRIu64 " was archived with %" PRIu32
                           " ranks, and this launch has %" PRIu32 ": restart with the same number",
                           s->manifest->line, s->manifest->ranks, s->hosts.ranks);
}

int supervise_retrieve(struct supervisor *s, struct belay_error *err)
{
    uint64_t incarnations[PLACEMENT_NODES_MAX] = {0};
    char shown[ESCAPE_PATH_BYTES];
    bool has_undo;
    if (!s->manifest)
        return 0;
    if (find_nodes(s, err) < 0 || check_ranks(s, err) < 0 || find_undo(s, &has_undo, err) < 0 ||
        lock(s, err) < 0)
        return -1;
    await_leases(s);
    if (have_taken(s, has_undo, incarnations, err) < 0 || write_record(s, incarnations, err) < 0) {
        give_back(s, incarnations);
        return -1;
    }
    drop_newer(s);
    log_info("%s: goes on from archived line %" PRIu64 " in %s", s->manifest->job->job, s->manifest->line,
             escape_text(shown, sizeof shown, s->archive_folder));
    return 0;
}

/* Of a requeued job: it goes on from what nodes hold, if they hold anything. */
bool supervise_is_held(struct supervisor *s)
{
    struct belay_error err;
    bool is_held = false;
    for (uint32_t i = 0; s->manifest && s->plan->resumes && i < s->nodes.count && !is_held; i++) {
        struct node *node = &s->nodes.of[i];
        const struct caller agent = {
            .sock = node->sock < 0 && supervise_connect(s, node, &err) < 0 ? -1 : node->sock};
        Belay__Wire__Reply *reply = agent.sock >= 0 ? call_status(&agent, s->plan->name, &err) : NULL;
        is_held = reply && reply->status->held_bytes > 0;
        calls_free(reply);
    }
    if (is_held) { /* the plan's texts are the manifest's */
        s->aside = s->manifest;
        s->manifest = NULL;
        s->resumed->is_restart = false;
    }
    return is_held;
}

int supervise_fall_back(struct supervisor *s, struct belay_error *err)
{
    supervise_end_archive(s, false);
    s->manifest = s->aside;
    s->aside = NULL;
    s->resumed->is_restart = true;
    return supervise_retrieve(s, err) < 0 ? -1 : supervise_open(s, true, err);
}

int supervise_archive_exit_code(const struct belay_error *err)
{
    switch (err->code) {
    case ENOENT:
        return EXIT_NO_JOB;
    case EBADMSG:
    case EPROTO:
    case EPERM:
    case ELOOP:
    case ENOTDIR:
        return EXIT_REFUSED;
    default:
        return supervise_exit_code(err);
    }
}
