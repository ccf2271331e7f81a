#include "node-agent/job/remains.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/util/array.h"
#include "common/util/log.h"
#include "common/util/process_stat.h"
#include "common/util/tree.h"

#define SHARED_MEMORY "/dev/shm/"
#define SESSION_VARIABLE "PMIX_SERVER_TMPDIR=" /* by which Open MPI tells it to its ranks */
#define END_MS 2000
#define GENERATIONS_MAX 32 /* between a rank and its launcher */
#define PF_EXITING 0x4u    /* linux/sched.h; zombies have it, too */

/* A shared mapping of a file, outside the upper half. */
struct shared {
    dev_t device;
    ino_t inode;
    const char *path; /* into the line it was read from */
};

static bool parse(char *line, const struct layout *layout, struct shared *shared);
static void note_file(struct remains *remains, const struct shared *shared);
static void take_session(struct remains *remains, const char *path, pid_t rank, pid_t launcher);
static bool is_between(pid_t pid, pid_t rank, pid_t launcher);
static bool is_still_there(const struct remain *remain, mode_t type);
static struct remain_process process_of(pid_t pid);
static bool is_running(const struct remain_process *process);

void remains_note(struct remains *remains, pid_t rank, const struct layout *layout, pid_t launcher)
{
    char name[64], *line = NULL;
    size_t line_bytes = 0;
    struct shared shared;
    remains_note_session(remains, rank, launcher);
    snprintf(name, sizeof name, "/proc/%d/maps", (int)rank);
    FILE *file = fopen(name, "re");
    while (file && getline(&line, &line_bytes, file) > 0) {
        if (!parse(line, layout, &shared))
            continue;
        if (!strncmp(shared.path, SHARED_MEMORY, sizeof SHARED_MEMORY - 1))
            note_file(remains, &shared);
        else if (launcher > 0 && !remains->session.path)
            take_session(remains, shared.path, rank, launcher);
    }
    free(line);
    if (file)
        fclose(file);
}

void remains_note_session(struct remains *remains, pid_t rank, pid_t launcher)
{
    char name[64], *word = NULL;
    size_t word_bytes = 0;
    struct remain_process process = process_of(rank);
    remains_add_rank(remains, &process);
    if (launcher <= 0 || remains->session.path)
        return;
    if (remains->launcher.pid == 0)
        remains->launcher = process_of(launcher);
    snprintf(name, sizeof name, "/proc/%d/environ", (int)rank);
    FILE *file = fopen(name, "re");
    while (file && getdelim(&word, &word_bytes, '\0', file) > 0)
        if (!strncmp(word, SESSION_VARIABLE, sizeof SESSION_VARIABLE - 1))
            take_session(remains, word + sizeof SESSION_VARIABLE - 1, rank, launcher);
    free(word);
    if (file)
        fclose(file);
}

void remains_remove_files(const struct remains *remains)
{
    for (size_t i = 0; i < remains->count; i++) {
        const struct remain *file = &remains->files[i];
        if (is_still_there(file, S_IFREG) && unlink(file->path) == 0)
            log_info("removed %s, which was left behind", file->path);
    }
}

void remains_remove_session(const struct remains *remains)
{
    const struct remain *session = &remains->session;
    if (!session->path || is_running(&remains->launcher) || !is_still_there(session, S_IFDIR))
        return;
    tree_remove(session->path);
    log_info("removed %s, which was left behind", session->path);
    char *top = strndup(session->path, (size_t)(strrchr(session->path, '/') - session->path));
    if (top)
        rmdir(top); /* fails while other launches use it, as it should */
    free(top);
}

void remains_release(struct remains *remains)
{
    for (size_t i = 0; i < remains->count; i++)
        free(remains->files[i].path);
    free(remains->files);
    free(remains->session.path);
    free(remains->ranks);
    *remains = (struct remains){0};
}

static bool parse(char *line, const struct layout *layout, struct shared *shared)
{
    uint64_t start, end, inode;
    unsigned major_number, minor_number;
    char sharing;
    int path_at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*3c%c %*x %x:%x %" SCNu64 " %n", &start, &end, &sharing,
               &major_number, &minor_number, &inode, &path_at) < 6)
        return false;
    if (sharing != 's' || !layout_is_lower(layout, start, end) || path_at == 0 || line[path_at] != '/')
        return false;
    *shared = (struct shared){
        .device = makedev(major_number, minor_number), .inode = (ino_t)inode, .path = line + path_at};
    return true;
}

/* Once each: every rank maps the segments of all. */
static void note_file(struct remains *remains, const struct shared *shared)
{
    for (size_t i = 0; i < remains->count; i++)
        if (remains->files[i].inode == shared->inode && remains->files[i].device == shared->device)
            return;
    remains_add_file(remains, &(struct remain){.path = (char *)(uintptr_t)shared->path, /* only read */
                                               .device = shared->device,
                                               .inode = shared->inode});
}

void remains_add_file(struct remains *remains, const struct remain *file)
{
    if (array_reserve(&remains->files, remains->count + 1, &remains->room) < 0)
        return;
    char *path = strdup(file->path);
    if (path)
        remains->files[remains->count++] =
            (struct remain){.path = path, .device = file->device, .inode = file->inode};
}

/* It is noted more than once while it starts. */
void remains_add_rank(struct remains *remains, const struct remain_process *rank)
{
    if (rank->pid == 0)
        return;
    for (size_t i = 0; i < remains->rank_count; i++)
        if (remains->ranks[i].pid == rank->pid)
            return;
    if (array_reserve(&remains->ranks, remains->rank_count + 1, &remains->rank_room) < 0)
        return;
    remains->ranks[remains->rank_count++] = *rank;
}

void remains_end_ranks(const struct remains *remains)
{
    for (size_t i = 0; i < remains->rank_count; i++) {
        struct pollfd end = {.fd = pidfd_open(remains->ranks[i].pid, 0), .events = POLLIN};
        if (end.fd < 0)
            continue;
        if (is_running(&remains->ranks[i])) { /* so the descriptor is that process's */
            log_info("process %d of a launch whose agent was killed is ended", (int)remains->ranks[i].pid);
            pidfd_send_signal(end.fd, SIGKILL, NULL, 0);
            poll(&end, 1, END_MS);
        }
        close(end.fd);
    }
}

void remains_remove_unused(const struct remains *remains)
{
    for (size_t i = 0; i < remains->rank_count; i++)
        if (is_running(&remains->ranks[i]))
            return;
    remains_remove_files(remains);
    remains_remove_session(remains);
}

static struct remain_process process_of(pid_t pid)
{
    static const enum process_field field = PROCESS_START;
    struct remain_process process = {.pid = pid};
    return process_stat(pid, &field, 1, &process.start) == 0 ? process : (struct remain_process){0};
}

static bool is_running(const struct remain_process *process)
{
    static const enum process_field fields[] = {PROCESS_FLAGS, PROCESS_START};
    uint64_t values[2];
    return process->pid > 0 && process_stat(process->pid, fields, 2, values) == 0 &&
           !(values[0] & PF_EXITING) && values[1] == process->start;
}

/*
 * /tmp/ompi.node.1000/pid.4711, with 4711 for the launcher, or for an mpirun that it has started, is the
 * session directory; what lies below it is in that.
 */
static void take_session(struct remains *remains, const char *path, pid_t rank, pid_t launcher)
{
    int pid = 0, length = 0;
    const char *top = strstr(path, "/ompi.");
    const char *below_top = top ? strchr(top + 1, '/') : NULL;
    if (!below_top || sscanf(below_top, "/pid.%d%n", &pid, &length) != 1 ||
        (below_top[length] != '/' && below_top[length] != '\0') || remains->session.path ||
        (pid != launcher && !is_between(pid, rank, launcher)))
        return;
    struct stat st;
    char *session = strndup(path, (size_t)(below_top - path) + (size_t)length);
    if (!session || lstat(session, &st) < 0) {
        free(session);
        return;
    }
    remains->session = (struct remain){.path = session, .device = st.st_dev, .inode = st.st_ino};
    remains->launcher = process_of(pid);
}

static bool is_between(pid_t pid, pid_t rank, pid_t launcher)
{
    static const enum process_field field = PROCESS_PARENT;
    uint64_t parent = 0;
    for (int i = 0; i < GENERATIONS_MAX && rank > 1 && rank != launcher && rank != pid; i++)
        rank = process_stat(rank, &field, 1, &parent) == 0 ? (pid_t)parent : 0;
    return rank > 1 && rank == pid;
}

static bool is_still_there(const struct remain *remain, mode_t type)
{
    struct stat st;
    return lstat(remain->path, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() &&
           st.st_dev == remain->device && st.st_ino == remain->inode;
}
