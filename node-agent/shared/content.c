#include "node-agent/shared/content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/util/array.h"
#include "node-agent/capture/reach.h"

static int compare_pieces(const void *left, const void *right);
static int data_extents(const struct content *content, struct run_set *to);
static int piece_extents(const struct content *content, struct run_set *to);
static int read_file(int fd, uint64_t offset, size_t bytes, char *to, struct belay_error *err);
static int read_pieces(const struct content *content, uint64_t offset, size_t bytes, char *to,
                       struct belay_error *err);
static int read_piece(pid_t pid, uint64_t address, size_t bytes, char *to, struct belay_error *err);
static int read_slowly(pid_t pid, uint64_t address, size_t bytes, char *to, struct belay_error *err);

static uint64_t page_up(uint64_t bytes)
{
    return (bytes + IMAGE_PAGE_BYTES - 1) & ~(IMAGE_PAGE_BYTES - 1);
}

void content_init(struct content *content)
{
    *content = (struct content){.fd = -1};
}

void content_release(struct content *content)
{
    int code = errno;
    if (content->fd >= 0)
        close(content->fd);
    if (content->memory && content->is_attached)
        shmdt(content->memory);
    else
        free((void *)(uintptr_t)content->memory);
    free(content->pieces);
    content_init(content);
    errno = code;
}

int content_add_piece(struct content *content, const struct content_piece *piece)
{
    if (array_reserve(&content->pieces, content->piece_count + 1, &content->piece_room) < 0)
        return -1;
    content->pieces[content->piece_count++] = *piece;
    return 0;
}

void content_settle(struct content *content)
{
    if (content->fd >= 0 || content->memory)
        return;
    if (content->piece_count > 0)
        qsort(content->pieces, content->piece_count, sizeof *content->pieces, compare_pieces);
    content->bytes =
        0; /* nobody has a descriptor: all that is known of its length is which pages there are */
    for (size_t i = 0; i < content->piece_count; i++) {
        struct content_piece *piece = &content->pieces[i];
        if (!content->is_blank)
            piece->bytes = reach_of(piece->pid, piece->start, piece->start + piece->bytes) - piece->start;
        uint64_t end = piece->offset + piece->bytes;
        content->bytes = end > content->bytes ? end : content->bytes;
        if (content->is_blank)
            piece->bytes = 0;
    }
}

int content_extents(const struct content *content, struct run_set *to)
{
    if (content->fd >= 0)
        return data_extents(content, to);
    if (content->memory)
        return runs_append(to, 0, page_up(content->bytes));
    return piece_extents(content, to);
}

const char *content_read(const struct content *content, uint64_t offset, size_t bytes, char *buffer,
                         struct belay_error *err)
{
    uint64_t left = offset < content->bytes ? content->bytes - offset : 0;
    size_t count = bytes < left ? bytes : (size_t)left;
    if (content->memory && count == bytes)
        return content->memory + offset;
    if (content->memory)
        memcpy(buffer, content->memory + offset, count);
    else if ((content->fd >= 0 ? read_file(content->fd, offset, count, buffer, err)
                               : read_pieces(content, offset, count, buffer, err)) < 0)
        return NULL;
    memset(buffer + count, 0, bytes - count);
    return buffer;
}

static int compare_pieces(const void *left, const void *right)
{
    const struct content_piece *one = left, *other = right;
    return one->offset < other->offset ? -1 : one->offset > other->offset ? 1 : 0;
}

/* A file system that does not know its holes says that all is data. */
static int data_extents(const struct content *content, struct run_set *to)
{
    uint64_t done = 0, end = content->bytes;
    while (done < end) {
        off_t start = lseek(content->fd, (off_t)done, SEEK_DATA);
        if (start < 0 && errno == ENXIO)
            return 0;
        if (start < 0)
            start = (off_t)done;
        off_t stop = lseek(content->fd, start, SEEK_HOLE);
        uint64_t from = (uint64_t)start & ~(IMAGE_PAGE_BYTES - 1);
        uint64_t until = page_up(stop < 0 || (uint64_t)stop > end ? end : (uint64_t)stop);
        from = from < done ? done : from;
        if (from < until && runs_append(to, from, until - from) < 0)
            return -1;
        done = until > done ? until : end;
    }
    return 0;
}

static int piece_extents(const struct content *content, struct run_set *to)
{
    uint64_t done = 0;
    for (size_t i = 0; i < content->piece_count; i++) {
        uint64_t from = content->pieces[i].offset, end = from + content->pieces[i].bytes;
        from = from > done ? from : done;
        if (from < end && runs_append(to, from, end - from) < 0)
            return -1;
        done = end > done ? end : done;
    }
    return 0;
}

static int read_file(int fd, uint64_t offset, size_t bytes, char *to, struct belay_error *err)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return belay_error_errno(err, "cannot read shared memory");
        if (got == 0) /* somebody who is no rank has cut it */
            memset(to + done, 0, bytes - done);
        done = got == 0 ? bytes : done + (size_t)got;
    }
    return 0;
}

/* Of the mappings that hold an offset, the one that goes on longest. What nobody has mapped is zeros. */
static int read_pieces(const struct content *content, uint64_t offset, size_t bytes, char *to,
                       struct belay_error *err)
{
    for (size_t done = 0; done < bytes;) {
        uint64_t at = offset + done, next = offset + bytes, end = at;
        const struct content_piece *best = NULL;
        for (size_t i = 0; i < content->piece_count && content->pieces[i].offset < next; i++) {
            const struct content_piece *piece = &content->pieces[i];
            if (piece->offset > at) {
                next = piece->offset;
            } else if (piece->offset + piece->bytes > end) {
                end = piece->offset + piece->bytes;
                best = piece;
            }
        }
        uint64_t until = best ? (end < offset + bytes ? end : offset + bytes) : next;
        if (!best)
            memset(to + done, 0, until - at);
        else if (read_piece(best->pid, best->start + at - best->offset, until - at, to + done, err) < 0)
            return -1;
        done = until - offset;
    }
    return 0;
}

static int read_piece(pid_t pid, uint64_t address, size_t bytes, char *to, struct belay_error *err)
{
    struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};
    ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got == (ssize_t)bytes)
        return 0;
    size_t done = got > 0 ? (size_t)got & ~(IMAGE_PAGE_BYTES - 1) : 0;
    return read_slowly(pid, address + done, bytes - done, to + done, err);
}

/* Also what the process itself may not read. What lies behind the end of a file cannot be read at all. */
static int read_slowly(pid_t pid, uint64_t address, size_t bytes, char *to, struct belay_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/mem", (int)pid);
    int mem = open(name, O_RDONLY | O_CLOEXEC);
    if (mem < 0)
        return belay_error_errno(err, "cannot open %s", name);
    for (size_t done = 0; done < bytes;) {
        size_t page = IMAGE_PAGE_BYTES - ((address + done) & (IMAGE_PAGE_BYTES - 1));
        page = page < bytes - done ? page : bytes - done;
        ssize_t got = pread(mem, to + done, page, (off_t)(address + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0) {
            close(mem);
            return belay_error_set(err, ESRCH, "process %d is gone", (int)pid);
        }
        if (got < 0)
            memset(to + done, 0, page);
        done += got < 0 ? page : (size_t)got;
    }
    close(mem);
    return 0;
}
