/*
 * vk_image.c - memory that a restart has mapped from the image behaves as the anonymous memory that it was.
 *
 * It is a private mapping of the image's memfd, so what the kernel does differently to a file's pages shows:
 * after MADV_DONTNEED old contents would come back where zeros are due, a moved mapping grows into what the
 * image has for other addresses, and some advice is refused. Therefore the parts concerned become anonymous
 * memory first.
 */
#include "mpi-layer/lower/vk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

#define LINE_BYTES 128 /* of /proc/self/maps, up to the inode */

static struct {
    uint64_t inode; /* 0: nothing is mapped from an image */
    uint64_t low, high;
} image;

/* A mapping, or the part of it that is of interest. */
struct part {
    uint64_t start, end, inode;
    long prot;
};

void vk_image_begin(uint64_t inode)
{
    image.inode = inode;
    image.low = UINT64_MAX;
    image.high = 0;
}

void vk_image_add(uint64_t start, uint64_t end)
{
    image.low = start < image.low ? start : image.low;
    image.high = end > image.high ? end : image.high;
}

bool vk_image_is_used(void)
{
    return image.high > 0;
}

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
static void parse_line(const char *text, struct part *part)
{
    part->start = parse_number(&text, 16);
    text++;
    part->end = parse_number(&text, 16);
    part->prot = (text[1] == 'r' ? PROT_READ : 0) | (text[2] == 'w' ? PROT_WRITE : 0) |
                 (text[3] == 'x' ? PROT_EXEC : 0);
    for (int i = 0; i < 3; i++)
        skip_field(&text);
    while (*text == ' ')
        text++;
    part->inode = parse_number(&text, 10);
}

/* The first mapping of the image in [from, to), clipped to it. */
static bool find_part(uint64_t from, uint64_t to, struct part *part)
{
    char block[4096], line[LINE_BYTES];
    unsigned used = 0;
    bool is_found = false;
    if (from < image.low)
        from = image.low;
    if (to > image.high)
        to = image.high;
    long got, fd = from < to ? raw3(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0) : -1;
    while (fd >= 0 && !is_found && (got = raw3(SYS_read, fd, block, sizeof block)) > 0) {
        for (long i = 0; i < got && !is_found; i++) {
            if (block[i] != '\n') {
                if (used < LINE_BYTES - 1)
                    line[used++] = block[i];
                continue;
            }
            line[used] = 0;
            used = 0;
            parse_line(line, part);
            is_found = part->inode == image.inode && part->end > from && part->start < to;
        }
    }
    if (fd >= 0)
        raw1(SYS_close, fd);
    part->start = part->start > from ? part->start : from;
    part->end = part->end < to ? part->end : to;
    return is_found;
}

/* In its place, zeros. */
static long make_empty(const struct part *part)
{
    return raw_syscall(SYS_mmap, (long)part->start, (long)(part->end - part->start), part->prot,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

/* In its place, anonymous memory with the same contents: copied elsewhere, moved over it. */
static long make_anonymous(const struct part *part)
{
    uint64_t bytes = part->end - part->start;
    long result = 0;
    long copy = vk_mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy < 0)
        return copy;
    if (!(part->prot & PROT_READ))
        result = raw3(SYS_mprotect, part->start, bytes, part->prot | PROT_READ);
    if (result == 0) {
        const uint64_t *from = (const uint64_t *)part->start;
        uint64_t *to = (uint64_t *)copy;
        for (uint64_t i = 0; i < bytes / sizeof *to; i++)
            to[i] = from[i];
        result = raw3(SYS_mprotect, copy, bytes, part->prot);
    }
    if (result == 0)
        result = raw_syscall(SYS_mremap, copy, (long)bytes, (long)bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                             (long)part->start, 0);
    if (result < 0)
        raw2(SYS_munmap, copy, bytes);
    return result < 0 ? result : 0;
}

static long replace(uint64_t start, uint64_t end, long (*with)(const struct part *part))
{
    struct part part;
    for (uint64_t at = start; find_part(at, end, &part); at = part.end) {
        long result = with(&part);
        if (result < 0)
            return result;
    }
    return 0;
}

long vk_image_leave(uint64_t start, uint64_t bytes)
{
    return replace(start, start + VK_PAGE_UP(bytes), make_anonymous);
}

long vk_madvise(uint64_t start, uint64_t bytes, long advice)
{
    uint64_t end = start + VK_PAGE_UP(bytes);
    long result = 0;
    if (advice == MADV_GUARD_INSTALL || advice == MADV_GUARD_REMOVE)
        return -EINVAL; /* as before Linux 6.13: nobody could read such pages, or tell where they are */
    if (advice == MADV_WIPEONFORK || advice == MADV_DONTFORK)
        VK->has_advice = 1;
    if (advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_FREE)
        result = replace(start, end, make_empty);
    else if (advice == MADV_WIPEONFORK)
        result = replace(start, end, make_anonymous);
    return result < 0 ? result : raw3(SYS_madvise, start, bytes, advice);
}
