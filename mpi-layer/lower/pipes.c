/* pipes.c - see pipes.h. */
#include "mpi-layer/lower/pipes.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/file_id.h"
#include "common/util/pipe_content.h"
#include "mpi-layer/lower/fd_notes.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/shares.h"
#include "mpi-layer/lower/vk_fd.h"

/* Which ends of a pipe a descriptor is, as the agent counts them. */
static int32_t ends_of(const struct fd_record *record)
{
    int mode = record->status_flags & O_ACCMODE;
    return mode == O_RDWR ? SHARE_READER | SHARE_WRITER : mode == O_RDONLY ? SHARE_READER : SHARE_WRITER;
}

static bool has_name(const struct fd_record *record)
{
    return fd_record_path(record)[0] == '/';
}

bool pipes_has(enum fd_kind kind)
{
    return kind == FD_PIPE || kind == FD_ENDED_PIPE || kind == FD_UNBEGUN_PIPE;
}

/* ---- which kind ---- */

static bool has_lost_its_other_end(const struct fd_record *record)
{
    struct pollfd ready = {.fd = record->fd};
    return poll(&ready, 1, 0) == 1 && (ready.revents & (POLLHUP | POLLERR));
}

/*
 * poll(2) tells of a FIFO without writers only if there was one since it was opened. tee(2) takes nothing
 * out; of an empty pipe it says EAGAIN as long as there is a writer.
 */
static bool has_no_writer(const struct fd_record *record)
{
    int scratch[2];
    if (ends_of(record) != SHARE_READER || pipe2(scratch, O_CLOEXEC))
        return false;
    ssize_t copied = tee(record->fd, scratch[1], 1, SPLICE_F_NONBLOCK);
    close(scratch[0]);
    close(scratch[1]);
    return copied == 0;
}

static bool is_of_name(const struct fd_record *record, const char *path)
{
    struct file_id id;
    return path[0] == '/' && file_id_at(AT_FDCWD, path, &id) == 0 && id.inode == record->id.inode &&
           id.device == record->id.device;
}

enum fd_kind pipes_kind(const struct fd_record *record, const char *path)
{
    if (has_lost_its_other_end(record))
        return FD_ENDED_PIPE;
    return is_of_name(record, path) && has_no_writer(record) ? FD_UNBEGUN_PIPE : FD_PIPE;
}

/* ---- noting ---- */

/* By the reading end, or, if there is none any more, by the writing one: it may be opened for reading. */
void pipes_note(struct fd_record *record)
{
    char *pieces;
    if (record->kind == FD_PIPE && !(ends_of(record) & SHARE_READER))
        return;
    ssize_t bytes = pipe_content_read(record->fd, &pieces);
    char *text = bytes > 0 ? fd_notes_reserve((size_t)bytes) : NULL;
    if (text) {
        memcpy(text, pieces, (size_t)bytes);
        fd_notes_commit(record, (size_t)bytes);
    }
    free(pieces);
}

/* ---- which descriptors are of one pipe ---- */

/* Of each open file description its first descriptor, by their pipes, and then by their places in the notes.
 */
static const struct fd_record **pipes;
static size_t pipe_count;

static int compare_pipes(const struct fd_record *one, const struct fd_record *other)
{
    if (one->id.device != other->id.device) /* one may have a name */
        return one->id.device < other->id.device ? -1 : 1;
    return one->id.inode < other->id.inode ? -1 : one->id.inode > other->id.inode;
}

static int compare_places(const void *left, const void *right)
{
    const struct fd_record *one = *(const struct fd_record *const *)left,
                           *other = *(const struct fd_record *const *)right;
    int order = compare_pipes(one, other);
    return order ? order : (one > other) - (one < other);
}

static void sort_pipes(void)
{
    pipe_count = 0;
    pipes = calloc(VK->fd_count + 1, sizeof *pipes);
    for (uint64_t i = 0; pipes && i < VK->fd_count; i++)
        if (pipes_has(VK->fds[i].kind) && VK->fds[i].same_as < 0)
            pipes[pipe_count++] = &VK->fds[i];
    if (pipes)
        qsort(pipes, pipe_count, sizeof *pipes, compare_places);
}

/* All descriptors of the record's pipe: the first of `*count` in a row. */
static const struct fd_record **group_of(const struct fd_record *record, size_t *count)
{
    if (!pipes)
        sort_pipes();
    const struct fd_record **at =
        pipes ? bsearch(&record, pipes, pipe_count, sizeof *pipes, compare_places) : NULL;
    *count = 0;
    while (at && at > pipes && compare_pipes(at[-1], record) == 0)
        at--;
    while (at && at + *count < pipes + pipe_count && compare_pipes(at[*count], record) == 0)
        ++*count;
    return at;
}

static bool has_both_ends(const struct fd_record *record)
{
    size_t count;
    int32_t ends = 0;
    const struct fd_record **group = group_of(record, &count);
    for (size_t i = 0; i < count; i++)
        ends |= ends_of(group[i]);
    return ends == (SHARE_READER | SHARE_WRITER);
}

/*
 * A pipe is the process's own business only if no other rank has an end of it, which the agent finds out:
 * this process may have both ends, and another rank one that was passed on. One that has ended may be open in
 * several ranks, too: then nobody is missing. One that has not begun holds nothing that ranks could share.
 */
void pipes_note_share(const struct fd_record *record)
{
    bool is_ended = record->kind == FD_ENDED_PIPE;
    if (record->kind == FD_UNBEGUN_PIPE)
        return;
    shares_note(&(struct share_note){.kind = SHARE_PIPE,
                                     .fd = record->fd,
                                     .device = fd_record_device(record),
                                     .inode = record->id.inode,
                                     .id = is_ended ? SHARE_READER | SHARE_WRITER : ends_of(record)});
}

/* ---- restoring ---- */

/* A new pipe; its numbers are above those of the program. */
struct pipe {
    int ends[2];     /* the same twice if it has a name */
    bool is_used[2]; /* a descriptor of the program is a copy of it */
};

void pipes_forget(void)
{
    free(pipes);
    pipes = NULL;
}

static void let_go(const struct pipe *pipe)
{
    close(pipe->ends[0]);
    if (pipe->ends[1] != pipe->ends[0])
        close(pipe->ends[1]);
}

/* Out of the way of the numbers that the program wants. */
static int move_up(int fd)
{
    int above = 0;
    for (uint64_t i = 0; i < VK->fd_count; i++)
        above = VK->fds[i].fd >= above ? VK->fds[i].fd + 1 : above;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, above);
    close(fd);
    return moved;
}

/* Both ends by one descriptor. What the pipe holds now is of the launch that was lost. */
static bool open_named(const struct fd_record *record, struct pipe *pipe)
{
    char unwanted[4096];
    struct file_id id;
    int fd = open(fd_record_path(record), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (file_id_at(fd, "", &id) || !S_ISFIFO(id.mode)) {
        close(fd);
        return false;
    }
    while (read(fd, unwanted, sizeof unwanted) > 0)
        ;
    pipe->ends[0] = pipe->ends[1] = move_up(fd);
    pipe->is_used[0] = pipe->is_used[1] = true;
    return pipe->ends[0] >= 0;
}

static bool make_nameless(struct pipe *pipe)
{
    if (pipe2(pipe->ends, O_CLOEXEC | O_NONBLOCK))
        return false;
    pipe->is_used[0] = pipe->is_used[1] = false;
    pipe->ends[0] = move_up(pipe->ends[0]);
    pipe->ends[1] = move_up(pipe->ends[1]);
    return pipe->ends[0] >= 0 && pipe->ends[1] >= 0;
}

/* It has to have the same room before it is filled. Each reader has noted the same. */
static bool fill(const struct pipe *pipe, const struct fd_record **group, size_t count)
{
    const struct fd_record *noted = group[0];
    for (size_t i = 1; i < count && !noted->text_bytes; i++)
        noted = group[i];
    fcntl(pipe->ends[1], F_SETPIPE_SZ, (int)noted->bytes);
    return pipe_content_write(pipe->ends[1], VK->fd_text + noted->text, noted->text_bytes) == 0;
}

/*
 * The first descriptor of each end is what pipe2(2) gives; others were opened by way of /proc, or by the
 * pipe's name.
 */
static bool place(struct pipe *pipe, const struct fd_record *record)
{
    int end = ends_of(record) == SHARE_READER ? 0 : 1;
    bool is_copy = ends_of(record) != (SHARE_READER | SHARE_WRITER) && !pipe->is_used[end];
    if (is_copy) {
        int fd = fcntl(pipe->ends[end], F_DUPFD_CLOEXEC, record->fd);
        if (fd < 0 || fd_record_place(fd, record) < 0)
            return false;
        pipe->is_used[end] = true;
        return true;
    }
    return fd_record_open_again(pipe->ends[end], record);
}

/* All its descriptors are made together. */
static bool restore_group(const struct fd_record **group, size_t count)
{
    struct pipe pipe;
    if (!(has_name(group[0]) && open_named(group[0], &pipe)) && !make_nameless(&pipe))
        return false;
    bool is_whole = fill(&pipe, group, count);
    for (size_t i = 0; i < count; i++)
        is_whole &= place(&pipe, group[i]);
    let_go(&pipe);
    return is_whole;
}

static int find_shared(const struct fd_record *record)
{
    struct belay_error err;
    return shares_file(SHARE_PIPE, fd_record_device(record), record->id.inode, &err);
}

/* Opened while nobody writes: so it does not look as if it had ended (poll(2)). */
static bool restore_unbegun(const struct fd_record *record)
{
    struct file_id id;
    int fd = open(fd_record_path(record), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (file_id_at(fd, "", &id) || !S_ISFIFO(id.mode)) {
        close(fd);
        return false;
    }
    fcntl(fd, F_SETFL, record->status_flags);
    return fd_record_place(fd, record) >= 0;
}

bool pipes_restore(const struct fd_record *record)
{
    size_t count;
    if (record->kind == FD_UNBEGUN_PIPE)
        return restore_unbegun(record);
    int shared = find_shared(record);
    if (shared >= 0)
        return fd_record_open_again(shared, record);
    const struct fd_record **group = group_of(record, &count);
    if (count == 0 || (record->kind == FD_PIPE && !has_both_ends(record)))
        return false;
    return group[0] == record ? restore_group(group, count) : vk_fd_is_made(record->fd);
}
