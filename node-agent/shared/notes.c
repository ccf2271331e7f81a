#include "node-agent/shared/notes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/util/array.h"
#include "common/util/escape.h"

#define COMM_BYTES 16 /* of a process: TASK_COMM_LEN */

/* A pipe, an eventfd or a file of one rank. */
struct place {
    uint64_t device, inode;
    uint32_t kind, ends, rank;
    int32_t fd;
};

struct place_list {
    struct place *all;
    size_t count, room;
};

static bool list_places(const struct shared_rank *ranks, uint32_t count, struct place_list *list);
static bool add_place(struct place_list *list, const struct share_note *note, uint32_t rank);
static int compare_places(const void *left, const void *right);
static bool is_same(const struct place *one, const struct place *other);
static const struct place *find_torn(const struct place_list *list);
static void describe(const struct shared_rank *ranks, uint32_t rank, int fd, char *text, size_t text_bytes);

struct share_note *notes_read(const struct shared_rank *rank)
{
    size_t bytes = rank->notes_count * sizeof(struct share_note);
    errno = rank->notes_count > SHARES_NOTES_MAX ? EINVAL : 0;
    if (rank->notes_count == 0 || rank->notes_count > SHARES_NOTES_MAX)
        return NULL;
    struct share_note *notes = malloc(bytes);
    struct iovec local = {notes, bytes}, remote = {(void *)(uintptr_t)rank->notes_address, bytes};
    ssize_t got = notes ? process_vm_readv(rank->pid, &local, 1, &remote, 1, 0) : -1;
    if (got == (ssize_t)bytes)
        return notes;
    int code = got >= 0 ? EFAULT : errno;
    free(notes);
    errno = code;
    return NULL;
}

bool notes_meet(const struct shared_rank *ranks, uint32_t count)
{
    struct place_list list = {0};
    bool do_meet = false;
    list_places(ranks, count, &list);
    for (size_t i = 1; i < list.count; i++)
        do_meet |= is_same(&list.all[i - 1], &list.all[i]) && list.all[i - 1].rank != list.all[i].rank;
    free(list.all);
    return do_meet;
}

bool notes_find_lost(const struct shared_rank *ranks, uint32_t count, char *text, size_t text_bytes)
{
    uint32_t parent = UINT32_MAX; /* a rank that has children */
    struct place_list list = {0};
    text[0] = '\0';
    for (uint32_t rank = 0; rank < count && !text[0]; rank++) {
        struct share_note *notes = notes_read(&ranks[rank]);
        for (uint32_t i = 0; notes && i < ranks[rank].notes_count && !text[0]; i++)
            if (notes[i].kind == SHARE_LOST)
                describe(ranks, rank, notes[i].fd, text, text_bytes);
            else if (notes[i].kind == SHARE_CHILD && parent == UINT32_MAX)
                parent = ranks[rank].number;
        free(notes);
    }
    if (!text[0] && list_places(ranks, count, &list)) {
        const struct place *torn = find_torn(&list);
        if (torn)
            describe(ranks, torn->rank, torn->fd, text, text_bytes);
    }
    free(list.all);
    if (!text[0] && parent != UINT32_MAX)
        snprintf(text, text_bytes,
                 "rank %u has child processes that run: lines do not keep them, and after a restart they are "
                 "gone, "
                 "as if killed",
                 parent);
    return text[0];
}

/* Its name, as it can be shown. */
static void name_process(pid_t pid, char *shown, size_t shown_bytes)
{
    char path[32], name[COMM_BYTES];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(name, 1, sizeof name - 1, file) : 0;
    if (file)
        fclose(file);
    name[got] = '\0';
    name[strcspn(name, "\n")] = '\0';
    escape_text(shown, shown_bytes, name);
}

static void describe_child(uint32_t rank, const struct share_note *note, char *text, size_t text_bytes)
{
    const char *what = "has just started a process";
    char name[4 * COMM_BYTES];
    name_process((pid_t)note->id, name, sizeof name);
    if (note->kernel_id & SHARE_CHILD_AWAITED)
        what = "waits for a process of its own";
    else if (note->kernel_id & SHARE_CHILD_OWN_PROGRAM)
        what = "has a forked process that is a part of its program";
    else if (note->kernel_id & SHARE_CHILD_FEEDS)
        what = "reads what a process of its own writes";
    snprintf(text, text_bytes, "rank %u %s (%s), which a restart could not bring back", rank, what, name);
}

bool notes_find_needed_child(const struct shared_rank *ranks, uint32_t count, char *text, size_t text_bytes)
{
    text[0] = '\0';
    for (uint32_t rank = 0; rank < count && !text[0]; rank++) {
        struct share_note *notes = notes_read(&ranks[rank]);
        for (uint32_t i = 0; notes && i < ranks[rank].notes_count && !text[0]; i++)
            if (notes[i].kind == SHARE_CHILD && notes[i].kernel_id)
                describe_child(ranks[rank].number, &notes[i], text, text_bytes);
        free(notes);
    }
    return text[0];
}

/* All of them, those of one thing next to one another. */
static bool list_places(const struct shared_rank *ranks, uint32_t count, struct place_list *list)
{
    bool is_whole = true;
    for (uint32_t rank = 0; rank < count; rank++) {
        struct share_note *notes = notes_read(&ranks[rank]);
        for (uint32_t i = 0; notes && i < ranks[rank].notes_count; i++)
            if (notes[i].kind == SHARE_PIPE || notes[i].kind == SHARE_EVENT || notes[i].kind == SHARE_FILE)
                is_whole &= add_place(list, &notes[i], rank);
        free(notes);
    }
    if (list->count > 0)
        qsort(list->all, list->count, sizeof *list->all, compare_places);
    return is_whole;
}

static bool add_place(struct place_list *list, const struct share_note *note, uint32_t rank)
{
    if (array_reserve(&list->all, list->count + 1, &list->room) < 0)
        return false;
    list->all[list->count++] = (struct place){.device = note->device,
                                              .inode = note->inode,
                                              .kind = note->kind,
                                              .ends = note->kind == SHARE_PIPE ? (uint32_t)note->id : 0,
                                              .rank = rank,
                                              .fd = note->fd};
    return true;
}

static int compare_places(const void *left, const void *right)
{
    const struct place *one = left, *other = right;
    if (one->kind != other->kind)
        return one->kind < other->kind ? -1 : 1;
    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    if (one->inode != other->inode)
        return one->inode < other->inode ? -1 : 1;
    return one->rank < other->rank ? -1 : one->rank > other->rank;
}

static bool is_same(const struct place *one, const struct place *other)
{
    return one->kind == other->kind && one->device == other->device && one->inode == other->inode;
}

/* A pipe that has no reader, or no writer, among the ranks: some other process has that end. */
static const struct place *find_torn(const struct place_list *list)
{
    for (size_t i = 0, next; i < list->count; i = next) {
        uint32_t ends = 0;
        for (next = i; next < list->count && is_same(&list->all[i], &list->all[next]); next++)
            ends |= list->all[next].ends;
        if (list->all[i].kind == SHARE_PIPE && ends != (SHARE_READER | SHARE_WRITER))
            return &list->all[i];
    }
    return NULL;
}

static void describe(const struct shared_rank *ranks, uint32_t rank, int fd, char *text, size_t text_bytes)
{
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)ranks[rank].pid, fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    snprintf(text, text_bytes,
             "rank %u has descriptor %d (%.120s) open: lines do not keep it, and after a restart its use "
             "gives EBADF",
             ranks[rank].number, fd, path);
}
