/*
 * files_more - more of what programs do with files; every step does all of it:
 *   writes to files after their names were removed, moves folders with what is in them, makes and removes
 * named pipes and sockets, changes permissions and times and looks at them one step later, writes to a file
 * that it has mapped, privately or shared and writable later only; makes calls that fail; holds a lock;
 * removes files that all ranks remove at the same time
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

#define NAME_BYTES 96
#define HELD 4 /* files that are open at a time after their removal */
#define PAGE 4096
#define COMMON 30 /* files that all ranks remove */

struct files {
    struct program program;
    long first;
    long step;
    int held[HELD];
    mode_t mode;
    struct timespec modified;
    int mapped, late, locked;
    const char *private;
    char *shared;
};

static void check(const struct files *f, bool is_fine, const char *what)
{
    if (!is_fine)
        fail(&f->program, "step %ld, %s a restart: %s: %s", f->step,
             incarnation() == f->first ? "before" : "after", what, strerror(errno));
}

static const char *name(const struct files *f, const char *kind, long number)
{
    static char names[8][NAME_BYTES];
    static unsigned next;
    char *text = names[next++ % 8];
    snprintf(text, NAME_BYTES, "data-%s-%d-%ld", kind, f->program.rank, number);
    return text;
}

static void write_text(const struct files *f, int fd, const char *text, long number)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %ld\n", text, number);
    check(f, write(fd, line, (size_t)length) == length, text);
}

static void digest_file(struct files *f, int fd)
{
    char bytes[PAGE];
    ssize_t got = pread(fd, bytes, sizeof bytes, 0);
    check(f, got >= 0, "pread");
    digest_add(&f->program.digest, bytes, (size_t)got);
}

/* A file is made in one step, loses its name in the next, is written to for two more, and closed. */
static void step_held(struct files *f)
{
    int *slot = &f->held[f->step % HELD];
    if (*slot >= 0) {
        digest_file(f, *slot);
        close(*slot);
    }
    *slot = open(name(f, "held", f->step), O_RDWR | O_CREAT | O_EXCL, 0600);
    check(f, *slot >= 0, "a file to hold");
    for (int i = 0; i < HELD; i++)
        if (f->held[i] >= 0) {
            write_text(f, f->held[i], "held", f->step);
            check(f, pwrite(f->held[i], &f->step, 1, f->step % 7) == 1, "over the beginning");
        }
    if (f->step > 1)
        check(f, unlink(name(f, "held", f->step - 1)) == 0, "its name");
}

/* A folder goes from name to name, and so does the path of what is in it. */
static void step_folder(struct files *f)
{
    char inside[2 * NAME_BYTES];
    const char *old = name(f, "folder", f->step - 1), *new = name(f, "folder", f->step);
    snprintf(inside, sizeof inside, "%s/number", old);
    int fd = open(inside, O_RDWR);
    check(f, fd >= 0, inside);
    write_text(f, fd, "old", f->step);
    check(f, rename(old, new) == 0, "a folder's name");
    check(f, lseek(fd, f->step % 5, SEEK_SET) >= 0, "lseek");
    write_text(f, fd, "new", f->step);
    digest_file(f, fd);
    close(fd);
    snprintf(inside, sizeof inside, "%s/%ld", new, f->step);
    check(f, mkdir(inside, 0700) == 0, inside);
    if (f->step > 1) {
        snprintf(inside, sizeof inside, "%s/%ld", new, f->step - 1);
        check(f, rmdir(inside) == 0, inside);
    }
}

/* Named pipes and sockets: this step's are made, those of the step before removed. */
static void step_special(struct files *f)
{
    struct stat st;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "socket-%d-%ld", f->program.rank, f->step);
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    check(f, bind(sock, (struct sockaddr *)&address, sizeof address) == 0, address.sun_path);
    close(sock);
    char pipe_name[NAME_BYTES], old_pipe[NAME_BYTES], old_socket[NAME_BYTES];
    snprintf(pipe_name, sizeof pipe_name, "pipe-%d-%ld", f->program.rank, f->step);
    snprintf(old_pipe, sizeof old_pipe, "pipe-%d-%ld", f->program.rank, f->step - 1);
    snprintf(old_socket, sizeof old_socket, "socket-%d-%ld", f->program.rank, f->step - 1);
    check(f, mkfifo(pipe_name, 0600) == 0, pipe_name);
    if (f->step == 1)
        return;
    check(f, lstat(old_pipe, &st) == 0 && S_ISFIFO(st.st_mode) && unlink(old_pipe) == 0, old_pipe);
    check(f, lstat(old_socket, &st) == 0 && S_ISSOCK(st.st_mode) && unlink(old_socket) == 0, old_socket);
}

/* What was set in the step before is there, whatever was restored in between. */
static void step_attributes(struct files *f)
{
    struct stat st;
    const char *file = name(f, "attributes", 0);
    struct timespec times[2] = {{f->step, 0}, {1000000000 + f->step, f->step * 1000}};
    check(f, stat(file, &st) == 0, file);
    check(f, (st.st_mode & 07777) == f->mode, "permissions of the step before");
    check(f, st.st_mtim.tv_sec == f->modified.tv_sec && st.st_mtim.tv_nsec == f->modified.tv_nsec,
          "the time of change of the step before");
    f->mode = 0600 | (mode_t)(f->step % 64);
    check(f, f->step % 2 ? chmod(file, f->mode) == 0 : fchmodat(AT_FDCWD, file, f->mode, 0) == 0, "chmod");
    int fd = open(file, O_WRONLY | O_APPEND);
    write_text(f, fd, "attributes", f->step);
    check(f, f->step % 3 ? utimensat(AT_FDCWD, file, times, 0) == 0 : futimens(fd, times) == 0, "utimens");
    close(fd);
    f->modified = times[1];
}

/* The file is written by calls; nothing of the private mapping was written to, so it shows that. */
static void step_mapped(struct files *f)
{
    check(f, pwrite(f->mapped, &f->step, sizeof f->step, f->step % 100 * 8) == sizeof f->step,
          "a mapped file");
    digest_add(&f->program.digest, f->private, PAGE);
    if (f->step == 10)
        check(f, mprotect(f->shared, PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
    if (f->step >= 10)
        f->shared[f->step % PAGE] = (char)(f->shared[f->step % PAGE] * 3 + f->step);
    digest_add(&f->program.digest, f->shared, PAGE);
}

/* Writes in ways that say where themselves. */
static void step_ways(struct files *f)
{
    struct iovec part = {&f->step, sizeof f->step};
    int fd = open(name(f, "ways", 0), O_RDWR | O_CREAT | O_APPEND, 0600);
    int other = open(name(f, "clone", 0), O_RDWR | O_CREAT, 0600);
    check(f, syscall(SYS_pwritev2, fd, &part, 1, 0ul, 0ul, 0x10 /* RWF_APPEND */) == 8, "RWF_APPEND");
    check(f, lseek(fd, 8 * (f->step % 5), SEEK_SET) >= 0, "lseek");
    long done = syscall(SYS_pwritev2, fd, &part, 1, -1ul, -1ul, 0x20 /* RWF_NOAPPEND */);
    check(f, done == 8 || errno == EOPNOTSUPP, "RWF_NOAPPEND");
    check(f, ioctl(other, FICLONE, fd) == 0 || errno == EOPNOTSUPP || errno == EINVAL || errno == ENOTTY,
          "FICLONE");
    check(f, pwrite(other, &f->step, 8, 8 * (f->step % 9)) == 8, "a clone");
    digest_file(f, fd);
    close(fd);
    close(other);
}

/* None of these changes anything, so there is nothing to put back. */
static void step_failures(struct files *f)
{
    const char *file = name(f, "attributes", 0), *folder = name(f, "folder", f->step);
    char elsewhere[64];
    snprintf(elsewhere, sizeof elsewhere, "/dev/shm/belay-files-more-%ld-%d", (long)getpid(),
             f->program.rank);
    check(f, rename(file, folder) == -1 && errno == EISDIR, "a file over a folder");
    check(f, rename(folder, file) == -1 && errno == ENOTDIR, "a folder over a file");
    close(open(elsewhere, O_RDWR | O_CREAT, 0600));
    check(f, rename(file, elsewhere) == -1 && errno == EXDEV, "to another file system");
    check(f, rename(elsewhere, file) == -1 && errno == EXDEV, "from another file system");
    unlink(elsewhere);
    check(f, rmdir(folder) == -1 && errno == ENOTEMPTY, "a folder that is not empty");
    check(f, link(file, folder) == -1 && errno == EEXIST, "a name that is taken");
    check(f, unlink(folder) == -1 && errno == EISDIR, "unlink of a folder");
    check(f, mkdir("data-none/none", 0700) == -1 && errno == ENOENT, "below nothing");
}

/* Locks of fcntl go with the first descriptor of the file that the process closes: Belay closes none. */
static void step_lock(struct files *f)
{
    check(f, pwrite(f->locked, &f->step, sizeof f->step, 0) == sizeof f->step, "a locked file");
    if (incarnation() != f->first) /* the restarted process has none */
        return;
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        _exit(fcntl(f->locked, F_GETLK, &lock) || lock.l_type == F_UNLCK);
    }
    int status = 0;
    if (waitpid(child, &status, 0) == child) /* or the line was just here */
        check(f, WIFEXITED(status) && WEXITSTATUS(status) == 0, "the lock is gone");
}

static int make(struct files *f, const char *kind, int flags, off_t bytes)
{
    int fd = open(name(f, kind, 0), flags | O_CREAT, 0600);
    check(f, fd >= 0 && ftruncate(fd, bytes) == 0, kind);
    return fd;
}

static void begin(struct files *f)
{
    struct stat st;
    char inside[2 * NAME_BYTES];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    for (int i = 0; i < HELD; i++)
        f->held[i] = -1;
    check(f, mkdir(name(f, "folder", 0), 0700) == 0, "a folder");
    snprintf(inside, sizeof inside, "%s/number", name(f, "folder", 0));
    close(open(inside, O_WRONLY | O_CREAT, 0600));
    close(make(f, "attributes", O_RDWR, 100));
    check(f, stat(name(f, "attributes", 0), &st) == 0, "stat");
    f->mode = st.st_mode & 07777;
    f->modified = st.st_mtim;
    f->mapped = make(f, "mapped", O_RDWR, PAGE);
    f->private = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, f->mapped, 0);
    f->late = make(f, "late", O_RDWR, PAGE);
    f->shared = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, f->late, 0);
    check(f, f->private != MAP_FAILED && f->shared != MAP_FAILED, "mmap");
    f->locked = make(f, "locked", O_WRONLY, 100);
    check(f, fcntl(f->locked, F_SETLK, &lock) == 0, "a lock");
}

static int open_common(const struct files *f, int number, int flags)
{
    char path[NAME_BYTES];
    snprintf(path, sizeof path, "common-%d", number);
    int fd = open(path, flags, 0600);
    check(f, fd >= 0, path);
    return fd;
}

static void remove_common(const struct files *f)
{
    char path[NAME_BYTES];
    for (int i = 0; i < COMMON; i++) {
        snprintf(path, sizeof path, "common-%d", i);
        check(f, unlink(path) == 0 || errno == ENOENT, path);
    }
}

/* They hold the last step's number, before one rank writes this step's to them, and none is there after it.
 */
static void step_common(struct files *f)
{
    bool is_writer = f->program.rank == 0;
    long held;
    for (int i = 0; is_writer && f->step > 1 && i < COMMON; i++) {
        int fd = open_common(f, i, O_RDWR);
        check(f, read(fd, &held, sizeof held) == sizeof held && held == f->step - 1,
              "what a common file holds");
        check(f, pwrite(fd, &f->step, sizeof f->step, 0) == sizeof f->step, "writing to a common file");
        close(fd);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    remove_common(f);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; is_writer && i < COMMON; i++) {
        int fd = open_common(f, i, O_WRONLY | O_CREAT | O_EXCL);
        check(f, write(fd, &f->step, sizeof f->step) == sizeof f->step, "a common file");
        close(fd);
    }
}

int main(int argc, char **argv)
{
    struct files f = {.program = {.steps = 100}, .first = incarnation()};
    MPI_Init(&argc, &argv);
    program_begin(&f.program, "files_more", argc, argv);
    begin(&f);
    for (f.step = 1; f.step <= f.program.steps; f.step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        step_held(&f);
        step_folder(&f);
        step_special(&f);
        step_attributes(&f);
        step_mapped(&f);
        step_ways(&f);
        step_failures(&f);
        step_lock(&f);
        step_common(&f);
        program_step(&f.program, f.step);
    }
    program_end(&f.program);
    MPI_Finalize();
    return 0;
}
