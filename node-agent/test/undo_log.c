#include "node-agent/test/undo_log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char top[64];
static uint64_t next_time;
static unsigned next_kept;
struct undo_folder folder;
bool leaves_failed;
uint64_t keeps_from;
char told[4096];

int undo_log_setup(void **state)
{
    (void)state;
    next_time = next_kept = 0;
    told[0] = '\0';
    leaves_failed = false;
    keeps_from = 0;
    strcpy(top, "/tmp/undo_test.XXXXXX");
    assert_non_null(mkdtemp(top));
    assert_int_equal(mkdir(path_of("files"), 0700), 0);
    assert_int_equal(undo_folder_of(top, "", "job", &folder, NULL), 0);
    assert_int_equal(undo_create(&folder, NULL), 0);
    return 0;
}

int undo_log_teardown(void **state)
{
    (void)state;
    char command[128];
    undo_remove(&folder);
    undo_remove_base(top);
    assert_int_equal(access(folder.path, F_OK), -1);
    snprintf(command, sizeof command, "rm -rf %s", top);
    return system(command);
}

const char *path_of(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], name[0] == '/' ? "%s%s" : "%s/%s", name[0] == '/' ? "" : top, name);
    return path;
}

void write_file(const char *name, const char *text)
{
    FILE *stream = fopen(path_of(name), "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

void assert_file(const char *name, const char *text)
{
    char found[64] = "";
    FILE *stream = fopen(path_of(name), "r");
    if (!stream)
        fail_msg("%s is not there", name);
    size_t length = fread(found, 1, sizeof found - 1, stream);
    found[length] = '\0';
    fclose(stream);
    assert_string_equal(found, text);
}

void assert_absent(const char *name)
{
    assert_int_equal(faccessat(AT_FDCWD, path_of(name), F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

struct file_id id_of(const char *name)
{
    struct file_id id = {.inode = 0};
    file_id_at(AT_FDCWD, path_of(name), &id);
    return id;
}

static int open_log(unsigned line, unsigned rank)
{
    char name[UNDO_FOLDER_BYTES + 64];
    struct undo_head head = {.magic = UNDO_HEAD_MAGIC, .version = UNDO_VERSION, .rank = rank, .line = line};
    snprintf(name, sizeof name, "%s/%u", folder.path, line);
    mkdir(name, 0700);
    snprintf(name, sizeof name, "%s/%u/%u.log", folder.path, line, rank);
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    if (lseek(fd, 0, SEEK_END) == 0)
        assert_int_equal(write(fd, &head, sizeof head), sizeof head);
    return fd;
}

static struct file_id folder_of(const char *path)
{
    char parent[256];
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    return id_of(parent);
}

uint64_t log_part(unsigned line, unsigned rank, struct undo_entry entry, const char *name, const void *data,
                  size_t bytes)
{
    const char *path = path_of(name);
    size_t path_bytes = strlen(path) + 1, all = sizeof entry + path_bytes + entry.data_bytes;
    char *whole = malloc(all);
    assert_non_null(whole);
    entry.magic = entry.magic ? entry.magic : UNDO_MAGIC;
    entry.time_ns = entry.time_ns ? entry.time_ns : ++next_time;
    entry.path_bytes = (uint32_t)path_bytes;
    entry.folder = folder_of(path);
    memcpy(whole, &entry, sizeof entry);
    memcpy(whole + sizeof entry, path, path_bytes);
    if (entry.data_bytes > 0)
        memcpy(whole + sizeof entry + path_bytes, data, entry.data_bytes);
    int fd = open_log(line, rank);
    assert_int_equal(write(fd, whole, bytes < all ? bytes : all), bytes < all ? bytes : all);
    close(fd);
    free(whole);
    return entry.time_ns;
}

static uint64_t note(unsigned line, unsigned rank, struct undo_entry entry, const char *name,
                     const void *data)
{
    return log_part(line, rank, entry, name, data, SIZE_MAX);
}

static uint64_t note_with_attributes(unsigned line, unsigned rank, const char *name, uint32_t kind)
{
    struct stat st;
    assert_int_equal(stat(path_of(name), &st), 0);
    struct undo_attributes attributes = {.mode = st.st_mode & 07777,
                                         .uid = st.st_uid,
                                         .gid = st.st_gid,
                                         .changed_s = st.st_mtim.tv_sec,
                                         .changed_ns = st.st_mtim.tv_nsec,
                                         .read_s = st.st_atim.tv_sec,
                                         .read_ns = st.st_atim.tv_nsec};
    return note(line, rank,
                (struct undo_entry){.kind = kind,
                                    .id = id_of(name),
                                    .offset = kind == UNDO_LENGTH ? (uint64_t)st.st_size : 0,
                                    .data_bytes = sizeof attributes},
                name, &attributes);
}

void note_length(unsigned line, unsigned rank, const char *name)
{
    note_with_attributes(line, rank, name, UNDO_LENGTH);
}

void note_attributes(unsigned line, unsigned rank, const char *name)
{
    note_with_attributes(line, rank, name, UNDO_ATTRIBUTES);
}

void note_node(unsigned line, unsigned rank, const char *name)
{
    note(line, rank, (struct undo_entry){.kind = UNDO_NODE, .id = id_of(name)}, name, NULL);
}

void note_data(unsigned line, unsigned rank, const char *name, uint64_t offset, uint64_t bytes)
{
    char data[4096];
    int fd = open(path_of(name), O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, data, bytes, (off_t)offset), bytes);
    close(fd);
    note(line, rank,
         (struct undo_entry){.kind = UNDO_DATA, .id = id_of(name), .offset = offset, .data_bytes = bytes},
         name, data);
}

void note_hole(unsigned line, unsigned rank, const char *name, uint64_t offset, uint64_t bytes)
{
    note(line, rank,
         (struct undo_entry){.kind = UNDO_HOLE, .id = id_of(name), .offset = offset, .extent = bytes}, name,
         NULL);
}

uint64_t note_created(unsigned line, unsigned rank, const char *name)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return note(line, rank,
                (struct undo_entry){.kind = UNDO_CREATED,
                                    .extent = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec},
                name, NULL);
}

void note_made(unsigned line, unsigned rank, const char *name, uint64_t announced)
{
    note(line, rank, (struct undo_entry){.kind = UNDO_MADE, .id = id_of(name), .offset = announced},
         announced ? "/" : name, NULL);
}

void note_withdrawn(unsigned line, unsigned rank, uint64_t announced)
{
    note(line, rank, (struct undo_entry){.kind = UNDO_WITHDRAWN, .offset = announced}, "/", NULL);
}

static void set_aside(unsigned line, const char *name, const char *kept, bool is_copied)
{
    char command[4096];
    close(open_log(line, 0)); /* for its folder */
    if (!is_copied)
        assert_int_equal(link(path_of(name), kept), 0);
    snprintf(command, sizeof command, "cp --sparse=always %s %s && chmod 600 %s", path_of(name), kept, kept);
    assert_int_equal(is_copied ? system(command) : 0, 0);
}

uint64_t note_removed(unsigned line, unsigned rank, const char *name, bool is_copied)
{
    struct stat st;
    char kept[UNDO_FOLDER_BYTES + 64];
    assert_int_equal(stat(path_of(name), &st), 0);
    snprintf(kept, sizeof kept, "%s/%u/%u-%u.kept", folder.path, line, rank, next_kept);
    set_aside(line, name, kept, is_copied);
    return note(line, rank,
                (struct undo_entry){.kind = UNDO_REMOVED,
                                    .id = id_of(name),
                                    .offset = next_kept++,
                                    .extent = is_copied,
                                    .mode = st.st_gid},
                name, NULL);
}

uint64_t note_folder(unsigned line, unsigned rank, const char *name)
{
    return note(line, rank, (struct undo_entry){.kind = UNDO_FOLDER, .id = id_of(name)}, name, NULL);
}

uint64_t note_link(unsigned line, unsigned rank, const char *name)
{
    char target[256];
    ssize_t length = readlink(path_of(name), target, sizeof target);
    assert_true(length > 0);
    return note(line, rank,
                (struct undo_entry){.kind = UNDO_LINK, .id = id_of(name), .data_bytes = (uint64_t)length},
                name, target);
}

uint64_t note_renamed(unsigned line, unsigned rank, const char *from, const char *to, unsigned flags)
{
    struct {
        struct undo_target target;
        char path[256];
    } data;
    memset(&data, 0, sizeof data);
    snprintf(data.path, sizeof data.path, "%s", path_of(to));
    data.target.folder = folder_of(path_of(to));
    data.target.id = id_of(to);
    return note(line, rank,
                (struct undo_entry){.kind = UNDO_RENAMED,
                                    .id = id_of(from),
                                    .mode = flags,
                                    .data_bytes = sizeof data.target + strlen(data.path) + 1},
                from, &data);
}

void note_unprotected(unsigned line, unsigned rank, const char *name)
{
    note(line, rank, (struct undo_entry){.kind = UNDO_UNPROTECTED, .id = id_of(name)}, name, NULL);
}

static void tell(void *context, const char *text)
{
    (void)context;
    size_t used = strlen(told);
    snprintf(told + used, sizeof told - used, "%s\n", text);
}

int apply(uint64_t line, uint64_t *left, struct belay_error *err)
{
    struct undo_request request = {
        .line = line, .keeps_from = keeps_from, .leaves_failed = leaves_failed, .say = tell};
    return undo_apply(&folder, &request, left, err);
}

void must_apply(uint64_t line, uint64_t left)
{
    struct belay_error err;
    uint64_t found;
    if (apply(line, &found, &err) < 0)
        fail_msg("%s", err.text);
    if (found != left)
        fail_msg("%u files were left, not %u: %s", (unsigned)found, (unsigned)left, told);
}
