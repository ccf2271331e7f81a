/* shared_test.c - what two processes share is captured once, whole and as a delta, and made again. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/shared/find.h"
#include "node-agent/shared/notes.h"
#include "node-agent/shared/renew.h"
#include "node-agent/shared/shared.h"
#include "node-agent/store/apply.h"
#include "node-agent/test/half.h"

#define PAGE IMAGE_PAGE_BYTES
#define PAGES 64u
#define BYTES (PAGES * PAGE)
#define CHILDREN 2
#define NOTES 8
#define ID                                                                                                   \
    0x7ffffff7 /* as the program knows System V objects: no id that the kernel gives, it counts from 0 */

/* Where both children have it mapped, in pages from UPPER_BASE. */
enum { ANONYMOUS = 0, MEMFD = 100, NAMED = 200, SEGMENT = 300, SECOND = 400, RENAMED = 500 };

struct message {
    long type;
    char text[16];
};

static struct share_note *notes; /* shared with the children: each notes its own */
static pid_t children[CHILDREN];
static int memfd = -1, open_only = -1, event = -1, ends[2], segment, sems, queue;
static char named[64], linked[64];
static struct stat anonymous_id, memfd_id, named_id, linked_id, open_id, pipe_id;
static uint64_t event_id;
static const struct undo_replaced_list none_replaced;
static const struct maps_source source = {.layout = &upper_only};

static char *at(uint64_t page)
{
    return (char *)(UPPER_BASE + page * PAGE);
}

static void map_at(uint64_t page, int flags, int fd, off_t offset, size_t bytes)
{
    void *memory = mmap(at(page), bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, fd, offset);
    assert_ptr_equal(memory, at(page));
}

static int make_memfd(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    return fd;
}

static void make_channels(void)
{
    char name[64], line[128];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "in the pipe", 12), 12);
    assert_int_equal(fstat(ends[0], &pipe_id), 0);
    event = eventfd(6, EFD_SEMAPHORE);
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", event);
    FILE *file = fopen(name, "r");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, "eventfd-id:", 11))
            event_id = strtoull(line + 11, NULL, 10);
    fclose(file);
}

/* As sem_open() does: mapped under a name that is gone, while the file has another. */
static void make_linked(void)
{
    char temporary[80];
    snprintf(linked, sizeof linked, "/dev/shm/belay-shared-link-%d", (int)getpid());
    snprintf(temporary, sizeof temporary, "%s-temporary", linked);
    int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_int_equal(ftruncate(fd, 32), 0);
    map_at(RENAMED, MAP_SHARED, fd, 0, 32);
    close(fd);
    assert_int_equal(link(temporary, linked), 0);
    assert_int_equal(unlink(temporary), 0);
    assert_int_equal(stat(linked, &linked_id), 0);
    at(RENAMED)[0] = 'l';
}

/* In the parent, which has everything mapped as well; the children inherit it. */
static void make_things(void)
{
    struct message message = {.type = 3, .text = "first"};
    notes = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    map_at(ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS, -1, 0, BYTES);
    memfd = make_memfd("mine");
    map_at(MEMFD, MAP_SHARED, memfd, 0, BYTES);
    map_at(SECOND, MAP_SHARED, memfd, 8 * PAGE, 8 * PAGE);
    fcntl(memfd, F_ADD_SEALS, F_SEAL_GROW);
    open_only = make_memfd("open");
    assert_int_equal(fstat(memfd, &memfd_id), 0);
    assert_int_equal(fstat(open_only, &open_id), 0);
    snprintf(named, sizeof named, "/dev/shm/belay-shared-test-%d", (int)getpid());
    int fd = open(named, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(fstat(fd, &named_id), 0);
    map_at(NAMED, MAP_SHARED, fd, 0, BYTES);
    close(fd);
    make_linked();
    make_channels();
    segment = shmget(IPC_PRIVATE, BYTES, 0600);
    assert_ptr_equal(shmat(segment, at(SEGMENT), 0), at(SEGMENT));
    assert_int_equal(shmctl(segment, IPC_RMID, NULL), 0);
    sems = semget(IPC_PRIVATE, 3, 0600);
    queue = msgget(IPC_PRIVATE, 0600);
    assert_int_equal(semctl(sems, 1, SETVAL, 5), 0);
    assert_int_equal(msgsnd(queue, &message, sizeof message.text, 0), 0);
    for (unsigned page = 0; page < PAGES; page++) {
        at(ANONYMOUS + page)[0] = (char)page;
        at(NAMED + page)[1] = (char)page;
    }
    at(MEMFD + 9)[0] = 'm';
    at(SEGMENT + 1)[0] = 's';
    assert_int_equal(pwrite(open_only, "o", 1, (off_t)(5 * PAGE)), 1);
    notes[0] = (struct share_note){SHARE_FILE, open_only, open_id.st_dev, open_id.st_ino, 0, 0};
    notes[1] = (struct share_note){SHARE_FILE, memfd, memfd_id.st_dev, memfd_id.st_ino, 0, 0};
    notes[2] = (struct share_note){.kind = SHARE_SEGMENT, .id = ID, .kernel_id = segment};
    notes[3] = (struct share_note){.kind = SHARE_SEMS, .id = ID, .kernel_id = sems};
    notes[4] = (struct share_note){.kind = SHARE_MESSAGES, .id = ID, .kernel_id = queue};
    notes[5] = (struct share_note){SHARE_PIPE, ends[0], pipe_id.st_dev, pipe_id.st_ino, SHARE_READER, 0};
    notes[6] = (struct share_note){SHARE_PIPE, ends[1], pipe_id.st_dev, pipe_id.st_ino, SHARE_WRITER, 0};
    notes[7] = (struct share_note){SHARE_EVENT, event, 0, event_id, 0, 0};
}

static void start_children(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    make_things();
    start_children();
    return 0;
}

static void end_children(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    munmap(at(ANONYMOUS), BYTES);
    munmap(at(MEMFD), BYTES);
    munmap(at(SECOND), 8 * PAGE);
    munmap(at(NAMED), BYTES);
    munmap(at(RENAMED), PAGE);
    shmdt(at(SEGMENT));
    close(memfd);
    close(open_only);
    close(ends[0]);
    close(ends[1]);
    close(event);
}

static int tear_down(void **state)
{
    (void)state;
    unlink(named);
    unlink(linked);
    semctl(sems, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
    return 0;
}

/* A line of the two children; the delta or image. `image` is that of the line before. */
static int capture_line(struct shared *shared, uint64_t line, int image, uint64_t *data_bytes, bool is_delta)
{
    struct belay_error err = {0};
    struct maps maps[CHILDREN];
    struct shared_rank ranks[CHILDREN];
    uint64_t base_line;
    for (int i = 0; i < CHILDREN; i++) {
        assert_int_equal(maps_read(children[i], &source, &maps[i], &err), 0);
        ranks[i] = (struct shared_rank){children[i], &maps[i], (uint64_t)notes, NOTES, (uint32_t)i};
    }
    struct shared_request request = {
        .shared = shared,
        .image = image,
        .ranks = ranks,
        .count = CHILDREN,
        .header = {.line = line, .rank = CHILDREN, .ranks = 2 * CHILDREN, .group = IMAGE_OF_SHARED}};
    struct shared_capture *capture = shared_capture_create(&request);
    if (shared_plan(capture, &err) < 0 || shared_copy(capture, &err) < 0)
        fail_msg("line %llu: %s", (unsigned long long)line, err.text);
    assert_string_equal(shared_complaint(capture), "");
    assert_int_equal(shared_is_delta(capture), is_delta);
    *data_bytes = shared_data_bytes(capture);
    int fd = shared_take(capture, &base_line);
    if (base_line) {
        struct apply apply = {
            .image = image, .copy = -1, .delta = fd, .base_line = base_line, .line = line, .made = -1};
        if (apply_delta(&apply, &err) < 0)
            fail_msg("%s", err.text);
        close(fd);
        fd = image;
    }
    shared_commit(capture);
    shared_capture_destroy(capture);
    for (int i = 0; i < CHILDREN; i++)
        maps_release(&maps[i]);
    return fd;
}

/* Where the image has the contents of a thing whose path has these words in it. */
static uint64_t address_of(int image, const char *words)
{
    struct image_view view;
    uint64_t found = 0;
    assert_int_equal(image_load(image, &view, NULL), 0);
    for (uint64_t i = 0; i < view.header->region_count; i++)
        if (strstr(image_string(&view, view.regions[i].path), words)) {
            assert_int_equal(found, 0); /* once, however many have it mapped */
            found = view.regions[i].start;
        }
    image_unload(&view);
    assert_true(found);
    return found;
}

static char byte_at(int image, const char *words, uint64_t offset)
{
    char byte;
    assert_int_equal(pread(image, &byte, 1, (off_t)(image_offset(address_of(image, words)) + offset)), 1);
    return byte;
}

static struct renewal *renew_one(int image, struct belay_error *err)
{
    const struct renewal_image one = {.group = 0, .fd = image};
    return renewal_create(&one, 1, NULL, NULL, &none_replaced, err);
}

static int renewed_file(const struct renewal *renewal, const struct stat *id)
{
    int fd = renewal_file(renewal, 0, SHARED_NAMELESS, id->st_dev, id->st_ino);
    assert_true(fd >= 0);
    return fd;
}

static char byte_of(int fd, uint64_t offset)
{
    char byte = 'x';
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    return byte;
}

static void check_renewed(const struct renewal *renewal)
{
    struct message message;
    int fd = renewed_file(renewal, &memfd_id);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, BYTES);
    assert_int_equal(byte_of(fd, 9 * PAGE), 'M');
    assert_int_equal(byte_of(fd, 20 * PAGE), 0);
    assert_int_equal(byte_of(renewed_file(renewal, &open_id), 5 * PAGE), 'o');
    fd = open(named, O_RDONLY);
    assert_int_equal(byte_of(fd, 3 * PAGE + 1), 3);
    assert_int_equal(byte_of(fd, 3 * PAGE + 2), 0);
    close(fd);
    assert_int_equal(fstat(renewed_file(renewal, &linked_id), &st), 0);
    assert_int_equal(st.st_ino, linked_id.st_ino); /* the file that has the name */
    assert_int_equal(byte_of(renewed_file(renewal, &linked_id), 0), 'l');
    int id = renewal_segment(renewal, 0, (uint64_t)segment);
    char *memory = shmat(id, NULL, SHM_RDONLY);
    assert_ptr_not_equal(memory, (char *)-1);
    assert_int_equal(memory[PAGE], 's');
    assert_int_equal(memory[2 * PAGE], 't');
    shmdt(memory);
    assert_int_equal(semctl(sems, 1, GETVAL), 4);
    assert_int_equal(msgrcv(queue, &message, sizeof message.text, 0, IPC_NOWAIT), sizeof message.text);
    assert_string_equal(message.text, "first");
    assert_int_equal(message.type, 3);
    assert_int_equal(msgrcv(queue, &message, sizeof message.text, 0, IPC_NOWAIT), sizeof message.text);
    assert_string_equal(message.text, "second");
    assert_true(msgrcv(queue, &message, sizeof message.text, 0, IPC_NOWAIT) < 0);
}

static void check_channels(const struct renewal *renewal)
{
    char text[64] = "";
    uint64_t count;
    int fd = renewal_file(renewal, 0, SHARED_PIPE, pipe_id.st_dev, pipe_id.st_ino);
    assert_int_equal(read(fd, text, sizeof text), 12);
    assert_string_equal(text, "in the pipe");
    fd = renewal_file(renewal, 0, SHARED_EVENT, 0, event_id);
    assert_int_equal(read(fd, &count, sizeof count), sizeof count);
    assert_int_equal(count, 1); /* it counts down */
    assert_int_equal(renewal_file(renewal, 0, SHARED_EVENT, 0, event_id + 1), -1);
}

/* What both have, one has a half of, and nobody can bring back. */
static void test_notes(void **state)
{
    (void)state;
    char text[256];
    struct shared_rank ranks[CHILDREN];
    for (int i = 0; i < CHILDREN; i++)
        ranks[i] = (struct shared_rank){children[i], NULL, (uint64_t)notes, NOTES, (uint32_t)i};
    assert_true(notes_meet(ranks, CHILDREN));
    assert_false(notes_find_lost(ranks, CHILDREN, text, sizeof text));
    ranks[1].notes_count = 5; /* without the pipe and the eventfd */
    assert_true(notes_meet(ranks, CHILDREN));
    ranks[1].notes_address = (uint64_t)&notes[2]; /* and without the files */
    ranks[1].notes_count = 3;
    assert_false(notes_meet(ranks, CHILDREN));
    ranks[1].notes_address = (uint64_t)notes;
    ranks[1].notes_count = 5;
    notes[6].kind = SHARE_NONE; /* nobody has the end for writing */
    assert_true(notes_find_lost(ranks, CHILDREN, text, sizeof text));
    assert_non_null(strstr(text, "rank 0") ? strstr(text, "pipe:") : NULL);
    notes[6].kind = SHARE_LOST;
    ranks[0].notes_count = 5;
    ranks[1].notes_count = NOTES;
    assert_true(notes_find_lost(ranks, CHILDREN, text, sizeof text));
    assert_non_null(strstr(text, "rank 1"));
    struct share_note saved = notes[6];
    notes[6] = (struct share_note){.kind = SHARE_CHILD, .fd = -1, .id = (int32_t)getpid()};
    notes[5].kind = SHARE_NONE; /* the other end comes first */
    assert_true(notes_find_lost(ranks, CHILDREN, text, sizeof text));
    assert_non_null(strstr(text, "rank 1 has child processes"));
    assert_false(notes_find_needed_child(ranks, CHILDREN, text, sizeof text));
    notes[6].kernel_id = SHARE_CHILD_FEEDS;
    assert_true(notes_find_needed_child(ranks, CHILDREN, text, sizeof text));
    assert_non_null(strstr(text, "rank 1 reads what a process of its own writes ("));
    notes[6].kernel_id = SHARE_CHILD_NEW;
    assert_true(notes_find_needed_child(ranks, CHILDREN, text, sizeof text));
    assert_non_null(strstr(text, "rank 1 has just started a process ("));
    notes[6].kernel_id |= SHARE_CHILD_OWN_PROGRAM;
    assert_true(notes_find_needed_child(ranks, CHILDREN, text, sizeof text));
    assert_non_null(strstr(text, "a forked process"));
    notes[6].kernel_id |= SHARE_CHILD_AWAITED;
    assert_true(notes_find_needed_child(ranks, CHILDREN, text, sizeof text));
    assert_non_null(strstr(text, "waits for a process"));
    notes[6] = saved;
    notes[5].kind = SHARE_PIPE;
    notes[6].kind = SHARE_PIPE;
}

/* Is the file that is only open found among what so many ranks share? */
static bool finds_open_file(uint32_t count)
{
    struct belay_error err = {0};
    struct maps maps[CHILDREN];
    struct shared_rank ranks[CHILDREN];
    struct objects objects = {0};
    char complaint[256];
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(maps_read(children[i], &source, &maps[i], &err), 0);
        ranks[i] = (struct shared_rank){children[i], &maps[i], (uint64_t)notes, NOTES, (uint32_t)i};
    }
    if (shared_find(ranks, count, &objects, complaint, sizeof complaint, &err) < 0)
        fail_msg("%s", err.text);
    struct object_key memfd_key = {SHARED_NAMELESS, memfd_id.st_dev, memfd_id.st_ino},
                      open_key = {SHARED_NAMELESS, open_id.st_dev, open_id.st_ino};
    assert_non_null(objects_find(&objects, &memfd_key)); /* it is mapped */
    bool is_found = objects_find(&objects, &open_key);
    objects_release(&objects);
    for (uint32_t i = 0; i < count; i++)
        maps_release(&maps[i]);
    return is_found;
}

/* What a rank keeps open itself is kept for it only if ranks share it. */
static void test_held(void **state)
{
    (void)state;
    assert_true(finds_open_file(1));
    notes[0].id = notes[1].id = SHARE_IS_HELD;
    assert_false(finds_open_file(1));
    assert_true(finds_open_file(CHILDREN));
    notes[0].id = notes[1].id = 0;
}

static void find_anonymous(void)
{
    struct maps maps;
    assert_int_equal(maps_read(children[0], &source, &maps, NULL), 0);
    const struct mapping *mapping = maps_find(&maps, (uint64_t)at(ANONYMOUS));
    anonymous_id.st_dev = mapping->region.device;
    anonymous_id.st_ino = mapping->region.inode;
    maps_release(&maps);
}

/* What is under a name now is touched only if it is the file of the line. */
static void check_lost_name(int image)
{
    struct belay_error err = {0};
    unlink(named);
    int fd = open(named, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, "other", 5), 5);
    assert_null(renew_one(image, &err));
    assert_non_null(strstr(err.text, "another one now"));
    assert_int_equal(byte_of(fd, 0), 'o');
    close(fd);
    unlink(named);
    struct renewal *renewal = renew_one(image, &err);
    if (!renewal)
        fail_msg("%s", err.text);
    assert_int_equal(byte_of(renewed_file(renewal, &named_id), 3 * PAGE + 1), 3);
    fd = open(named, O_RDONLY);
    assert_int_equal(byte_of(fd, 3 * PAGE + 1), 3);
    close(fd);
    renewal_destroy(renewal);
}

static void test_lines_and_renewal(void **state)
{
    (void)state;
    struct belay_error err = {0};
    struct message message = {.type = 4, .text = "second"};
    uint64_t bytes;
    struct shared *shared = shared_create(NULL, -1, 0, &err);
    find_anonymous();
    int image = capture_line(shared, 1, -1, &bytes, false);
    /* Once, though two have it; in the memfd and in what is only open there are holes. */
    assert_true(bytes >= (2 * PAGES + 6) * PAGE && bytes <= (3 * PAGES + 16) * PAGE);
    assert_int_equal(byte_at(image, "/dev/zero", 7 * PAGE), 7);
    assert_int_equal(byte_at(image, "/memfd:mine", 9 * PAGE), 'm');
    assert_int_equal(byte_at(image, named, 3 * PAGE + 1), 3);

    at(MEMFD + 9)[0] = 'M';
    at(SEGMENT + 2)[0] = 't';
    assert_int_equal(semctl(sems, 1, SETVAL, 4), 0);
    assert_int_equal(msgsnd(queue, &message, sizeof message.text, 0), 0);
    image = capture_line(shared, 2, image, &bytes, true);
    /* The two pages, values, messages, and perhaps the table. */
    assert_true(bytes >= 4 * PAGE && bytes <= 5 * PAGE);
    image = capture_line(shared, 3, image, &bytes, true);
    assert_int_equal(bytes, 0);
    assert_int_equal(byte_at(image, "/memfd:mine", 9 * PAGE), 'M');

    at(MEMFD + 9)[0] = 'x'; /* after the line */
    at(NAMED + 3)[2] = 'x';
    at(SEGMENT + 3)[0] = 'x';
    at(RENAMED)[0] = 'x';
    assert_int_equal(semctl(sems, 1, SETVAL, 9), 0);
    end_children();
    struct renewal *renewal = renew_one(image, &err);
    if (!renewal)
        fail_msg("%s", err.text);
    check_renewed(renewal);
    check_channels(renewal);
    renewed_file(renewal, &anonymous_id);
    struct renewed_id ids[4];
    assert_int_equal(renewal_ids(renewal, ids, 4), 3); /* all: the program knows them by another id */
    fcntl(renewed_file(renewal, &memfd_id), F_GET_SEALS);
    int seen = dup(renewed_file(renewal, &memfd_id));
    renewal_let_go(renewal);
    assert_int_equal(fcntl(seen, F_GET_SEALS), F_SEAL_GROW);
    close(seen);
    renewal_destroy(renewal);
    check_lost_name(image);
    shared_unref(shared);
    close(image);
}

/* In a child, as a user who has to be permitted to read. */
static void plan_unreadable(void)
{
    struct belay_error err = {.text = "no error"};
    struct maps maps;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
        _exit(2);
    prctl(PR_SET_DUMPABLE, 1);
    int fd = make_memfd("hidden");
    fchmod(fd, 0);
    fstat(fd, &open_id);
    notes[0] = (struct share_note){SHARE_FILE, fd, open_id.st_dev, open_id.st_ino, 0, 0};
    pid_t rank = fork();
    if (rank == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    if (maps_read(rank, &source, &maps, &err) < 0) {
        kill(rank, SIGKILL);
        _exit(3);
    }
    struct shared_rank ranks[] = {{rank, &maps, (uint64_t)notes, 1, 0}};
    struct shared_request request = {
        .shared = shared_create(NULL, -1, 0, &err), .image = -1, .ranks = ranks, .count = 1};
    struct shared_capture *capture = shared_capture_create(&request);
    bool is_refused = shared_plan(capture, &err) < 0 && err.code == EACCES &&
                      strstr(err.text, "/memfd:hidden") && !strcmp(err.text, shared_complaint(capture));
    if (!is_refused)
        fprintf(stderr, "%s\n", err.text);
    kill(rank, SIGKILL);
    waitpid(rank, NULL, 0);
    _exit(is_refused ? 0 : 1);
}

/* What no restart could bring back is no part of a line. */
static void test_unreadable(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0)
        plan_unreadable();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_damaged_table(void **state)
{
    (void)state;
    struct belay_error err = {0};
    uint64_t bytes;
    struct shared *shared = shared_create(NULL, -1, 0, &err);
    for (int i = 0; i < NOTES; i++)
        if (notes[i].kind < SHARE_SEGMENT || notes[i].kind > SHARE_MESSAGES)
            notes[i].kind = SHARE_NONE; /* closed by now */
    start_children();
    int image = capture_line(shared, 1, -1, &bytes, false);
    for (int i = 0; i < CHILDREN; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    const uint64_t offset = image_offset(SHARED_TABLE_ADDRESS);
    const struct {
        uint64_t at, value;
        const char *words;
    } damages[] = {
        {0, 1ull << 50, "out of bounds"},
        {sizeof(struct shared_table) + offsetof(struct shared_record, address), 1, "shared thing"},
        {sizeof(struct shared_table) + offsetof(struct shared_record, bytes), 1ull << 60, "shared thing"},
        {sizeof(struct shared_table), 77, "shared thing"}};
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        uint64_t before;
        off_t place = (off_t)(offset + damages[i].at);
        assert_int_equal(pread(image, &before, sizeof before, place), sizeof before);
        assert_int_equal(pwrite(image, &damages[i].value, sizeof before, place), sizeof before);
        assert_null(renew_one(image, &err));
        assert_non_null(strstr(err.text, damages[i].words));
        assert_int_equal(pwrite(image, &before, sizeof before, place), sizeof before);
    }
    shared_unref(shared);
    close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_lines_and_renewal),
        cmocka_unit_test(test_damaged_table),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
