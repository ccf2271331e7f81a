/* vk_maps.c - what is mapped where, as /proc/self/maps tells. */
#include "mpi-layer/lower/vk_maps.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"

#define LINE_BYTES 128 /* of /proc/self/maps, up to the inode */

static uint64_t parse_number(const char **text, unsigned base)
{
    uint64_t value = 0;
    for (;; ++*text) {
        char c = **text;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 99;
        if (digit >= base)
            return value;
        value = value * base + digit;
    }
}

static void skip_field(const char **text)
{
    while (**text == ' ')
        ++*text;
    while (**text && **text != ' ')
        ++*text;
}

/* "START-END PERMS OFFSET DEVICE INODE ..." */
static void parse_line(const char *text, struct vk_part *part)
{
    part->start = parse_number(&text, 16);
    text++;
    part->end = parse_number(&text, 16);
    part->is_private = text[4] == 'p';
    part->prot = (text[1] == 'r' ? PROT_READ : 0) | (text[2] == 'w' ? PROT_WRITE : 0) |
                 (text[3] == 'x' ? PROT_EXEC : 0);
    for (int i = 0; i < 3; i++)
        skip_field(&text);
    while (*text == ' ')
        text++;
    part->inode = parse_number(&text, 10);
}

void vk_maps_walk(bool (*visit)(const struct vk_part *part, void *context), void *context)
{
    char block[4096], line[LINE_BYTES];
    struct vk_part part;
    unsigned used = 0;
    bool is_done = false;
    long got, fd = raw3(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    while (fd >= 0 && !is_done && (got = raw3(SYS_read, fd, block, sizeof block)) > 0) {
        for (long i = 0; i < got && !is_done; i++) {
            if (block[i] != '\n') {
                if (used < LINE_BYTES - 1)
                    line[used++] = block[i];
                continue;
            }
            line[used] = 0;
            used = 0;
            parse_line(line, &part);
            is_done = visit(&part, context);
        }
    }
    if (fd >= 0)
        raw1(SYS_close, fd);
}

struct search {
    uint64_t from, to, inode;
    struct vk_part *found;
    bool is_found;
};

static bool is_it(const struct vk_part *part, void *context)
{
    struct search *search = context;
    *search->found = *part;
    search->is_found = (search->inode == VK_MAPS_ANY || part->inode == search->inode) &&
                       part->end > search->from && part->start < search->to;
    return search->is_found;
}

bool vk_maps_find(uint64_t from, uint64_t to, uint64_t inode, struct vk_part *part)
{
    struct search search = {from, to, inode, part, false};
    vk_maps_walk(is_it, &search);
    part->start = part->start > from ? part->start : from;
    part->end = part->end < to ? part->end : to;
    return search.is_found;
}

/* In `path` is a line of maps: moves the path that ends it to the front, "" if there is none. */
static void leave_path(char path[])
{
    const char *from = path;
    for (int i = 0; i < 5; i++)
        skip_field(&from);
    while (*from == ' ')
        from++;
    while ((*path++ = *from++))
        ;
}

bool vk_maps_path(uint64_t address, char path[])
{
    char block[1024];
    unsigned used = 0;
    bool is_found = false;
    long got, fd = raw3(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    while (fd >= 0 && !is_found && (got = raw3(SYS_read, fd, block, sizeof block)) > 0) {
        for (long i = 0; i < got && !is_found; i++) {
            struct vk_part part;
            if (block[i] != '\n') {
                if (used < VK_MAPS_PATH_BYTES - 1)
                    path[used++] = block[i];
                continue;
            }
            path[used] = 0;
            used = 0;
            parse_line(path, &part);
            is_found = part.start <= address && address < part.end;
        }
    }
    if (fd >= 0)
        raw1(SYS_close, fd);
    if (is_found)
        leave_path(path);
    return is_found && path[0] == '/';
}
