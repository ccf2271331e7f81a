/*
 * kin - neighbours (ranks 2k and 2k+1) share memory of several origins and a pipe, and nothing with others.
 *
 * Each step both write their cells, meet, and check the cells of both. The even rank writes a token to the
 * pipe that the odd rank reads --value steps later, so that the pipe is never empty in between.
 *
 * --mode even: only ranks 0 and 1 share anything.  --mode same: all pairs name their file in memory alike.
 * --mode files: no segment of System V.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define CELLS 4096 /* in 8 pages */
#define BYTES (CELLS * sizeof(uint64_t))

enum { NAMED, PASSED, SEGMENT, THINGS };

static struct program program;
static MPI_Comm pair;
static int number; /* in the pair */
static volatile uint64_t *things[THINGS];
static char named_path[256];
static int pipe_fd = -1; /* the even rank's end to write to, the odd one's to read from */

static void expect(int is_right, const char *what)
{
    if (!is_right)
        fail(&program, "%s", what);
}

static void *map_fd(int fd)
{
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    expect(fd >= 0 && memory != MAP_FAILED, "a mapping");
    return memory;
}

/* A file in memory that keeps its name. */
static void make_named(long pid)
{
    const char *folder = getenv("OMPI_MCA_btl_vader_backing_directory"); /* the test's own */
    int fd = -1;
    if (!strcmp(program.mode, "same"))
        snprintf(named_path, sizeof named_path, "%s/kin", folder ? folder : "/dev/shm");
    else
        snprintf(named_path, sizeof named_path, "%s/kin-%ld-%d", folder ? folder : "/dev/shm", pid,
                 program.rank / 2);
    if (number == 0) {
        fd = open(named_path, O_RDWR | O_CREAT | O_EXCL, 0600);
        expect(fd >= 0 && ftruncate(fd, BYTES) == 0, "a new file");
    }
    MPI_Barrier(pair);
    if (number == 1)
        fd = open(named_path, O_RDWR);
    things[NAMED] = map_fd(fd);
    close(fd);
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
    expect(sendmsg(to, &message, 0) == 1, "sendmsg");
}

static int receive_fd(int from)
{
    char byte, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    int fd = -1;
    expect(recvmsg(from, &message, 0) == 1 && CMSG_FIRSTHDR(&message), "recvmsg");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* A memfd and an end of a pipe, which the even rank sends to the odd one over a socket. */
static void pass_descriptors(long pid)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "belay-kin-%ld-%d", pid,
             program.rank / 2); /* of no folder */
    int sock = socket(AF_UNIX, SOCK_STREAM, 0), ends[2], fd;
    if (number == 0)
        expect(bind(sock, (struct sockaddr *)&name, sizeof name) == 0 && listen(sock, 1) == 0, "a socket");
    MPI_Barrier(pair);
    if (number == 0) {
        int other = accept(sock, NULL, NULL);
        fd = memfd_create("kin", 0);
        expect(ftruncate(fd, BYTES) == 0 && pipe(ends) == 0, "a memfd and a pipe");
        send_fd(other, fd);
        send_fd(other, ends[0]);
        close(ends[0]);
        pipe_fd = ends[1];
        close(other);
    } else {
        expect(connect(sock, (struct sockaddr *)&name, sizeof name) == 0, "connect");
        fd = receive_fd(sock);
        pipe_fd = receive_fd(sock);
    }
    close(sock);
    things[PASSED] = map_fd(fd);
    close(fd);
    MPI_Barrier(pair);
}

static void make_segment(void)
{
    int id = number == 0 ? shmget(IPC_PRIVATE, BYTES, 0600) : -1;
    MPI_Bcast(&id, 1, MPI_INT, 0, pair);
    things[SEGMENT] = shmat(id, NULL, 0);
    expect(things[SEGMENT] != (void *)-1, "shmat");
    MPI_Barrier(pair);
    if (number == 0)
        shmctl(id, IPC_RMID, NULL);
}

static uint64_t value_of(int thing, int rank, long step)
{
    return mix_number((uint64_t)thing, (uint64_t)rank, (uint64_t)step);
}

/* The cells of a step lie in one page after the other. */
static uint64_t read_cell(int thing, int rank, long step)
{
    return things[thing][(step * 520 + rank) % CELLS];
}

static void step_pipe(long step)
{
    uint64_t token = value_of(THINGS, program.rank | 1, step);
    if (number == 0)
        expect(write(pipe_fd, &token, sizeof token) == sizeof token, "write to a pipe");
    if (number == 0 || step <= program.value)
        return;
    expect(read(pipe_fd, &token, sizeof token) == sizeof token, "read from a pipe");
    expect(token == value_of(THINGS, program.rank | 1, step - program.value), "a token of the pipe");
    digest_add_number(&program.digest, token);
}

static void step_memory(long step)
{
    int count = strcmp(program.mode, "files") ? THINGS : SEGMENT;
    for (int i = 0; i < count; i++)
        things[i][(step * 520 + program.rank) % CELLS] = value_of(i, program.rank, step);
    MPI_Barrier(pair);
    for (int i = 0; i < count; i++)
        for (int rank = program.rank & ~1; rank <= (program.rank | 1); rank++)
            for (long back = 0; back < 4 && back < step;
                 back++) { /* what was written earlier is there, too */
                expect(read_cell(i, rank, step - back) == value_of(i, rank, step - back), "a cell");
                digest_add_number(&program.digest, read_cell(i, rank, step - back));
            }
    MPI_Barrier(pair);
}

int main(int argc, char **argv)
{
    program = (struct program){.steps = 100, .value = 5};
    MPI_Init(&argc, &argv);
    program_begin(&program, "kin", argc, argv);
    long pid = getpid();
    MPI_Comm_split(MPI_COMM_WORLD, program.rank / 2, program.rank, &pair);
    MPI_Comm_rank(pair, &number);
    MPI_Bcast(&pid, 1, MPI_LONG, 0, pair);
    int shares = strcmp(program.mode, "even") != 0 || program.rank < 2;
    if (shares) {
        make_named(pid);
        pass_descriptors(pid);
        if (strcmp(program.mode, "files") != 0)
            make_segment();
    }
    for (long step = 1; step <= program.steps; step++) {
        uint64_t mine = mix_number((uint64_t)program.rank, (uint64_t)step, 0), all;
        if (shares) {
            step_memory(step);
            step_pipe(step);
        }
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
        digest_add_number(&program.digest, all);
        program_step(&program, step);
    }
    MPI_Barrier(pair);
    if (shares && number == 0)
        unlink(named_path);
    MPI_Comm_free(&pair);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
