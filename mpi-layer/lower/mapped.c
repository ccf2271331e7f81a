/* mapped.c - see mapped.h. */
#include "mpi-layer/lower/mapped.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "common/util/file_id.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/reopen.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_undo.h"

/* The kernel writes a newline in a path as \\012, and nothing else so. */
static void unescape(char *path)
{
    char *to = path;
    for (const char *from = path; *from; to++) {
        bool is_newline = !strncmp(from, "\\012", 4);
        *to = is_newline ? '\n' : *from;
        from += is_newline ? 4 : 1;
    }
    *to = '\0';
}

typedef void mapped_visit_f(const char *path);

/* The kernel says so of a file that was removed; a file with a name may be called so, too. */
static bool is_deleted(const char *path, uint64_t inode)
{
    static const char ending[] = " (deleted)";
    size_t length = strlen(path), tail = sizeof ending - 1;
    struct file_id id;
    if (length <= tail || strcmp(path + length - tail, ending))
        return false;
    return file_id_at(AT_FDCWD, path, &id) || id.inode != inode;
}

/* The path of a shared mapping of the upper half that has one, in a line of maps; else NULL. */
static char *path_of(char *line, bool *is_writable)
{
    uint64_t start, end, inode;
    char writable, sharing;
    int path_at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%c%*c%c %*x %*x:%*x %" SCNu64 " %n", &start, &end, &writable,
               &sharing, &inode, &path_at) < 5)
        return NULL;
    bool is_upper = layout_is_upper(&GATE->layout, start, end);
    char *path = path_at > 0 && line[path_at] == '/' ? line + path_at : NULL;
    *is_writable = writable == 'w';
    if (!is_upper || sharing != 's')
        return NULL;
    if (path)
        unescape(path);
    if (!path || is_deleted(path, inode)) { /* the agent keeps it, also if it cannot be written */
        VK->may_share = 1;
        return NULL;
    }
    return path;
}

/* False: the mappings cannot be looked at. */
static bool for_each(bool is_writable_only, mapped_visit_f *visit)
{
    char *line = NULL;
    size_t bytes = 0;
    bool is_writable;
    FILE *maps = VK->has_shared_files ? fopen("/proc/self/maps", "re") : NULL;
    while (maps && getline(&line, &bytes, maps) > 0) {
        char *path = path_of(line, &is_writable);
        if (!path || (is_writable_only && !is_writable))
            continue;
        visit(path);
    }
    free(line);
    if (maps)
        fclose(maps);
    return maps || !VK->has_shared_files;
}

/* The agent keeps files in memory with the memory of the ranks: node-agent/shared. */
static bool is_in_memory(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static void note_file(const char *path)
{
    if (!is_in_memory(path))
        vk_undo_path(path, 0, VK_UNDO_WHOLE);
}

void mapped_note_files(void)
{
    for_each(true, note_file);
}

const struct file_id *mapped_identity(const char *path)
{
    for (uint64_t i = 0; i < VK->shared_count; i++)
        if (!strcmp(VK->shared_files[i].path, path))
            return &VK->shared_files[i].id;
    return NULL;
}

static bool is_table_full; /* there is no memory for a larger one */

/* The table is in saved memory and only grows. */
static void note_identity(const char *path)
{
    if (mapped_identity(path) || strlen(path) >= sizeof VK->shared_files->path)
        return;
    struct vk_shared_file *table =
        vk_reserve(VK->shared_files, VK->shared_count, &VK->shared_capacity, sizeof *table, 4);
    is_table_full = !table;
    if (!table)
        return;
    VK->shared_files = table;
    struct vk_shared_file *file = &VK->shared_files[VK->shared_count++];
    strcpy(file->path, path);
    reopen_identify(path, &file->id);
}

const char *mapped_note_identities(void)
{
    VK->shared_count = 0;
    is_table_full = false;
    if (for_each(false, note_identity) && !is_table_full)
        return NULL;
    return "the files that it has mapped cannot be noted";
}
