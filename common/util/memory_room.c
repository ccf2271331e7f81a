#include "common/util/memory_room.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 8192
#define NAME_BYTES 1024 /* of a cgroup, or where they are mounted: longer ones are not looked at */

/* What the two versions call the same. */
struct hierarchy {
    const char *type;          /* of its file system */
    const char *limit, *usage; /* files */
    const char *caches[2];     /* lines of memory.stat */
};

static const struct hierarchy versions[] = {
    {"cgroup2", "memory.max", "memory.current", {"inactive_file", "active_file"}},
    {"cgroup",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"}},
};

static FILE *open_file(const char *root, const char *folder, const char *name)
{
    char path[4 * NAME_BYTES];
    int length = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return length < (int)sizeof path ? fopen(path, "re") : NULL;
}

/* The number in a file; false: it has none ("max"), or is not there. */
static bool read_number(const char *root, const char *folder, const char *name, uint64_t *number)
{
    FILE *file = open_file(root, folder, name);
    bool is_read = file && fscanf(file, "%" SCNu64, number) == 1;
    if (file)
        fclose(file);
    return is_read;
}

/* The sum of the named lines "NAME NUMBER ..." of a file. */
static uint64_t read_lines(const char *root, const char *folder, const char *name, const char *const *names,
                           unsigned count)
{
    char line[LINE_BYTES], word[64];
    uint64_t number, sum = 0;
    FILE *file = open_file(root, folder, name);
    while (file && fgets(line, sizeof line, file))
        for (unsigned i = 0; i < count; i++)
            if (sscanf(line, "%63s %" SCNu64, word, &number) == 2 && !strcmp(word, names[i]))
                sum += number;
    if (file)
        fclose(file);
    return sum;
}

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
            return true;
    return false;
}

/* This process's cgroup in a hierarchy: "ID:CONTROLLERS:PATH". */
static bool find_own(const char *root, const struct hierarchy *version, char *own, size_t bytes)
{
    char line[LINE_BYTES];
    bool is_second = version == &versions[0], is_found = false;
    FILE *file = open_file(root, "/proc/self", "cgroup");
    while (file && !is_found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        is_found = is_second ? !*controllers : has_word(controllers, "memory");
        if (snprintf(own, bytes, "%s", path) >= (int)bytes)
            is_found = false;
    }
    if (file)
        fclose(file);
    return is_found;
}

/* Where a hierarchy is mounted, and which of its folders: "... ROOT PLACE OPTIONS - TYPE SOURCE WORDS". */
static bool find_mount(const char *root, const struct hierarchy *version, char *top, char *place)
{
    char line[LINE_BYTES], type[64], words[LINE_BYTES];
    bool is_found = false;
    FILE *file = open_file(root, "/proc/self", "mountinfo");
    while (file && !is_found && fgets(line, sizeof line, file)) {
        const char *rest = strstr(line, " - ");
        is_found = rest && sscanf(rest, " - %63s %*s %8191s", type, words) == 2 &&
                   !strcmp(type, version->type) && (version == &versions[0] || has_word(words, "memory")) &&
                   sscanf(line, "%*s %*s %*s %1023s %1023s", top, place) == 2;
    }
    if (file)
        fclose(file);
    return is_found;
}

static void look_at(const char *root, const struct hierarchy *version, const char *folder, const char *name,
                    struct memory_room *room)
{
    uint64_t limit, usage;
    if (!read_number(root, folder, version->limit, &limit) ||
        !read_number(root, folder, version->usage, &usage))
        return;
    uint64_t caches = read_lines(root, folder, "memory.stat", version->caches, 2);
    uint64_t taken = usage > caches ? usage - caches : 0, left = limit > taken ? limit - taken : 0;
    if (left < room->bytes) {
        room->bytes = left;
        snprintf(room->cgroup, sizeof room->cgroup, "%.*s", MEMORY_ROOM_CGROUP_BYTES - 1, *name ? name : "/");
    }
}

/* The process's cgroup and all above it, as far as they are mounted. */
static void look_at_hierarchy(const char *root, const struct hierarchy *version, struct memory_room *room)
{
    char own[NAME_BYTES], top[NAME_BYTES], place[NAME_BYTES], folder[2 * NAME_BYTES];
    if (!find_own(root, version, own, sizeof own) || !find_mount(root, version, top, place))
        return;
    size_t skipped = strcmp(top, "/") && !strncmp(own, top, strlen(top)) ? strlen(top) : 0;
    char *name = own + skipped;
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", place, name);
        look_at(root, version, folder, name, room);
        char *slash = strrchr(name, '/');
        if (!slash || !*name)
            return;
        *slash = '\0';
    }
}

void memory_room_find(const char *root, struct memory_room *room)
{
    static const char *const available[] = {"MemAvailable:"};
    uint64_t kib = read_lines(root, "/proc", "meminfo", available, 1);
    *room = (struct memory_room){.bytes = kib ? kib * 1024 : UINT64_MAX};
    for (unsigned i = 0; i < sizeof versions / sizeof versions[0]; i++)
        look_at_hierarchy(root, &versions[i], room);
}
