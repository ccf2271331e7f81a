/*
 * supervise_archive.c - a job's lines as files (docs/archive.md): agents write the images, and this process
 * the manifest, last, when it has heard of all ranks. Older lines are removed then.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/string_list.h"
#include "cmd/supervise.h"
#include "cmd/supervise_state.h"
#include "common/archive/folder.h"
#include "common/archive/manifest.h"
#include "common/conf/conf.h"
#include "common/util/escape.h"
#include "common/util/file_id.h"
#include "common/util/log.h"
#include "config.h"

#define LOOK_MS 200

/* What nodes have written of the newest line that any of them has told of. */
struct archiving {
    int folder; /* of the job */
    int lock;   /* no other process is the arbiter of this archive */
    uint64_t line, newest, oldest;
    uint32_t ranks;
    Belay__Wire__Archived **told; /* owned */
    size_t told_count;
    bool has_failed, has_told_failure;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- its folder ---- */

int supervise_lock_archive(int folder, const char *name, struct belay_error *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(folder, ARCHIVE_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return belay_error_errno(err, "the archive of %s cannot be locked", name);
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return fd;
    if (errno == EAGAIN || errno == EACCES) {
        close(fd);
        return belay_error_set(err, EADDRINUSE,
                               "another process runs %s from the same archive; if that is certainly not so, "
                               "remove the file 'lock' there",
                               name);
    }
    log_warning("%s: its archive cannot be locked: %s", name, strerror(errno)); /* not on all file systems */
    return fd;
}

/* A restart from this archive has locked it already. */
static int lock_folder(struct supervisor *s, struct archiving *archiving, struct belay_error *err)
{
    if (s->archive_lock >= 0 && file_id_is_at(s->archive_lock, archiving->folder, ARCHIVE_LOCK)) {
        archiving->lock = s->archive_lock;
        s->archive_lock = -1;
    } else {
        archiving->lock = supervise_lock_archive(archiving->folder, s->name, err);
    }
    return archiving->lock < 0 ? -1 : 0;
}

/* Lines that an earlier process has not finished are removed. */
static void look(struct archiving *archiving)
{
    size_t count;
    uint64_t *lines = archive_list_lines(archiving->folder, &count);
    archiving->oldest = archiving->newest = 0;
    for (size_t i = 0; i < count; i++) {
        if (!archive_is_complete(archiving->folder, lines[i])) {
            archive_remove_line(archiving->folder, lines[i]);
            continue;
        }
        archiving->newest = lines[i];
        if (archiving->oldest == 0)
            archiving->oldest = lines[i];
    }
    free(lines);
}

/* Of the oldest ones, all but so many. */
static void prune(struct archiving *archiving, uint64_t keep)
{
    size_t count;
    uint64_t *lines = archive_list_lines(archiving->folder, &count);
    for (size_t i = 0; i + keep < count; i++)
        archive_remove_line(archiving->folder, lines[i]);
    free(lines);
    look(archiving);
}

static void forget_told(struct archiving *archiving)
{
    for (size_t i = 0; i < archiving->told_count; i++)
        belay__wire__archived__free_unpacked(archiving->told[i], NULL);
    free(archiving->told);
    archiving->told = NULL;
    archiving->told_count = 0;
}

static void release(struct archiving *archiving)
{
    if (!archiving)
        return;
    forget_told(archiving);
    if (archiving->lock >= 0)
        close(archiving->lock);
    if (archiving->folder >= 0)
        close(archiving->folder);
    free(archiving);
}

int supervise_begin_archive(struct supervisor *s, bool is_restart, struct belay_error *err)
{
    const char *base = s->settings.archive;
    if (s->archiving || !base[0])
        return 0;
    struct archiving *archiving = calloc(1, sizeof *archiving);
    if (!archiving)
        return belay_error_set(err, ENOMEM, "out of memory");
    archiving->lock = -1;
    archiving->folder = archive_open_job(base, s->name, true, err);
    if (archiving->folder < 0 || lock_folder(s, archiving, err) < 0) {
        release(archiving);
        return -1;
    }
    look(archiving);
    if (!is_restart && archiving->newest > 0) {
        char shown[ESCAPE_PATH_BYTES];
        belay_error_set(err, EEXIST,
                        "%s/%s has line %" PRIu64
                        " of an earlier job: 'belay restart --from' it, remove it, or "
                        "choose another --name",
                        escape_text(shown, sizeof shown, base), s->name, archiving->newest);
        release(archiving);
        return -1;
    }
    s->archiving = archiving;
    return 0;
}

/* ---- the manifest ---- */

static int compare_parts(const void *left, const void *right)
{
    const Belay__Wire__ArchivePart *const *one = left, *const *other = right;
    return (*one)->part < (*other)->part ? -1 : (*one)->part > (*other)->part;
}

/* Of all nodes, by part, to be freed; NULL: no memory. */
static Belay__Wire__ArchivePart **list_parts(const struct archiving *archiving, size_t *count)
{
    size_t all = 0;
    for (size_t i = 0; i < archiving->told_count; i++)
        all += archiving->told[i]->n_parts;
    Belay__Wire__ArchivePart **parts = calloc(all + 1, sizeof *parts);
    *count = 0;
    for (size_t i = 0; parts && i < archiving->told_count; i++)
        for (size_t part = 0; part < archiving->told[i]->n_parts; part++)
            parts[(*count)++] = archiving->told[i]->parts[part];
    if (parts && all > 1)
        qsort(parts, all, sizeof *parts, compare_parts);
    return parts;
}

/* As the job would be opened again. */
static void fill_job(struct supervisor *s, Belay__Wire__JobOpen *job, char *cwd, char **hosts)
{
    job->job = s->name;
    job->argv = s->argv;
    job->n_argv = string_list_count(s->argv);
    job->environment = s->environment;
    job->n_environment = string_list_count(s->environment);
    job->cwd = cwd;
    job->settings = &s->settings;
    job->node_count = s->nodes.count;
    job->undo = s->undo.path && s->undo.path[0] ? &s->undo : NULL;
    job->program = (char *)(uintptr_t)supervise_launched(s); /* only read */
    job->host_names = hosts;
    job->n_host_names = s->hosts.count > 1 ? s->hosts.count : 0;
    for (size_t i = 0; i < job->n_host_names; i++)
        hosts[i] = s->hosts.of[i].name;
    if (!s->plan->hosts)
        return;
    job->argv = NULL; /* what has launched it is not known */
    job->n_argv = job->n_environment = 0;
    job->program = (char *)(uintptr_t)s->plan->program;
}

/* Where its ranks run, on which processors. Returns 0, or -1: it is not known. */
static int fill_places(const struct supervisor *s, Belay__Wire__ArchiveManifest *manifest)
{
    const struct epoch_start *start = job_arbiter_record(s->arbiter);
    uint32_t ranks = manifest->ranks;
    if (!start || start->rank_count != ranks)
        return -1;
    manifest->nodes = calloc((size_t)ranks + 1, sizeof *manifest->nodes);
    manifest->processors = calloc((size_t)ranks + 1, sizeof *manifest->processors);
    if (!manifest->nodes || !manifest->processors)
        return -1;
    manifest->n_nodes = manifest->n_processors = ranks;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        manifest->nodes[rank] = start->members[start->placement[rank]];
        manifest->processors[rank] = start->processors[start->placement[rank]];
    }
    return 0;
}

static int write_manifest(struct supervisor *s, struct belay_error *err)
{
    struct archiving *archiving = s->archiving;
    Belay__Wire__ArchiveManifest manifest = BELAY__WIRE__ARCHIVE_MANIFEST__INIT;
    Belay__Wire__JobOpen job = BELAY__WIRE__JOB_OPEN__INIT;
    char cwd[PATH_MAX] = "", *hosts[PLACEMENT_NODES_MAX];
    if (!getcwd(cwd, sizeof cwd))
        return belay_error_errno(err, "cannot tell the current directory");
    fill_job(s, &job, cwd, hosts);
    manifest.job = &job;
    manifest.line = manifest.last_line = archiving->line;
    if (s->halt.newest_line > manifest.last_line)
        manifest.last_line = s->halt.newest_line;
    manifest.ranks = archiving->ranks;
    manifest.epoch = s->epoch;
    manifest.at_ms = now_ms();
    manifest.version = (char *)(uintptr_t)PACKAGE_VERSION; /* only read */
    manifest.parts = list_parts(archiving, &manifest.n_parts);
    int rc = manifest.parts && fill_places(s, &manifest) == 0
                 ? archive_manifest_check(&manifest, err)
                 : belay_error_set(err, ENOMEM, "it is not known where its ranks run");
    int folder = rc == 0 ? archive_open_line(archiving->folder, archiving->line, false, err) : -1;
    rc = folder >= 0 ? archive_manifest_write(folder, &manifest, err) : -1;
    if (rc == 0 && fsync(archiving->folder) < 0)
        rc = belay_error_errno(err, "cannot write to the archive");
    if (folder >= 0)
        close(folder);
    free(manifest.parts);
    free(manifest.nodes);
    free(manifest.processors);
    return rc;
}

/* ---- lines ---- */

/* So that they keep files as they were, and show the line. */
static void tell_agents(struct supervisor *s)
{
    Belay__Wire__ArchiveKept kept = BELAY__WIRE__ARCHIVE_KEPT__INIT;
    struct belay_error err;
    kept.job = s->name;
    kept.oldest = s->archiving->oldest;
    kept.newest = s->archiving->newest;
    kept.settled = s->archiving->line;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        const struct caller agent = watch_caller(node);
        if (node->sock >= 0 && !node->is_gone && !node->is_lost)
            calls_free(call_archive_kept(&agent, &kept, &err));
    }
}

/* The line is none that is archived: the job goes on. Told in full once, until it works again. */
static void give_up(struct supervisor *s, const char *reason)
{
    struct archiving *archiving = s->archiving;
    log_write(archiving->has_told_failure ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING,
              "%s: line %" PRIu64 " is not archived: %s", s->name, archiving->line, reason);
    archiving->has_failed = archiving->has_told_failure = true;
    if (archiving->line != archiving->newest && !archive_is_complete(archiving->folder, archiving->line))
        archive_remove_line(archiving->folder, archiving->line);
    tell_agents(s);
}

static void finish(struct supervisor *s)
{
    struct archiving *archiving = s->archiving;
    struct belay_error err;
    uint64_t keep = s->settings.archive_keep ? s->settings.archive_keep : conf_default(CONF_ARCHIVE_KEEP);
    if (write_manifest(s, &err) < 0) {
        give_up(s, err.text);
        return;
    }
    prune(archiving, keep);
    log_write(archiving->has_told_failure ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
              "%s: line %" PRIu64 " is archived", s->name, archiving->line);
    archiving->has_told_failure = false;
    tell_agents(s);
}

/* Of all ranks? */
static bool is_whole(const struct archiving *archiving)
{
    size_t ranks = 0;
    for (size_t i = 0; i < archiving->told_count; i++)
        for (size_t part = 0; part < archiving->told[i]->n_parts; part++)
            ranks += archiving->told[i]->parts[part]->part < archiving->ranks;
    return archiving->ranks > 0 && ranks == archiving->ranks;
}

static int keep_told(struct archiving *archiving, Belay__Wire__Archived *told)
{
    Belay__Wire__Archived **larger =
        realloc(archiving->told, (archiving->told_count + 1) * sizeof(Belay__Wire__Archived *));
    if (!larger)
        return -1;
    archiving->told = larger;
    archiving->told[archiving->told_count++] = told;
    return 0;
}

/* A newer line: what was told of the former one is not whole, and never will be. */
static void begin_line(struct supervisor *s, const Belay__Wire__Archived *told)
{
    struct archiving *archiving = s->archiving;
    if (archiving->told_count > 0 && !archiving->has_failed && archiving->line > archiving->newest)
        give_up(s, "a node was lost before it had written its part");
    forget_told(archiving);
    archiving->line = told->line;
    archiving->ranks = told->ranks;
    archiving->has_failed = false;
}

void supervise_take_archived(uint32_t node, Belay__Wire__Event *event, void *context)
{
    struct supervisor *s = context;
    struct archiving *archiving = s->archiving;
    const Belay__Wire__Archived *told = event->archived;
    char reason[BELAY_ERROR_TEXT_BYTES];
    if (!archiving || told->line < archiving->line)
        return;
    if (told->line > archiving->line)
        begin_line(s, told);
    if (archiving->has_failed || archiving->line == archiving->newest)
        return;
    if (archiving->ranks == 0)
        archiving->ranks = told->ranks;
    if (told->error[0]) {
        snprintf(reason, sizeof reason,
                 s->nodes.count > 1 ? "node %" PRIu32 ": %.400s" : "%.0" PRIu32 "%.400s",
                 s->nodes.count > 1 ? node : 0, told->error);
        give_up(s, reason);
        return;
    }
    if (told->ranks != archiving->ranks || keep_told(archiving, event->archived) < 0) {
        give_up(s, "nodes tell different things of it");
        return;
    }
    event->archived = NULL; /* ours */
    if (is_whole(archiving))
        finish(s);
}

/* ---- the end ---- */

/* What agents tell while nothing runs. */
static void take_events(struct supervisor *s)
{
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        Belay__Wire__Event *event;
        while ((event = node_take_event(&s->nodes.of[i]))) {
            if (event->archived)
                supervise_take_archived(i, event, s);
            belay__wire__event__free_unpacked(event, NULL);
        }
    }
}

static bool is_settled(const struct supervisor *s, uint64_t line)
{
    const struct archiving *archiving = s->archiving;
    return archiving->newest >= line || (archiving->line >= line && archiving->has_failed) ||
           nodes_have_lost_agent(&s->nodes) || s->watch.end_signal;
}

/* A former line may still be on its way: then the newest one is asked for again when that is written. */
static int ask_all(struct supervisor *s)
{
    struct belay_error err = {0};
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        const struct caller agent = watch_caller(node);
        if (node->sock < 0 || node->is_gone || node->is_lost || node->is_spare)
            continue;
        Belay__Wire__Reply *reply = call_archive_line(&agent, s->name, &err);
        if (!reply) {
            log_warning("%s: its last line is not archived: %s", s->name, err.text);
            return -1;
        }
        calls_free(reply);
    }
    return 0;
}

void supervise_archive_last(struct supervisor *s)
{
    struct archiving *archiving = s->archiving;
    uint64_t line = s->halt.newest_line;
    if (!archiving || line == 0)
        return;
    take_events(s);
    if (archiving->line == line && archiving->told_count > 0) /* it is being written */
        while (!is_settled(s, line)) {
            watch_idle(&s->watch, LOOK_MS);
            take_events(s);
        }
    if (archiving->newest >= line)
        return;
    archiving->has_failed = false;
    if (ask_all(s) < 0)
        return;
    while (!is_settled(s, line)) {
        watch_idle(&s->watch, LOOK_MS);
        take_events(s);
    }
    if (archiving->newest >= line)
        log_info("%s: line %" PRIu64 " is archived: 'belay restart --from %s' goes on from it", s->name,
                 archiving->newest, s->settings.archive);
}

void supervise_end_archive(struct supervisor *s, bool removes)
{
    if (!s->archiving)
        return;
    if (removes)
        archive_remove_job(s->settings.archive, s->name);
    release(s->archiving);
    s->archiving = NULL;
}
