/* witness.c - see witness.h. */
#include "node-agent/member/witness.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/root.h"
#include "common/image/runs.h"
#include "common/image/sums.h"
#include "common/util/array.h"
#include "node-agent/capture/capture.h"
#include "node-agent/capture/memory.h"
#include "node-agent/capture/tracker.h"

/* Around the stack pointer of a thread that waits, its frames come and go. */
#define BELOW_BYTES (2 * IMAGE_PAGE_BYTES)
#define TRIES 1000 /* to meet a thread while it waits, 1 ms apart */
#define RUNS UINT64_MAX
#define ABOVE_BYTES (4 * IMAGE_PAGE_BYTES)

struct page {
    uint64_t address, sum;
};

struct witness {
    struct page *pages; /* with content, ascending */
    size_t count, room;
    struct run_set files; /* mappings of files: what only the capture has may be the file's own page */
    uint64_t *stacks;     /* where threads stand: the pages around are changed by their waiting */
    size_t stack_count, stack_room;
    bool is_short; /* of memory for them */
};

bool witness_is_wanted(uint32_t rank, uint64_t line)
{
    return fault_hit("agent.witness", (int)rank, line);
}

/*
 * The stack pointer of a thread that stands still (proc(5): task/[tid]/syscall ends with it and an address);
 * it may be about to wait again. 0: it has ended; RUNS: it does not come to wait.
 */
static uint64_t stack_of(pid_t pid, const char *tid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/syscall", (int)pid, tid);
    for (int try = 0; try < TRIES; try++) {
        FILE *file = fopen(path, "re");
        const char *last = file && fgets(line, sizeof line, file) ? strrchr(line, ' ') : NULL;
        if (file)
            fclose(file);
        while (last && last > line && last[-1] != ' ')
            last--;
        if (last || !file)
            return last ? strtoull(last, NULL, 16) : 0;
        usleep(1000); /* "running" */
    }
    return RUNS;
}

/* On a busy machine a thread may be about to wait for long: then nobody can tell which pages it changes. */
static int find_stacks(struct witness *witness, pid_t pid, struct belay_error *err)
{
    char path[32];
    int rc = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *entry; rc == 0 && tasks && (entry = readdir(tasks));) {
        uint64_t stack = entry->d_name[0] != '.' ? stack_of(pid, entry->d_name) : 0;
        if (stack == RUNS)
            rc = belay_error_set(err, EAGAIN,
                                 "thread %.20s does not come to wait: no full copy to compare with",
                                 entry->d_name);
        else if (stack &&
                 array_reserve(&witness->stacks, witness->stack_count + 1, &witness->stack_room) == 0)
            witness->stacks[witness->stack_count++] = stack;
    }
    if (tasks)
        closedir(tasks);
    return rc;
}

static bool is_waited_on(const struct witness *witness, uint64_t address)
{
    for (size_t i = 0; i < witness->stack_count; i++)
        if (address + BELOW_BYTES >= witness->stacks[i] && address < witness->stacks[i] + ABOVE_BYTES)
            return true;
    return false;
}

static void note(void *context, uint64_t address, const uint64_t *sums, uint64_t count)
{
    static const char zeros[IMAGE_PAGE_BYTES];
    struct witness *witness = context;
    witness->is_short |= array_reserve(&witness->pages, witness->count + count, &witness->room) < 0;
    for (uint64_t i = 0; i < count && !witness->is_short; i++, address += IMAGE_PAGE_BYTES) {
        uint64_t empty;
        sums_make(&empty, address, zeros, sizeof zeros);
        if (sums[i] != empty)
            witness->pages[witness->count++] = (struct page){address, sums[i]};
    }
}

static int find_files(struct witness *witness, int part, struct belay_error *err)
{
    struct image_view view;
    int rc = image_load(part, &view, err);
    if (rc < 0)
        return -1;
    for (uint64_t i = 0; rc == 0 && i < view.header->region_count; i++) {
        const struct image_region *region = &view.regions[i];
        if (region->kind == IMAGE_REGION_FILE)
            rc = runs_append(&witness->files, region->start, region->end - region->start);
    }
    image_unload(&view);
    return rc == 0 ? 0 : belay_error_errno(err, "cannot note mappings");
}

/* NULL with err. */
static struct witness *read_pages(int part, int base, struct belay_error *err)
{
    struct witness *witness = calloc(1, sizeof *witness);
    int rc = witness ? root_read_sums(part, base, note, witness, err) : 0;
    if (rc == 0 && witness)
        rc = find_files(witness, part, err);
    if (rc == 0 && (!witness || witness->is_short))
        rc = belay_error_set(err, ENOMEM, "no memory to compare a capture");
    if (rc == 0)
        return witness;
    witness_destroy(witness);
    return NULL;
}

static struct witness *copy(struct capture *capture, struct belay_error *err)
{
    uint64_t base_line;
    if (capture_plan(capture, err) < 0 || capture_copy(capture, 1, err) < 0 ||
        capture_finish(capture, err) < 0)
        return NULL;
    int fd = capture_take(capture, &base_line);
    struct witness *witness = read_pages(fd, -1, err);
    close(fd);
    return witness;
}

struct witness *witness_take(pid_t pid, const struct layout *layout, const struct image_header *header,
                             const char *program, struct belay_error *err)
{
    struct witness *witness = NULL;
    struct memory *memory = memory_create(pid, layout, &tracker_full, -1, -1, 0, err);
    if (!memory)
        return NULL;
    const struct capture_subject subject = {.memory = memory, .program = program, .header = *header};
    struct capture *capture = capture_create(&subject);
    if (capture)
        witness = copy(capture, err);
    else
        belay_error_set(err, ENOMEM, "no memory to copy a rank twice");
    if (witness && find_stacks(witness, pid, err) < 0) {
        witness_destroy(witness);
        witness = NULL;
    }
    capture_destroy(capture);
    memory_unref(memory);
    return witness;
}

void witness_destroy(struct witness *witness)
{
    if (witness) {
        free(witness->pages);
        free(witness->stacks);
        runs_release(&witness->files);
    }
    free(witness);
}

/* The first one from this one on that nobody changes by waiting. */
static size_t next_page(const struct witness *witness, const struct witness *from, size_t number)
{
    while (number < from->count && is_waited_on(witness, from->pages[number].address))
        number++;
    return number;
}

/* Only the capture has this page. */
static bool may_be_a_files(const struct witness *witness, uint64_t address)
{
    size_t at = runs_find(&witness->files, address);
    return at < witness->files.count && witness->files.runs[at].address <= address;
}

/* Two images side by side, in the order of their pages. */
struct difference {
    uint64_t pages, first, last;
    const char *kind; /* of the first one */
};

static void note_difference(struct difference *difference, uint64_t address, const char *kind)
{
    if (difference->pages++ == 0) {
        difference->first = address;
        difference->kind = kind;
    }
    difference->last = address;
}

static struct difference find_difference(const struct witness *witness, const struct witness *made)
{
    struct difference found = {0};
    size_t i = 0, j = 0;
    for (;;) {
        i = next_page(witness, witness, i);
        j = next_page(witness, made, j);
        uint64_t seen = i < witness->count ? witness->pages[i].address : UINT64_MAX;
        uint64_t captured = j < made->count ? made->pages[j].address : UINT64_MAX;
        if (seen == UINT64_MAX && captured == UINT64_MAX)
            return found;
        if (seen < captured)
            note_difference(&found, seen, "which it lacks");
        else if (captured < seen && !may_be_a_files(witness, captured))
            note_difference(&found, captured, "which only it has");
        else if (seen == captured && witness->pages[i].sum != made->pages[j].sum)
            note_difference(&found, seen, "which has another content");
        i += seen <= captured;
        j += captured <= seen;
    }
}

int witness_compare(const struct witness *witness, int part, int base, struct belay_error *err)
{
    struct witness *made = read_pages(part, base, err);
    if (!made)
        return -1;
    struct difference found = find_difference(witness, made);
    witness_destroy(made);
    return found.pages == 0
               ? 0
               : belay_error_set(err, EILSEQ,
                                 "its capture differs from a full copy at the same line in %" PRIu64
                                 " pages, 0x%" PRIx64 " (%s) to 0x%" PRIx64,
                                 found.pages, found.first, found.kind, found.last);
}
