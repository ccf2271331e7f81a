/*
 * files_held - files that stay open while no path leads to them any more, or another one: in every step it
 * writes to them, reads them, and looks at what they are.
 *
 * - scratch: without a name from the beginning, as Fortran's are, --value MiB (default 2), open twice,
 *   copied; one that is open to be read only
 * - linked: opened by a name that is removed; another one stays
 * - replaced: its name was removed and given to another file
 * - moved: renamed while open, and its folder as well
 * - locks: removed while they are open, of which their links tell
 * - forbidden: read-only by its permissions, open to be written; later with none at all, in such a folder
 * - unnamed: O_TMPFILE, given a name in the middle
 * - once: names that cannot be given again, of a removed file and of one that had none from the beginning
 * - memory: memfd, sealed against shrinking, mapped twice
 * - folders: read to the middle; removed; a working directory that is removed
 * - own: /proc/self and its like; flags and settings of descriptors
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

#define NAME_BYTES 96
#define MIB (1l << 20)
#define PAGE 4096
#define ENTRIES 400
#define LOCKS 3

struct held {
    struct program program;
    long first;
    long step;
    int scratch, again, copy, appended, reader;
    int linked, replaced, moved, forbidden, hidden, unnamed, gone, brief, memory;
    int locks[LOCKS];
    volatile char *views[2];
    int listed, removed, place, link;
    int maps, status, thread_name, process_memory, asynchronous;
    char (*entries)[32];
};

static void check(const struct held *h, bool is_fine, const char *what)
{
    if (!is_fine)
        fail(&h->program, "step %ld, %s a restart: %s: %s", h->step,
             incarnation() == h->first ? "before" : "after", what, strerror(errno));
}

static const char *name(const struct held *h, const char *kind)
{
    static char names[4][NAME_BYTES];
    static unsigned next;
    char *text = names[next++ % 4];
    snprintf(text, NAME_BYTES, "data-%s-%d", kind, h->program.rank);
    return text;
}

static int make(const struct held *h, const char *kind, int flags, mode_t mode)
{
    int fd = open(name(h, kind), flags | O_CREAT, mode);
    check(h, fd >= 0, kind);
    return fd;
}

/* Adds to numbers somewhere in the file, and to the digest what was there. */
static void update(struct held *h, int fd, long bytes)
{
    uint64_t random = (uint64_t)h->step * 977 + (uint64_t)h->program.rank, number = 0;
    for (int i = 0; i < 5; i++) {
        off_t at = (off_t)(random_next(&random) % (uint64_t)(bytes / 8)) * 8;
        check(h, pread(fd, &number, sizeof number, at) == sizeof number, "pread");
        digest_add_number(&h->program.digest, number);
        number = number * 3 + (uint64_t)h->step;
        check(h, pwrite(fd, &number, sizeof number, at) == sizeof number, "pwrite");
    }
}

static void append_line(struct held *h, int fd, const char *what)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %ld\n", what, h->step);
    check(h, write(fd, line, (size_t)length) == length, what);
}

static void digest_all(struct held *h, int fd)
{
    char bytes[PAGE];
    ssize_t got;
    struct stat st;
    for (off_t at = 0; (got = pread(fd, bytes, sizeof bytes, at)) > 0; at += got)
        digest_add(&h->program.digest, bytes, (size_t)got);
    check(h, fstat(fd, &st) == 0, "fstat");
    digest_add_number(&h->program.digest, (uint64_t)st.st_size);
}

static bool is_one_file(int fd, int other)
{
    struct stat one, two;
    return fstat(fd, &one) == 0 && fstat(other, &two) == 0 && one.st_ino == two.st_ino &&
           one.st_dev == two.st_dev;
}

static int open_again(const struct held *h, int fd, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, flags);
    check(h, again >= 0, path);
    return again;
}

/* ---- scratch ---- */

static void begin_scratch(struct held *h)
{
    h->scratch = make(h, "scratch", O_RDWR | O_EXCL, 0600);
    check(h, unlink(name(h, "scratch")) == 0 && ftruncate(h->scratch, h->program.value * MIB) == 0, "unlink");
    h->again = open_again(h, h->scratch, O_RDWR);
    h->copy = dup(h->scratch);
    h->appended = make(h, "appended", O_RDWR | O_APPEND, 0600);
    check(h, unlink(name(h, "appended")) == 0, "unlink");
    char block[PAGE];
    for (long at = 0; at < h->program.value * MIB; at += PAGE) {
        memset(block, (int)(at / PAGE), sizeof block);
        check(h, pwrite(h->scratch, block, sizeof block, at) == sizeof block, "filling");
    }
    int writer = make(h, "reader", O_RDWR, 0600);
    check(h, unlink(name(h, "reader")) == 0 && pwrite(writer, block, sizeof block, 0) == sizeof block,
          "unlink");
    h->reader = open_again(h, writer, O_RDONLY);
    close(writer);
}

/* What stays open may only be read: each step opens it again to write. */
static void step_reader(struct held *h)
{
    int writer = open_again(h, h->reader, O_RDWR);
    update(h, writer, PAGE);
    close(writer);
}

static void step_scratch(struct held *h)
{
    check(h, is_one_file(h->scratch, h->again) && is_one_file(h->scratch, h->copy), "one file, opened twice");
    update(h, h->step % 2 ? h->scratch : h->again, h->program.value * MIB);
    check(h, lseek(h->copy, 0, SEEK_CUR) == (h->step - 1) * 8, "the position of the step before");
    check(h, write(h->scratch, &h->step, 8) == 8 && lseek(h->copy, 0, SEEK_CUR) == h->step * 8,
          "one position for copies");
    check(h, lseek(h->again, 0, SEEK_CUR) == 0, "a position of its own");
    check(h, lseek(h->appended, 0, SEEK_SET) == 0, "lseek");
    append_line(h, h->appended, "appended");
    if (h->step % 20 == 0)
        check(h, ftruncate(h->appended, h->step) == 0, "ftruncate");
    digest_all(h, h->appended);
}

/* ---- files that are locked, and are gone for whoever waits for the lock once they have no link ---- */

static const long lock_lengths[LOCKS] = {0, 11, PAGE};

static void make_lock(struct held *h, int i)
{
    char file[16], text[PAGE] = "in use\n";
    snprintf(file, sizeof file, "lock-%d", i);
    h->locks[i] = make(h, file, O_RDWR | O_EXCL, 0600);
    check(h, write(h->locks[i], text, (size_t)lock_lengths[i]) == lock_lengths[i], "the lock's text");
    check(h, flock(h->locks[i], LOCK_EX | LOCK_NB) == 0, "flock");
}

static void begin_locks(struct held *h)
{
    for (int i = 0; i < LOCKS; i++)
        make_lock(h, i);
}

static void step_locks(struct held *h)
{
    char file[16];
    struct stat st;
    for (int i = 0; i < LOCKS; i++) {
        check(h, fstat(h->locks[i], &st) == 0 && st.st_nlink == 1 && st.st_size == lock_lengths[i],
              "a lock's links");
        if (h->step % 10 != 3 * i)
            continue;
        snprintf(file, sizeof file, "lock-%d", i);
        bool has_gone = unlink(name(h, file)) == 0 && fstat(h->locks[i], &st) == 0 && st.st_nlink == 0;
        check(h, has_gone, "no link is left");
        close(h->locks[i]);
        make_lock(h, i);
    }
}

/* ---- other names ---- */

static void begin_names(struct held *h)
{
    char inside[2 * NAME_BYTES];
    h->linked = make(h, "first", O_RDWR, 0600);
    check(h, link(name(h, "first"), name(h, "second")) == 0 && unlink(name(h, "first")) == 0, "another name");
    h->replaced = make(h, "replaced", O_RDWR, 0600);
    check(h, unlink(name(h, "replaced")) == 0, "unlink");
    int other = make(h, "replaced", O_WRONLY | O_EXCL, 0600);
    append_line(h, other, "the other one");
    close(other);
    check(h, mkdir(name(h, "folder"), 0700) == 0, "mkdir");
    snprintf(inside, sizeof inside, "%s/moved", name(h, "folder"));
    h->moved = open(inside, O_RDWR | O_CREAT, 0600);
    check(h, h->moved >= 0, inside);
    begin_locks(h);
}

static void step_names(struct held *h)
{
    char inside[2 * NAME_BYTES], other[2 * NAME_BYTES], text[32] = "";
    append_line(h, h->linked, "linked");
    digest_all(h, h->linked);
    append_line(h, h->replaced, "replaced");
    digest_all(h, h->replaced);
    int fd = open(name(h, "replaced"), O_RDONLY);
    check(h, fd >= 0 && read(fd, text, sizeof text) > 0 && !strcmp(text, "the other one 0\n"),
          "the other file");
    close(fd);
    append_line(h, h->moved, "moved");
    const char *here = name(h, h->step % 4 == 1 || h->step % 4 == 0 ? "folder" : "moved-folder");
    const char *there = name(h, h->step % 4 == 1 || h->step % 4 == 0 ? "moved-folder" : "folder");
    snprintf(inside, sizeof inside, "%s/moved", here);
    snprintf(other, sizeof other, "%s/%ld", here, h->step);
    if (h->step % 2)
        check(h, rename(here, there) == 0, "a folder's name");
    else
        check(h, rename(inside, other) == 0 && rename(other, inside) == 0, "a file's name");
    append_line(h, h->moved, "moved again");
    digest_all(h, h->moved);
    step_locks(h);
}

/* ---- permissions ---- */

static void begin_forbidden(struct held *h)
{
    char inside[2 * NAME_BYTES];
    h->forbidden = make(h, "forbidden", O_RDWR | O_EXCL, 0444);
    check(h, mkdir(name(h, "hidden-folder"), 0700) == 0, "mkdir");
    snprintf(inside, sizeof inside, "%s/hidden", name(h, "hidden-folder"));
    h->hidden = open(inside, O_RDWR | O_CREAT, 0000);
    check(h, h->hidden >= 0 && chmod(name(h, "hidden-folder"), 0000) == 0, inside);
}

static void step_forbidden(struct held *h)
{
    append_line(h, h->forbidden, "forbidden");
    digest_all(h, h->forbidden);
    append_line(h, h->hidden, "hidden");
    check(h, pwrite(h->hidden, &h->step, 1, h->step % 5) == 1, "over the beginning");
    digest_all(h, h->hidden);
}

/* ---- never named, or only for a moment ---- */

static void begin_unnamed(struct held *h)
{
    h->unnamed = open(".", O_TMPFILE | O_RDWR, 0600);
    h->memory = (int)syscall(SYS_memfd_create, "held", 2u /* MFD_ALLOW_SEALING */);
    check(h, h->memory >= 0 && ftruncate(h->memory, 2 * PAGE) == 0, "memfd");
    check(h, fcntl(h->memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "a seal");
    for (int i = 0; i < 2; i++) {
        h->views[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, h->memory, 0);
        check(h, h->views[i] != MAP_FAILED, "mmap");
    }
}

static void step_unnamed(struct held *h)
{
    char path[64];
    if (h->unnamed >= 0) { /* not every file system has them */
        append_line(h, h->unnamed, "unnamed");
        digest_all(h, h->unnamed);
        snprintf(path, sizeof path, "/proc/self/fd/%d", h->unnamed);
        if (h->step == h->program.steps / 2)
            check(h, linkat(AT_FDCWD, path, AT_FDCWD, name(h, "named"), AT_SYMLINK_FOLLOW) == 0, "a name");
    }
    check(h, fcntl(h->memory, F_GET_SEALS) == F_SEAL_SHRINK, "the seal");
    check(h, ftruncate(h->memory, PAGE) == -1 && errno == EPERM, "what a seal forbids");
    update(h, h->memory, 2 * PAGE);
    h->views[0][h->step % PAGE] = (char)h->step;
    check(h, h->views[1][h->step % PAGE] == (char)h->step, "two views of the same memory");
    digest_all(h, h->memory);
}

/* ---- names that cannot be given again ---- */

static void begin_once(struct held *h)
{
    h->gone = make(h, "gone", O_RDWR | O_EXCL, 0600);
    h->brief = open(".", O_TMPFILE | O_RDWR, 0600);
}

static bool give_name(const struct held *h, int fd, const char *kind)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, AT_FDCWD, name(h, kind), AT_SYMLINK_FOLLOW) == 0;
}

/* Each is removed long before the end: lines and restarts fall before and behind that. */
static void step_once(struct held *h)
{
    long removed = h->program.steps / 3;
    if (h->step == removed)
        check(h, unlink(name(h, "gone")) == 0, "unlink");
    if (h->step >= removed)
        check(h, !give_name(h, h->gone, "other") && errno == ENOENT, "a name for a removed file");
    if (h->brief < 0)
        return;
    if (h->step == removed - 5)
        check(h, give_name(h, h->brief, "brief"), "its first name");
    if (h->step == removed)
        check(h, unlink(name(h, "brief")) == 0, "unlink");
    if (h->step >= removed)
        check(h, !give_name(h, h->brief, "brief") && errno == ENOENT, "a second name for a scratch file");
}

/* ---- folders ---- */

static void begin_folders(struct held *h)
{
    char path[2 * NAME_BYTES];
    check(h, mkdir(name(h, "listed"), 0700) == 0, "mkdir");
    for (int i = 0; i < ENTRIES; i++) {
        snprintf(path, sizeof path, "%s/%d", name(h, "listed"), i);
        close(open(path, O_WRONLY | O_CREAT, 0600));
    }
    h->listed = open(name(h, "listed"), O_RDONLY | O_DIRECTORY);
    check(h, mkdir(name(h, "removed"), 0700) == 0, "mkdir");
    h->removed = open(name(h, "removed"), O_RDONLY | O_DIRECTORY);
    check(h, rmdir(name(h, "removed")) == 0, "rmdir");
    h->place = open(".", O_PATH);
    check(h, symlink("anywhere", name(h, "link")) == 0, "symlink");
    h->link = open(name(h, "link"), O_PATH | O_NOFOLLOW);
    check(h, h->listed >= 0 && h->removed >= 0 && h->place >= 0 && h->link >= 0, "folders");
}

/* A few more names in each step; in the end all of them, each once. */
static void step_folders(struct held *h)
{
    char bytes[128], target[32] = "";
    long got = syscall(SYS_getdents64, h->listed, bytes, sizeof bytes);
    check(h, got >= 0, "getdents64");
    for (long at = 0; at < got; at += *(unsigned short *)(bytes + at + 16)) {
        const char *entry = bytes + at + 19;
        digest_add_number(&h->program.digest, entry[0] == '.' ? 0 : strtoul(entry, NULL, 10) + 1);
    }
    check(h, syscall(SYS_getdents64, h->removed, bytes, sizeof bytes) == -1 && errno == ENOENT,
          "a removed folder");
    check(h, readlinkat(h->link, "", target, sizeof target) == 8 && !strcmp(target, "anywhere"),
          "a link itself");
    struct stat st;
    check(h, fstatat(h->place, name(h, "listed"), &st, 0) == 0, "from a place");
    if (h->program.rank == 1)
        check(h, !getcwd(bytes, sizeof bytes) && errno == ENOENT, "a working directory that was removed");
}

/* ---- of the process itself ---- */

static void begin_own(struct held *h)
{
    h->maps = open("/proc/self/maps", O_RDONLY);
    h->status = open("/proc/self/status", O_RDONLY);
    h->thread_name = open("/proc/thread-self/comm", O_RDWR);
    h->process_memory = open("/proc/self/mem", O_RDWR);
    check(h, h->maps >= 0 && h->status >= 0 && h->thread_name >= 0 && h->process_memory >= 0, "/proc/self");
    int ends[2];
    check(h,
          pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, getpid()) == 0 &&
              fcntl(ends[0], F_SETSIG, SIGUSR2) == 0,
          "a signal for a pipe");
    check(h, fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0, "O_ASYNC");
    h->asynchronous = ends[0];
    signal(SIGUSR2, SIG_IGN);
}

/* Of the process that it is now; read again if a restart has come meanwhile. */
static void check_status(const struct held *h)
{
    char text[PAGE] = "", line[64];
    long before;
    do {
        before = incarnation();
        check(h, pread(h->status, text, sizeof text - 1, 0) > 0, "status");
    } while (incarnation() != before);
    snprintf(line, sizeof line, "\nPid:\t%ld\n", before);
    check(h, strstr(text, line), "the process id in /proc/self/status");
}

static void step_own(struct held *h)
{
    char text[2048] = "";
    static volatile long number;
    long seen = 0;
    number = h->step;
    check_status(h);
    check(h, pread(h->maps, text, 64, 0) == 64, "maps");
    check(h, pread(h->thread_name, text, 16, 0) > 0 && !strncmp(text, "files_held", 10), "a thread's name");
    check(h,
          pread(h->process_memory, &seen, sizeof seen, (off_t)(uintptr_t)&number) == sizeof seen &&
              seen == h->step,
          "the process's memory");
    check(h, fcntl(h->asynchronous, F_GETFL) == (O_ASYNC | O_NONBLOCK), "flags of a descriptor");
    check(h, fcntl(h->asynchronous, F_GETOWN) == getpid() && fcntl(h->asynchronous, F_GETSIG) == SIGUSR2,
          "who is told of it");
}

/* ---- all ---- */

static void begin(struct held *h)
{
    begin_scratch(h);
    begin_names(h);
    begin_forbidden(h);
    begin_unnamed(h);
    begin_once(h);
    begin_folders(h);
    begin_own(h);
}

/* Rank 1 works from a folder that is not there any more; all names of the steps are relative to another one.
 */
static void leave(struct held *h, const char *top)
{
    check(h, chdir(top) == 0, top);
}

static void enter_removed(struct held *h)
{
    check(h,
          mkdir("removed-place", 0700) == 0 && chdir("removed-place") == 0 && rmdir("../removed-place") == 0,
          "a working directory to be removed");
}

int main(int argc, char **argv)
{
    struct held h = {.program = {.steps = 100, .value = 2}, .first = incarnation()};
    char top[PAGE];
    MPI_Init(&argc, &argv);
    program_begin(&h.program, "files_held", argc, argv);
    check(&h, getcwd(top, sizeof top), "getcwd");
    begin(&h);
    for (h.step = 1; h.step <= h.program.steps; h.step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        step_scratch(&h);
        step_reader(&h);
        step_names(&h);
        step_forbidden(&h);
        step_unnamed(&h);
        step_once(&h);
        if (h.program.rank == 1)
            enter_removed(&h);
        step_folders(&h);
        program_step(&h.program, h.step);
        leave(&h, top);
        step_own(&h);
    }
    chmod(name(&h, "hidden-folder"), 0700);
    program_end(&h.program);
    MPI_Finalize();
    return 0;
}
