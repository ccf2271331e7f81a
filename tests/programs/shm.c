/*
 * shm - memory that ranks share with one another, of every origin, written and checked by all in every step.
 *
 * Each thing is an array of cells, one for each rank and slot. A step: check that the cells of all ranks are
 * what they were after the step before, write one's own, wait for the others, check theirs. What a rank does
 * not see of another's cells ends the program. Some things are mapped twice, in part, for reading only, or
 * come and go.
 *
 * --mode open: nothing is mapped. A file without a name that all ranks have open, and one of each rank's own.
 * --mode constant: a file without a name that is mapped by a descriptor that cannot write, and closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define PAGE 4096ul
#define PAGES 64ul
#define BYTES (PAGES * PAGE)
#define SPARSE_BYTES (64ul << 30)
#define SLOTS 8
#define AWAY_PERIOD 7 /* steps after which things that come and go do */

struct cell {
    uint64_t value;
};

/* Where each rank has a thing. */
struct thing {
    const char *name;
    char *memory;
    size_t bytes;
};

enum { UNLINKED, NAMED, PASSED, SENT, PRIVATE_SEGMENT, KEYED_SEGMENT, DELETED, SPARSE, SEALED, THINGS };

static struct program program;
static struct thing things[THINGS];
static int passed_fd = -1, sent_fd = -1, reader_fd = -1, private_id, keyed_id, keyed_key;
static char *window, *second, *read_only, *duplicate, *anonymous;
static char named_path[256], unlinked_name[64], socket_path[100];

static void expect(bool is_right, const char *what, long step)
{
    if (!is_right)
        fail(&program, "%s is wrong in step %ld (errno %d)", what, step, errno);
}

static void wait_for_all(void)
{
    check_mpi(&program, MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

static char *map_fd(int fd, size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    expect(fd >= 0 && memory != MAP_FAILED, "a mapping", 0);
    return memory;
}

/* Cells of a rank lie in pages that differ from step to step, far apart from one another. */
static struct cell *cell_of(const struct thing *thing, int rank, int slot)
{
    size_t page = (size_t)slot * (thing->bytes / PAGE / SLOTS) + (size_t)rank % (PAGES / SLOTS);
    return (struct cell *)(void *)(thing->memory + page * PAGE + (size_t)rank * sizeof(struct cell));
}

static uint64_t value_of(int thing, int rank, int slot, long step)
{
    return mix_number((uint64_t)thing * 1000 + (uint64_t)rank, (uint64_t)slot, (uint64_t)step);
}

/* In each step a rank writes one of its slots; what the others hold is of earlier steps, if of any. */
static uint64_t expected(int thing, int rank, int slot, long step)
{
    long last = step - ((step - slot) % SLOTS + SLOTS) % SLOTS;
    return last < 1 ? 0 : value_of(thing, rank, slot, last);
}

static void check(long step)
{
    for (int i = 0; i < THINGS; i++) {
        for (int rank = 0; rank < program.ranks; rank++) {
            for (int slot = 0; slot < SLOTS; slot++) {
                uint64_t value = cell_of(&things[i], rank, slot)->value;
                if (value != expected(i, rank, slot, step))
                    fail(&program, "%s: cell %d of rank %d is wrong after step %ld", things[i].name, slot,
                         rank, step);
                digest_add_number(&program.digest, value);
            }
        }
    }
}

static void write_own(long step)
{
    for (int i = 0; i < THINGS; i++) {
        int slot = (int)(step % SLOTS);
        cell_of(&things[i], program.rank, slot)->value = value_of(i, program.rank, slot, step);
    }
}

/* ---- making things ---- */

static int open_shm(const char *name, int flags)
{
    int fd = shm_open(name, flags, 0600);
    if (fd >= 0 && (flags & O_CREAT))
        expect(ftruncate(fd, BYTES) == 0, "ftruncate", 0);
    return fd;
}

static void make_unlinked(void)
{
    int fd = -1;
    if (program.rank == 0)
        fd = open_shm(unlinked_name, O_RDWR | O_CREAT | O_EXCL);
    wait_for_all();
    if (program.rank > 0)
        fd = open_shm(unlinked_name, O_RDWR);
    things[UNLINKED] = (struct thing){"an unlinked shm_open", map_fd(fd, BYTES), BYTES};
    /* Another view of a part of it, for reading; and one more of the rest, written through as well. */
    window = mmap(NULL, 8 * PAGE, PROT_READ, MAP_SHARED, fd, 8 * PAGE);
    second = mmap(NULL, BYTES / 2, PROT_READ | PROT_WRITE, MAP_SHARED, fd, BYTES / 2);
    expect(window != MAP_FAILED && second != MAP_FAILED, "a second mapping", 0);
    munmap(window + 2 * PAGE, PAGE); /* in part */
    close(fd);
    wait_for_all();
    if (program.rank == 0)
        expect(shm_unlink(unlinked_name) == 0, "shm_unlink", 0);
}

static void map_named(bool is_maker)
{
    int fd = -1;
    if (is_maker) {
        fd = open(named_path, O_RDWR | O_CREAT | O_EXCL, 0600);
        expect(fd >= 0 && ftruncate(fd, BYTES) == 0, "a new named file", 0);
    }
    wait_for_all();
    if (!is_maker)
        fd = open(named_path, O_RDWR);
    things[NAMED] = (struct thing){"a named file in memory", map_fd(fd, BYTES), BYTES};
    close(fd);
}

static void name_file(void)
{
    const char *folder = getenv("OMPI_MCA_btl_vader_backing_directory"); /* the test's own */
    long pid = getpid();
    MPI_Bcast(&pid, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(named_path, sizeof named_path, "%s/shm-test-%ld", folder ? folder : "/dev/shm", pid);
    snprintf(unlinked_name, sizeof unlinked_name, "/shm-test-unlinked-%ld", pid);
    snprintf(socket_path, sizeof socket_path, "%s/belay-shm-%ld",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", pid);
    keyed_key = 0x42000000 | (int)(pid & 0xffffff);
}

/* A memfd of rank 0 that the others open by way of /proc; they keep it open. */
static void make_passed(void)
{
    char path[64];
    long where[2] = {getpid(), -1};
    if (program.rank == 0) {
        passed_fd = memfd_create("passed", 0);
        expect(passed_fd >= 0 && ftruncate(passed_fd, BYTES) == 0, "a memfd", 0);
        where[1] = passed_fd;
    }
    MPI_Bcast(where, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", where[0], where[1]);
    if (program.rank > 0)
        passed_fd = open(path, O_RDWR);
    reader_fd = open(path, O_RDONLY);
    things[PASSED] = (struct thing){"a memfd opened through /proc", map_fd(passed_fd, BYTES), BYTES};
    wait_for_all();
}

static void send_fd(int to, int fd)
{
    char byte = 'f', space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    expect(sendmsg(to, &message, 0) == 1, "sendmsg", 0);
}

static int receive_fd(int from)
{
    char byte, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    int fd = -1;
    expect(recvmsg(from, &message, 0) == 1 && CMSG_FIRSTHDR(&message), "recvmsg", 0);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* One that rank 0 sends to the others over a socket. */
static void make_sent(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", socket_path);
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    if (program.rank == 0) {
        sent_fd = memfd_create("sent", MFD_CLOEXEC);
        expect(ftruncate(sent_fd, BYTES) == 0, "a memfd", 0);
        expect(bind(sock, (struct sockaddr *)&name, sizeof name) == 0 && listen(sock, 8) == 0, "a socket", 0);
    }
    wait_for_all();
    for (int i = 1; program.rank == 0 && i < program.ranks; i++) {
        int other = accept(sock, NULL, NULL);
        send_fd(other, sent_fd);
        close(other);
    }
    if (program.rank > 0) {
        expect(connect(sock, (struct sockaddr *)&name, sizeof name) == 0, "connect", 0);
        sent_fd = receive_fd(sock);
    }
    expect(close(sock) == 0, "close of a socket", 0);
    things[SENT] = (struct thing){"a memfd sent over a socket", map_fd(sent_fd, BYTES), BYTES};
    close(sent_fd);
    wait_for_all();
    if (program.rank == 0)
        unlink(socket_path);
}

static void make_segments(void)
{
    if (program.rank == 0) {
        private_id = shmget(IPC_PRIVATE, BYTES, 0600);
        keyed_id = shmget(keyed_key, BYTES, 0600 | IPC_CREAT | IPC_EXCL);
    }
    MPI_Bcast(&private_id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (program.rank > 0)
        keyed_id = shmget(keyed_key, 0, 0);
    wait_for_all();
    if (program.rank > 0)
        keyed_id = shmget(keyed_key, 0, 0);
    things[PRIVATE_SEGMENT] = (struct thing){"a private segment", shmat(private_id, NULL, 0), BYTES};
    things[KEYED_SEGMENT] = (struct thing){"a segment with a key", shmat(keyed_id, NULL, 0), BYTES};
    read_only = shmat(keyed_id, NULL, SHM_RDONLY);
    expect(things[PRIVATE_SEGMENT].memory != (char *)-1 && things[KEYED_SEGMENT].memory != (char *)-1 &&
               read_only != (char *)-1,
           "shmat", 0);
    /* Several mappings of one attachment. */
    mprotect(things[PRIVATE_SEGMENT].memory + 60 * PAGE, PAGE, PROT_READ);
    wait_for_all();
    if (program.rank == 0)
        expect(shmctl(private_id, IPC_RMID, NULL) == 0, "IPC_RMID", 0);
}

static void make_deleted(void)
{
    int fd = -1;
    if (program.rank == 0) {
        fd = open("shm-deleted", O_RDWR | O_CREAT | O_EXCL, 0600);
        expect(fd >= 0 && ftruncate(fd, BYTES) == 0, "a file", 0);
    }
    wait_for_all();
    if (program.rank > 0)
        fd = open("shm-deleted", O_RDWR);
    things[DELETED] = (struct thing){"a deleted file", map_fd(fd, BYTES), BYTES};
    close(fd);
    wait_for_all();
    if (program.rank == 0)
        unlink("shm-deleted");
}

/* Much more than there is memory, of which little is used. */
static void make_sparse(void)
{
    char path[64];
    long where[2] = {getpid(), -1};
    int fd = -1;
    if (program.rank == 0) {
        where[1] = fd = memfd_create("sparse", 0);
        expect(ftruncate(fd, SPARSE_BYTES) == 0, "a sparse memfd", 0);
    }
    MPI_Bcast(where, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", where[0], where[1]);
    if (program.rank > 0)
        fd = open(path, O_RDWR);
    char *memory = mmap(NULL, SPARSE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    expect(memory != MAP_FAILED, "a sparse mapping", 0);
    things[SPARSE] = (struct thing){"sparse memory", memory, SPARSE_BYTES};
    wait_for_all(); /* the descriptor stays open: by it the holes are seen */
}

/* No more writing by those who come later, no other size. */
static void make_sealed(void)
{
    char path[64];
    long where[2] = {getpid(), -1};
    int fd = -1;
    if (program.rank == 0) {
        where[1] = fd = memfd_create("sealed", MFD_ALLOW_SEALING);
        expect(ftruncate(fd, BYTES) == 0, "a memfd", 0);
    }
    MPI_Bcast(where, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", where[0], where[1]);
    if (program.rank > 0)
        fd = open(path, O_RDWR);
    things[SEALED] = (struct thing){"a sealed memfd", map_fd(fd, BYTES), BYTES};
    wait_for_all();
    if (program.rank == 0)
        expect(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) == 0, "F_ADD_SEALS",
               0);
    wait_for_all();
    if (program.rank > 0)
        close(fd);
    else
        dup2(fd, 100);
    if (program.rank == 0 && fd != 100)
        close(fd);
}

/* Shared with a child, which has ended; and a duplicate of it by mremap(). */
static void make_anonymous(void)
{
    anonymous = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    expect(anonymous != MAP_FAILED, "shared anonymous memory", 0);
    pid_t child = fork();
    if (child == 0) {
        strcpy(anonymous + PAGE, "child");
        _exit(0);
    }
    waitpid(child, NULL, 0);
    expect(!strcmp(anonymous + PAGE, "child"), "what a child writes", 0);
    duplicate = mremap(anonymous, 0, 4 * PAGE, MREMAP_MAYMOVE);
    expect(duplicate != MAP_FAILED && duplicate != anonymous, "a duplicate", 0);
}

/* ---- files without a name that are not mapped, or only to be read: --mode open, constant ---- */

static int common_fd = -1, own_fd = -1;
static const char *constant;

static int make_nameless(void)
{
    char name[] = "shm-nameless-XXXXXX";
    int fd = mkstemp(name);
    expect(fd >= 0 && unlink(name) == 0, "a file without a name", 0);
    return fd;
}

static int open_through_proc(long pid, long fd, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", pid, fd);
    int opened = open(path, flags);
    expect(opened >= 0, "a file opened through /proc", 0);
    return opened;
}

/* One for each rank, and one for all. */
static void make_open(void)
{
    long where[2] = {getpid(), program.rank == 0 ? make_nameless() : -1};
    common_fd = (int)where[1];
    MPI_Bcast(where, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    if (program.rank > 0)
        common_fd = open_through_proc(where[0], where[1], O_RDWR);
    own_fd = make_nameless();
    wait_for_all();
}

/* Mapped by a descriptor that cannot write, and closed. */
static void make_constant(void)
{
    int fd = make_nameless(), reader = open_through_proc(getpid(), fd, O_RDONLY);
    expect(write(fd, "constant", 9) == 9, "a write", 0);
    constant = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reader, 0);
    expect(constant != MAP_FAILED, "a mapping to read", 0);
    close(fd);
    close(reader);
}

static void use_open(long step)
{
    int64_t value = step * 11 + program.rank, read = 0;
    int next = (program.rank + 1) % program.ranks;
    ssize_t got = pread(common_fd, &read, sizeof read, 8 * next);
    expect(step == 1 || (got == sizeof read && read == (step - 1) * 11 + next), "a common file", step);
    wait_for_all();
    expect(pwrite(common_fd, &value, sizeof value, 8 * program.rank) == sizeof value, "a write", step);
    expect(lseek(own_fd, 0, SEEK_CUR) == 8 * (step - 1) && lseek(own_fd, 0, SEEK_END) == 8 * (step - 1),
           "an own file", step);
    expect(write(own_fd, &value, sizeof value) == sizeof value, "a write", step);
    expect(pread(own_fd, &read, sizeof read, 0) == sizeof read && read == 11 + program.rank, "an own file",
           step);
    wait_for_all();
}

static void run_nameless(bool is_constant)
{
    if (is_constant)
        make_constant();
    else
        make_open();
    for (long step = 1; step <= program.steps; step++) {
        if (is_constant)
            expect(!strcmp(constant, "constant"), "a mapping to read", step);
        else
            use_open(step);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
}

/* ---- a step ---- */

/* Several mappings in one rank are of one thing. */
static void check_views(long step)
{
    const struct thing *unlinked = &things[UNLINKED];
    expect(!memcmp(window, unlinked->memory + 8 * PAGE, 2 * PAGE) &&
               !memcmp(window + 3 * PAGE, unlinked->memory + 11 * PAGE, 5 * PAGE),
           "a window", step);
    second[PAGE - 1] = (char)step;
    expect(unlinked->memory[BYTES / 2 + PAGE - 1] == (char)step, "a second mapping", step);
    wait_for_all();
    second[PAGE - 1] = 0;
    expect(!memcmp(read_only, things[KEYED_SEGMENT].memory, BYTES), "a segment for reading", step);
    expect(*(long *)(void *)anonymous == step - 1 && *(long *)(void *)duplicate == step - 1 &&
               !strcmp(duplicate + PAGE, "child"),
           "shared anonymous memory", step);
    *(long *)(void *)(step % 2 ? anonymous : duplicate) = step;
}

/* By a descriptor, one reads what another has written to memory, and the other way round. */
static void use_descriptor(long step)
{
    uint64_t value = (uint64_t)step * 7 + (uint64_t)program.rank, read = 0;
    off_t at = (off_t)(PAGE / 2 + (size_t)program.rank * 8);
    int next = (program.rank + 1) % program.ranks;
    expect(pwrite(passed_fd, &value, sizeof value, at) == sizeof value, "a write to a memfd", step);
    expect(lseek(reader_fd, 0, SEEK_CUR) == step - 1 && lseek(reader_fd, 1, SEEK_CUR) == step, "a position",
           step);
    expect(write(reader_fd, &value, 1) < 0 && errno == EBADF, "a descriptor for reading", step);
    wait_for_all();
    memcpy(&read, things[PASSED].memory + PAGE / 2 + (size_t)next * 8, sizeof read);
    expect(read == (uint64_t)step * 7 + (uint64_t)next, "a memfd that was written", step);
    if (program.rank == 0)
        expect(fcntl(100, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), "seals", step);
    wait_for_all();
}

static void copy_contents(char *to, const struct thing *from)
{
    memcpy(to, from->memory, from->bytes);
}

/* A segment is detached and attached again by its id; the named file gets another inode. */
static void come_and_go(long step)
{
    static char kept[BYTES];
    struct shmid_ds segment;
    int maker = (int)(step / AWAY_PERIOD) % program.ranks;
    expect(shmctl(keyed_id, IPC_STAT, &segment) == 0 && segment.shm_segsz == BYTES, "shmctl", step);
    expect(shmget(keyed_key, 0, 0) == keyed_id, "shmget", step);
    if (step % AWAY_PERIOD == 3) {
        expect(shmdt(things[KEYED_SEGMENT].memory) == 0, "shmdt", step);
        wait_for_all();
        things[KEYED_SEGMENT].memory = shmat(keyed_id, NULL, 0);
        expect(things[KEYED_SEGMENT].memory != (char *)-1, "shmat", step);
    }
    if (step % AWAY_PERIOD)
        return;
    copy_contents(kept, &things[NAMED]);
    wait_for_all();
    munmap(things[NAMED].memory, BYTES);
    if (program.rank == (maker + 1) % program.ranks)
        expect(unlink(named_path) == 0, "unlink", step);
    wait_for_all();
    map_named(program.rank == maker);
    wait_for_all();
    if (program.rank == maker)
        memcpy(things[NAMED].memory, kept, BYTES);
    /* The same of the segment with the key: a new one, under another id. */
    copy_contents(kept, &things[KEYED_SEGMENT]);
    wait_for_all();
    shmdt(read_only);
    shmdt(things[KEYED_SEGMENT].memory);
    if (program.rank == maker) {
        expect(shmctl(keyed_id, IPC_RMID, NULL) == 0, "IPC_RMID", step);
        keyed_id = shmget(keyed_key, BYTES, 0600 | IPC_CREAT | IPC_EXCL);
        expect(keyed_id >= 0, "a new segment", step);
    }
    wait_for_all();
    MPI_Bcast(&keyed_id, 1, MPI_INT, maker, MPI_COMM_WORLD);
    things[KEYED_SEGMENT].memory = shmat(keyed_id, NULL, 0);
    read_only = shmat(keyed_id, NULL, SHM_RDONLY);
    expect(things[KEYED_SEGMENT].memory != (char *)-1 && read_only != (char *)-1, "shmat", step);
    if (program.rank == maker)
        memcpy(things[KEYED_SEGMENT].memory, kept, BYTES);
    wait_for_all();
}

int main(int argc, char **argv)
{
    program = (struct program){.steps = 200};
    MPI_Init(&argc, &argv);
    program_begin(&program, "shm", argc, argv);
    if (*program.mode) {
        run_nameless(!strcmp(program.mode, "constant"));
        return 0;
    }
    name_file();
    make_unlinked();
    map_named(program.rank == 0);
    make_passed();
    make_sent();
    make_segments();
    make_deleted();
    make_sparse();
    make_sealed();
    make_anonymous();
    wait_for_all();
    for (long step = 1; step <= program.steps; step++) {
        check(step - 1);
        wait_for_all();
        write_own(step);
        check_views(step);
        use_descriptor(step);
        wait_for_all();
        check(step);
        wait_for_all();
        come_and_go(step);
        program_step(&program, step);
    }
    wait_for_all();
    if (program.rank == 0) {
        unlink(named_path);
        shmctl(keyed_id, IPC_RMID, NULL);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
