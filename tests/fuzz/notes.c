/*
 * What ranks have noted of the things that they share (common/wire/shares.h), as their agent reads it. The
 * bytes are notes of two ranks, which are this process; what they name are its descriptors.
 */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "node-agent/shared/find.h"
#include "node-agent/shared/notes.h"
#include "tests/fuzz/target.h"

#define FIRST_FD 100
#define FDS 9u
#define TEXT_BYTES 256u

static struct stat facts[FDS];
static bool has_own_objects; /* of System V */
static struct sockaddr_un name = {.sun_family = AF_UNIX};

static void place(int fd, unsigned number)
{
    must(fd >= 0 && dup2(fd, FIRST_FD + (int)number) >= 0);
    close(fd);
    must(fstat(FIRST_FD + (int)number, &facts[number]) == 0);
}

static void remove_socket(void)
{
    unlink(name.sun_path);
}

/* A name in memory that nobody can open. */
static int make_socket(void)
{
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "/dev/shm/belay-fuzz-%d", (int)getpid());
    must(sock >= 0 && bind(sock, (struct sockaddr *)&name, sizeof name) == 0);
    atexit(remove_socket);
    close(sock);
    return open(name.sun_path, O_PATH | O_CLOEXEC);
}

static void begin(void)
{
    char path[] = "/dev/shm/belay-fuzz-XXXXXX";
    int ends[2];
    has_own_objects = unshare(CLONE_NEWIPC) == 0;
    must(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    place(ends[0], 0);
    place(ends[1], 1);
    place(eventfd(3, EFD_CLOEXEC | EFD_NONBLOCK), 2);
    place(memfd_create("fuzz", MFD_CLOEXEC), 3);
    int fd = mkostemp(path, O_CLOEXEC);
    must(fd >= 0 && unlink(path) == 0);
    place(fd, 4);
    place(open("/dev/null", O_RDWR | O_CLOEXEC), 5);
    place(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 6);
    place(memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING), 7);
    place(make_socket(), 8);
}

/* Small numbers stand for what is there: bytes alone would name nothing. */
static void aim(struct share_note *note)
{
    unsigned number = (unsigned)note->fd % (2 * FDS);
    if (number < FDS) {
        note->fd = FIRST_FD + (int)number;
        note->device = note->device % 2 ? note->device : facts[number].st_dev;
        note->inode = note->inode % 2 ? note->inode : facts[number].st_ino;
    }
    bool is_sysv = note->kind >= SHARE_SEGMENT && note->kind <= SHARE_MESSAGES;
    if (is_sysv && !has_own_objects) /* those of others are left alone */
        note->kind = SHARE_LOST;
}

static void check(const struct objects *objects, size_t notes)
{
    size_t count = 0;
    for (const struct object *object = objects->all; object; object = object->hh.next, count++) {
        must(object->record.kind > SHARED_NONE && object->record.kind <= SHARED_EVENT);
        must(memchr(object->path, '\0', 2 * PATH_MAX));
    }
    must(count <= notes && objects_count(objects) == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct maps none;
    struct objects objects = {0};
    struct belay_error err;
    char text[TEXT_BYTES];
    size_t notes = count / sizeof(struct share_note), half = notes / 2;
    if (facts[0].st_ino == 0)
        begin();
    struct share_note *all = (struct share_note *)(void *)target_copy(bytes, count);
    for (size_t i = 0; i < notes; i++)
        aim(&all[i]);
    const struct shared_rank ranks[] = {
        {getpid(), &none, (uintptr_t)all, (uint32_t)half, 0},
        {getpid(), &none, (uintptr_t)(all + half), (uint32_t)(notes - half), 1},
    };
    notes_meet(ranks, 2);
    if (notes_find_needed_child(ranks, 2, text, sizeof text))
        must(text[0] && memchr(text, '\0', sizeof text));
    if (notes_find_lost(ranks, 2, text, sizeof text))
        must(text[0] && memchr(text, '\0', sizeof text));
    if (shared_find(ranks, 2, &objects, text, sizeof text, &err) == 0)
        check(&objects, notes);
    must(memchr(text, '\0', sizeof text));
    objects_release(&objects);
    free(all);
    return 0;
}
