#include "node-agent/capture/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/util/array.h"
#include "node-agent/capture/reach.h"

#define IMAGE_MEMFD "/memfd:" IMAGE_MEMFD_NAME
#define HUGE_PAGES "/anon_hugepage"
#define HUGE_BYTES (2ull << 20) /* the smallest that there are */
#define SEGMENT "/SYSV"
#define TEXT_BYTES (64u << 10) /* more than the kernel gives at once, and than a line has */

/* What has been read of a list of mappings, and not been looked at. */
struct text {
    pid_t pid;
    int fd;
    bool is_broken; /* it could not be read to its end */
    size_t at, used;
    char bytes[TEXT_BYTES + 1];
};

static int parse_all(struct text *text, const char *root, const struct maps_source *source,
                     struct maps *maps);
static char *next_line(struct text *text);
static uint64_t parse_hex(const char **text);
static uint32_t parse_prot(const char *perms);
static void unescape(char *path);
static bool is_special(const char *path);
static bool find_file(const char *root, const char *path, uint64_t inode, struct stat *st);
static uint64_t token_of(struct file_tokens *tokens, const char *root, const char *path,
                         const struct stat *st);
static void classify(struct mapping *mapping, bool has_file, const struct stat *st);
static void classify_shared(struct mapping *mapping, bool has_file, const char *path);
static int add(struct maps *maps, struct mapping *mapping);
static int add_behind(pid_t pid, struct maps *maps);

int maps_read(pid_t pid, const struct maps_source *source, struct maps *maps, struct belay_error *err)
{
    char name[64], root[64];
    struct maps read = {0};
    struct text *text = malloc(sizeof *text);

    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
    if (!text || (text->fd = open(name, O_RDONLY | O_CLOEXEC)) < 0) {
        belay_error_errno(err, "cannot read %s", name);
        free(text);
        return -1;
    }
    text->pid = pid;
    text->at = text->used = 0;
    text->is_broken = false;
    int rc = parse_all(text, root, source, &read);
    if (rc < 0)
        belay_error_errno(err, "cannot parse %s", name);
    int code = errno;
    close(text->fd);
    free(text);
    if (rc < 0) {
        maps_release(&read);
        errno = code;
        return -1;
    }
    *maps = read;
    return 0;
}

/* All lines of the upper half. */
static int parse_all(struct text *text, const char *root, const struct maps_source *source, struct maps *maps)
{
    uint64_t upper_end = layout_upper_end(source->layout);
    char *line;
    int rc = 0;
    while (rc >= 0 && (line = next_line(text))) {
        struct mapping mapping;
        const char *at = line;
        if (parse_hex(&at) >= upper_end) /* they are sorted: the lower half, ten times as many */
            break;
        rc = maps_parse_line(line, root, source, &mapping);
        if (rc == 1 && maps->count > 0 && mapping.region.start < maps->mappings[maps->count - 1].region.end)
            free(mapping.path); /* it was changed while it was read: the process runs */
        else if (rc == 1)
            rc = add(maps, &mapping) < 0 ? -1 : add_behind(text->pid, maps);
    }
    return rc < 0 || text->is_broken ? -1 : 0;
}

/* The next line, ended by a NUL. NULL: there is no more. The kernel gives whole lines, 4 KiB at a time. */
static char *next_line(struct text *text)
{
    char *line = text->bytes + text->at, *end;
    while (!(end = memchr(line, '\n', text->used - text->at))) {
        memmove(text->bytes, line, text->used - text->at);
        text->used -= text->at;
        text->at = 0;
        line = text->bytes;
        ssize_t got = read(text->fd, text->bytes + text->used, TEXT_BYTES - text->used);
        text->is_broken = got < 0;
        if (got <= 0)
            return NULL;
        text->used += (size_t)got;
    }
    *end = '\0';
    text->at = (size_t)(end - text->bytes) + 1;
    return line;
}

void maps_release(struct maps *maps)
{
    for (size_t i = 0; i < maps->count; i++)
        free(maps->mappings[i].path);
    free(maps->mappings);
    *maps = (struct maps){0};
}

const struct mapping *maps_find(const struct maps *maps, uint64_t address)
{
    size_t low = 0, high = maps->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (maps->mappings[middle].region.end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < maps->count && maps->mappings[low].region.start <= address ? &maps->mappings[low] : NULL;
}

/* Neither by sscanf() nor by strtoull(), which take longer than the kernel to write the line. */
static uint64_t parse_hex(const char **text)
{
    const char *at = *text;
    uint64_t value = 0;
    for (;; at++) {
        if (*at >= '0' && *at <= '9')
            value = value << 4 | (uint64_t)(*at - '0');
        else if (*at >= 'a' && *at <= 'f')
            value = value << 4 | (uint64_t)(*at - 'a' + 10);
        else
            break;
    }
    *text = at;
    return value;
}

static uint64_t parse_decimal(const char **text)
{
    uint64_t value = 0;
    for (; **text >= '0' && **text <= '9'; ++*text)
        value = value * 10 + (uint64_t)(**text - '0');
    return value;
}

/* Returns the path, or NULL: the line has another form. */
static char *parse_fields(char *line, uint64_t *start, uint64_t *end, char perms[4], uint64_t *offset,
                          unsigned *major, unsigned *minor, uint64_t *inode)
{
    const char *at = line;
    *start = parse_hex(&at);
    if (*at++ != '-')
        return NULL;
    *end = parse_hex(&at);
    if (*at++ != ' ' || strnlen(at, 5) < 5 || at[4] != ' ')
        return NULL;
    memcpy(perms, at, 4);
    at += 5;
    *offset = parse_hex(&at);
    if (*at++ != ' ')
        return NULL;
    *major = (unsigned)parse_hex(&at);
    if (*at++ != ':')
        return NULL;
    *minor = (unsigned)parse_hex(&at);
    if (*at++ != ' ')
        return NULL;
    *inode = parse_decimal(&at);
    while (*at == ' ')
        at++;
    return line + (at - line);
}

/* Anonymous memory without a name, as most mappings of a process that has many are: nothing is to be looked
 * up. */
static void describe_plain(struct mapping *mapping, uint64_t start, uint64_t end, const char *perms)
{
    *mapping = (struct mapping){
        .region = {.start = start, .end = end, .kind = IMAGE_REGION_ANON, .prot = parse_prot(perms)},
        .content = MAPPING_CONTENT_OWN,
    };
}

int maps_parse_line(char *line, const char *root, const struct maps_source *source, struct mapping *mapping)
{
    uint64_t start, end, offset, inode;
    unsigned major, minor;
    char perms[4];
    struct stat st;

    char *path = parse_fields(line, &start, &end, perms, &offset, &major, &minor, &inode);
    if (!path || start >= end) {
        errno = EINVAL;
        return -1;
    }
    if (!layout_is_upper(source->layout, start, end))
        return 0;
    if (!*path && perms[3] == 'p') {
        describe_plain(mapping, start, end, perms);
        return 1;
    }
    unescape(path);
    if (is_special(path))
        return 0;
    bool is_image = source->image_inode && inode == source->image_inode &&
                    !strncmp(path, IMAGE_MEMFD, strlen(IMAGE_MEMFD));
    bool has_file = path[0] == '/' && !is_image && find_file(root, path, inode, &st);
    /* "", "[heap]", "[stack]", "[anon:name]" and the like; huge pages have a name, but no file either. */
    bool has_huge_name = path[0] == '/' && !strncmp(path, HUGE_PAGES, strlen(HUGE_PAGES));
    bool is_nameless = path[0] != '/' || has_huge_name;
    *mapping = (struct mapping){
        .region = {.start = start, .end = end, .prot = parse_prot(perms), .file_offset = offset},
        .cut = end,
    };
    if (perms[3] == 's') {
        mapping->region.device = makedev(major, minor);
        mapping->region.inode = inode;
        classify_shared(mapping, has_file, path);
    } else if (is_nameless) {
        mapping->region.kind = IMAGE_REGION_ANON;
        mapping->region.file_offset = 0;
        mapping->content = MAPPING_CONTENT_OWN;
    } else {
        classify(mapping, has_file, &st);
        if (has_file && source->tokens)
            mapping->region.file_token = token_of(source->tokens, root, path, &st);
    }
    mapping->is_huge = has_huge_name || (has_file && (uint64_t)st.st_blksize >= HUGE_BYTES);
    if (is_image && perms[3] == 'p' && offset == image_offset(start))
        mapping->content = MAPPING_CONTENT_IMAGE;
    bool is_told = has_file || perms[3] == 's';
    if (is_told && !(mapping->path = strdup(path)))
        return -1;
    return 1;
}

static uint32_t parse_prot(const char *perms)
{
    return (perms[0] == 'r' ? PROT_READ : 0u) | (perms[1] == 'w' ? PROT_WRITE : 0u) |
           (perms[2] == 'x' ? PROT_EXEC : 0u);
}

/* The kernel writes a newline in a path as \012, and nothing else so. */
static void unescape(char *path)
{
    char *to = strchr(path, '\\');
    if (!to)
        return;
    for (const char *from = to; *from; to++) {
        bool is_newline = !strncmp(from, "\\012", 4);
        *to = is_newline ? '\n' : *from;
        from += is_newline ? 4 : 1;
    }
    *to = '\0';
}

/* The kernel's own pages, which every process has anew. */
static bool is_special(const char *path)
{
    return path[0] == '[' &&
           (!strncmp(path, "[vdso", 5) || !strncmp(path, "[vvar", 5) || !strncmp(path, "[vsyscall", 9));
}

/* Whether a restart will find the mapped file under its path. A memfd's or deleted file's is only a name. */
static bool find_file(const char *root, const char *path, uint64_t inode, struct stat *st)
{
    static const char deleted[] = " (deleted)";
    char name[PATH_MAX + 64];
    size_t length = strlen(path);
    bool looks_deleted = length >= sizeof deleted && !strcmp(path + length - (sizeof deleted - 1), deleted);
    snprintf(name, sizeof name, "%s%s", root, path);
    if (stat(name, st) < 0)
        return false;
    return !looks_deleted || st->st_ino == inode;
}

static uint64_t token_of(struct file_tokens *tokens, const char *root, const char *path,
                         const struct stat *st)
{
    char name[PATH_MAX + 64];
    snprintf(name, sizeof name, "%s%s", root, path);
    return file_tokens_find(tokens, name, st);
}

/* Where the last page ends that the file reaches into. Of a device that is mapped privately nothing is known.
 */
static uint64_t find_cut(const struct image_region *region, const struct stat *st)
{
    uint64_t pages = ((uint64_t)st->st_size + IMAGE_PAGE_BYTES - 1) / IMAGE_PAGE_BYTES;
    uint64_t bytes = pages * IMAGE_PAGE_BYTES, mapped = region->end - region->start;
    if (!S_ISREG(st->st_mode) || bytes >= region->file_offset + mapped)
        return region->end;
    return bytes > region->file_offset ? region->start + bytes - region->file_offset : region->start;
}

static void classify(struct mapping *mapping, bool has_file, const struct stat *st)
{
    struct image_region *region = &mapping->region;
    if (has_file) {
        region->kind = IMAGE_REGION_FILE;
        region->file_bytes = (uint64_t)st->st_size;
        region->file_mtime_ns = st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec;
        mapping->content = MAPPING_CONTENT_CHANGED;
        mapping->cut = find_cut(region, st);
    } else {
        region->kind = IMAGE_REGION_ANON;
        region->file_offset = 0;
        mapping->content = MAPPING_CONTENT_ALL;
    }
}

/* Its contents are not the process's own: node-agent/shared. */
static void classify_shared(struct mapping *mapping, bool has_file, const char *path)
{
    bool is_segment = !has_file && !strncmp(path, SEGMENT, strlen(SEGMENT));
    mapping->region.kind = has_file     ? IMAGE_REGION_SHARED_FILE
                           : is_segment ? IMAGE_REGION_SEGMENT
                                        : IMAGE_REGION_SHARED;
    mapping->content = MAPPING_CONTENT_NONE;
}

/* Takes over the mapping's path, also when it fails. */
static int add(struct maps *maps, struct mapping *mapping)
{
    if (array_reserve(&maps->mappings, maps->count + 1, &maps->room) < 0) {
        free(mapping->path);
        return -1;
    }
    maps->mappings[maps->count++] = *mapping;
    return 0;
}

/* What the file of the last mapping does not reach, if a restart will not find the file, is one by itself. */
static int add_behind(pid_t pid, struct maps *maps)
{
    struct mapping *last = &maps->mappings[maps->count - 1], behind = *last;
    struct image_region *region = &last->region;
    if (last->content != MAPPING_CONTENT_ALL || !(region->prot & PROT_READ))
        return 0;
    uint64_t reach = reach_of(pid, region->start, region->end);
    if (reach == region->end)
        return 0;
    behind.region.kind = IMAGE_REGION_BEHIND;
    behind.region.start = reach;
    behind.content = MAPPING_CONTENT_NONE;
    behind.path = NULL;
    region->end = reach;
    if (reach > region->start)
        return add(maps, &behind);
    free(last->path);
    *last = behind;
    return 0;
}
