/*
 * files.c - contents of files: opened in all ways, read, written, cut, and filled by the kernel.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/channels/pipes.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/files/paths.h"
#include "tests/histories/core/world.h"

#define FILE_MAX (300l << 10)
#define PIECE_MAX 70000

static char buffer[PIECE_MAX];

static off_t some_offset(void)
{
    return chance(40) ? (off_t)pick(16) * (off_t)PAGE
                      : (off_t)pick(chance(70) ? 20000 : FILE_MAX - PIECE_MAX);
}

/* Bytes that have arrived. */
static long got(long bytes)
{
    if (answer(bytes) > 0)
        say_bytes(buffer, (size_t)bytes);
    return bytes;
}

/* ---- opened ---- */

/* Of a FIFO, only what is opened for one direction is used. */
static struct descriptor *keep_opened(int fd)
{
    answer(fd < 0 ? -1 : 0);
    if (fd < 0)
        return NULL;
    int access = fcntl(fd, F_GETFL) & O_ACCMODE;
    struct descriptor *d = descriptor_keep(fd, descriptor_kind_of(fd));
    if (d->kind == DESCRIPTOR_PIPE)
        d->tag = access == O_RDONLY ? TAG_READ : access == O_WRONLY ? TAG_WRITE : TAG_NONE;
    return d;
}

static int some_flags(void)
{
    static const int access[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR};
    static const int others[] = {O_CREAT,  O_CREAT,   O_CREAT,    O_EXCL, O_TRUNC,
                                 O_APPEND, O_CLOEXEC, O_NOFOLLOW, O_DSYNC};
    int flags = access[pick(4)] | O_NONBLOCK; /* or a FIFO would keep it waiting */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        flags |= chance(28) ? others[i] : 0;
    return flags & O_CREAT ? flags : flags & ~O_EXCL;
}

static mode_t some_mode(void)
{
    return (mode_t)PICK_ONE(0644, 0644, 0600, 0666, 0444, 0400, 0755);
}

static void act_open(void)
{
    struct path path = path_of_file();
    int flags = some_flags();
    mode_t mode = some_mode();
    say(" %x %o", flags, mode);
    keep_opened(openat(path.folder, path.name, flags, mode));
}

static void act_create(void)
{
    struct path path = path_plain(false);
    keep_opened(chance(50) ? creat(path.name, some_mode())
                           : open(path.name, O_RDWR | O_CREAT | O_NONBLOCK, 0644));
}

static void act_open_path(void)
{
    struct path path = path_of_file();
    keep_opened(openat(path.folder, path.name, O_PATH | (chance(50) ? O_NOFOLLOW : 0)));
}

static void act_open_folder(void)
{
    struct path path = path_of_folder();
    if (chance(25)) {
        path = (struct path){.folder = AT_FDCWD};
        snprintf(path.name, sizeof path.name, "%s", path_root());
        say(" or /");
    }
    keep_opened(openat(path.folder, path.name, O_RDONLY | O_DIRECTORY | (chance(50) ? O_CLOEXEC : 0)));
}

/* What a descriptor stands for, opened once more by its name in /proc. */
static void act_reopen(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE | DESCRIPTOR_PATH);
    char name[64];
    int flags = (int)PICK_ONE(O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_APPEND);
    if (!d || descriptor_kind_of(d->number) == DESCRIPTOR_PIPE)
        return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", d->number);
    say(" %x", flags);
    bool has_lost_name = d->has_lost_name;
    struct descriptor *again = keep_opened(open(name, flags | O_NONBLOCK));
    if (again)
        again->has_lost_name = has_lost_name;
}

static void act_nameless(void)
{
    bool is_own = chance(50);
    struct path path = path_of_folder();
    int flags = O_TMPFILE | O_RDWR | (chance(30) ? O_EXCL : 0);
    say(" %x", flags);
    keep_opened(is_own ? open(path_root(), flags, 0640) : openat(path.folder, path.name, flags, 0640));
}

/* ---- read ---- */

static void act_read(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    size_t bytes = pick_length(PIECE_MAX);
    say(" %zu", bytes);
    if (d)
        got(read(d->number, buffer, bytes));
}

static void act_pread(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    size_t bytes = pick_length(PIECE_MAX);
    off_t at = some_offset();
    say(" %zu@%ld", bytes, (long)at);
    if (d)
        got(pread(d->number, buffer, bytes, at));
}

static void act_readv(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    size_t first = pick_length(PIECE_MAX / 2), second = pick_length(PIECE_MAX / 2);
    struct iovec pieces[2] = {{buffer, first}, {buffer + first, second}};
    off_t at = chance(50) ? -1 : some_offset();
    if (d)
        got(at < 0 ? readv(d->number, pieces, 2) : preadv2(d->number, pieces, 2, at, 0));
}

static void act_seek(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    int whence = (int)PICK_ONE(SEEK_SET, SEEK_CUR, SEEK_END);
    off_t at =
        whence == SEEK_SET ? some_offset() : (off_t)pick_between(-9000, whence == SEEK_CUR ? 9000 : 3000);
    say(" %d %ld", whence, (long)at);
    if (d && lseek(d->number, 0, SEEK_CUR) < FILE_MAX / 2)
        answer(lseek(d->number, at, whence));
}

/* ---- written ---- */

/* Files stay small. */
static bool has_room(const struct descriptor *d)
{
    struct stat stat;
    return !fstat(d->number, &stat) && stat.st_size < FILE_MAX && lseek(d->number, 0, SEEK_CUR) < FILE_MAX;
}

static struct descriptor *choose_to_write(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    if (d && !has_room(d)) {
        say(" full");
        return NULL;
    }
    return d;
}

static void act_write(void)
{
    struct descriptor *d = choose_to_write();
    size_t bytes = pick_length(PIECE_MAX);
    say(" %zu", bytes);
    if (d)
        answer(write(d->number, some_bytes(bytes), bytes));
}

static void act_pwrite(void)
{
    struct descriptor *d = choose_to_write();
    size_t bytes = pick_length(PIECE_MAX);
    off_t at = some_offset();
    say(" %zu@%ld", bytes, (long)at);
    if (d)
        answer(pwrite(d->number, some_bytes(bytes), bytes, at));
}

static void act_writev(void)
{
    struct descriptor *d = choose_to_write();
    size_t first = pick_length(PIECE_MAX / 2), second = pick_length(PIECE_MAX / 2), way = pick(4);
    char *bytes = (char *)some_bytes(first + second);
    struct iovec pieces[2] = {{bytes, first}, {bytes + first, second}};
    say(" %zu+%zu way %zu", first, second, way);
    if (!d)
        return;
    if (way == 0)
        answer(writev(d->number, pieces, 2));
    else if (way == 1)
        answer(pwritev(d->number, pieces, 2, some_offset()));
    else
        answer(pwritev2(d->number, pieces, 2, way == 2 ? -1 : some_offset(), way == 2 ? 0 : RWF_APPEND));
}

static void act_truncate(void)
{
    bool is_by_name = chance(40);
    off_t size = some_offset();
    if (is_by_name) {
        struct path path = path_plain(false);
        say(" %ld", (long)size);
        answer(truncate(path.name, size));
        return;
    }
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    say(" %ld", (long)size);
    if (d)
        answer(ftruncate(d->number, size));
}

static void act_allocate(void)
{
    struct descriptor *d = choose_to_write();
    int mode = (int)PICK_ONE(0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
                             FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE,
                             FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_COLLAPSE_RANGE,
                             FALLOC_FL_INSERT_RANGE);
    bool is_aligned = mode == FALLOC_FL_COLLAPSE_RANGE || mode == FALLOC_FL_INSERT_RANGE;
    off_t at = is_aligned ? (off_t)pick(8) * (off_t)PAGE : some_offset();
    off_t bytes = is_aligned ? (off_t)(1 + pick(4)) * (off_t)PAGE : (off_t)pick_length(PIECE_MAX);
    say(" %x %ld@%ld", mode, (long)bytes, (long)at);
    if (d)
        answer(fallocate(d->number, mode, at, bytes));
}

/* ---- from one to another ---- */

static void act_copy_range(void)
{
    struct descriptor *from = descriptor_choose(DESCRIPTOR_FILE), *to = choose_to_write();
    loff_t at = some_offset(), into = some_offset();
    size_t bytes = pick_length(PIECE_MAX);
    bool has_offsets = chance(50);
    say(" %zu %ld %ld", bytes, has_offsets ? (long)at : -1, has_offsets ? (long)into : -1);
    if (from && to)
        answer(copy_file_range(from->number, has_offsets ? &at : NULL, to->number, has_offsets ? &into : NULL,
                               bytes, 0));
}

static void act_sendfile(void)
{
    struct descriptor *from = descriptor_choose(DESCRIPTOR_FILE), *to = choose_to_write();
    off_t at = some_offset();
    size_t bytes = pick_length(PIECE_MAX);
    bool has_offset = chance(50);
    say(" %zu %ld", bytes, has_offset ? (long)at : -1);
    if (from && to)
        answer(sendfile(to->number, from->number, has_offset ? &at : NULL, bytes));
}

/* Through a pipe, which is empty again. */
static void act_splice(void)
{
    struct descriptor *from = descriptor_choose(DESCRIPTOR_FILE), *to = choose_to_write();
    loff_t at = some_offset(), into = some_offset();
    size_t bytes = pick_length(PIECE_MAX / 2);
    int pipe[2];
    if (!from || !to || pipe2(pipe, O_CLOEXEC | O_NONBLOCK))
        return;
    long in = answer(splice(from->number, &at, pipe[1], NULL, bytes, 0));
    if (in > 0)
        answer(splice(pipe[0], NULL, to->number, chance(50) ? &into : NULL, (size_t)in, 0));
    close(pipe[0]);
    close(pipe[1]);
}

/* By a thread of the C library's own. */
static void act_aio(void)
{
    struct descriptor *d = choose_to_write();
    bool is_writing = chance(60);
    size_t bytes = pick_length(PIECE_MAX);
    struct aiocb request = {.aio_nbytes = bytes, .aio_offset = some_offset(), .aio_buf = buffer};
    const struct aiocb *const list[1] = {&request};
    if (!d)
        return;
    memset(buffer, 0, bytes);
    if (is_writing)
        fill(buffer, bytes, roll());
    request.aio_fildes = d->number;
    request.aio_sigevent.sigev_notify = SIGEV_NONE;
    if (answer(is_writing ? aio_write(&request) : aio_read(&request)))
        return;
    while (aio_error(&request) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    errno = aio_error(&request);
    long done = answer(aio_return(&request));
    if (done > 0)
        say_bytes(buffer, (size_t)done);
}

static void act_sync(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    size_t way = pick(4);
    if (!d)
        return;
    if (way == 0)
        answer(fsync(d->number));
    else if (way == 1)
        answer(fdatasync(d->number));
    else if (way == 2)
        answer(posix_fadvise(d->number, 0, 0, POSIX_FADV_DONTNEED));
    else
        answer(sync_file_range(d->number, 0, 0, SYNC_FILE_RANGE_WRITE));
}

static const struct operation operations[] = {
    {"open", 22, act_open},
    {"create", 4, act_create},
    {"open_path", 2, act_open_path},
    {"open_folder", 6, act_open_folder},
    {"reopen", 4, act_reopen},
    {"nameless", 3, act_nameless},
    {"read", 5, act_read},
    {"pread", 3, act_pread},
    {"readv", 2, act_readv},
    {"seek", 5, act_seek},
    {"write", 14, act_write},
    {"pwrite", 8, act_pwrite},
    {"writev", 4, act_writev},
    {"truncate", 6, act_truncate},
    {"allocate", 5, act_allocate},
    {"copy_range", 3, act_copy_range},
    {"sendfile", 3, act_sendfile},
    {"splice", 3, act_splice},
    {"aio", 2, act_aio},
    {"sync", 1, act_sync},
    {NULL, 0, NULL},
};

/* Contents of what is open, also of files that have no name any more. */
static void observe(void)
{
    static char contents[2 * FILE_MAX];
    for (int i = 0; i < DESCRIPTORS; i++) {
        struct descriptor *d = descriptor_at(i);
        if (d->kind != DESCRIPTOR_FILE || (fcntl(d->number, F_GETFL) & O_ACCMODE) == O_WRONLY)
            continue;
        ssize_t bytes = pread(d->number, contents, sizeof contents, 0);
        char what[32];
        snprintf(what, sizeof what, "#%d", i);
        if (bytes < 0)
            note("%s: %s", what, error_name(errno));
        else
            note_bytes(what, contents, (size_t)bytes);
    }
}

const struct kind kind_files = {"files", operations, .observe = observe};
