#include "node-agent/capture/memory.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOT_LINES 8u
#define HOT_PARTS 4u                   /* so many times HOT_LINES, and all hot pages were tried again */
#define HOT_LITTLE_BYTES (32ull << 20) /* of these, all are tried at once */
#define LEFT_LEAST_BYTES (1ull << 20)  /* of a run: for less, a question of its own is not worth while */
#define CHECKED_BYTES (4ull << 20)     /* are checked together ... */
#define CHECKED_PARTS 8u               /* ... at one of so many lines */

static int add_left(struct memory *memory, const struct image_run *run, struct run_set *left,
                    struct run_set *checked);
static void forget_cooled(struct memory *memory);
static void learn_hot(struct memory *memory);
static void try_again(struct memory *memory);
static int take_base(struct memory *memory, int image, struct belay_error *err);

struct memory *memory_create(pid_t pid, const struct layout *layout, const struct tracker_ops *ops, int uffd,
                             int image, uint64_t base_line, struct belay_error *err)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory) {
        belay_error_errno(err, "no memory to follow a rank's");
        if (uffd >= 0)
            close(uffd);
        return NULL;
    }
    memory->pid = pid;
    memory->layout = *layout;
    memory->ops = ops;
    memory->references = 1;
    memory->base_line = base_line;
    memory->staged_bytes = IMAGE_PAGE_BYTES;
    memory->image = -1;
    buffer_init(&memory->buffer);
    pthread_mutex_init(&memory->lock, NULL);
    memory->tracker = ops->create(pid, uffd, err);
    if (!memory->tracker || (image >= 0 && take_base(memory, image, err) < 0)) {
        memory_unref(memory);
        return NULL;
    }
    return memory;
}

/* A capture that was cancelled may still be at work with the former one. It finds an empty buffer then. */
void memory_inherit(struct memory *memory, struct memory *former)
{
    if (pthread_mutex_trylock(&former->lock) != 0)
        return;
    memory->buffer = former->buffer;
    memory->last_bytes = former->last_bytes;
    buffer_init(&former->buffer);
    runs_move(&former->hot, &memory->hot);
    memory_forget_staged(former);
    pthread_mutex_unlock(&former->lock);
}

struct memory *memory_ref(struct memory *memory)
{
    __atomic_add_fetch(&memory->references, 1, __ATOMIC_RELAXED);
    return memory;
}

void memory_unref(struct memory *memory)
{
    if (!memory || __atomic_sub_fetch(&memory->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    memory->ops->destroy(memory->tracker);
    runs_release(&memory->base);
    runs_release(&memory->known);
    runs_release(&memory->pending);
    runs_release(&memory->told);
    runs_release(&memory->again);
    runs_release(&memory->hot);
    runs_release(&memory->left);
    runs_release(&memory->checked);
    runs_release(&memory->suspects);
    memory_forget_staged(memory);
    buffer_release(&memory->buffer);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

void memory_commit(struct memory *memory, uint64_t line, struct run_set *present)
{
    pthread_mutex_lock(&memory->lock);
    runs_release(&memory->pending);
    memory_forget_staged(memory);
    runs_move(present, &memory->base);
    memory->base_line = line;
    buffer_trim(&memory->buffer, memory->last_bytes);
    pthread_mutex_unlock(&memory->lock);
}

bool memory_distrust(struct memory *memory, enum memory_trust trust)
{
    if (__atomic_load_n(&memory->trust, __ATOMIC_RELAXED) >= (int)trust)
        return false;
    __atomic_store_n(&memory->trust, trust, __ATOMIC_RELAXED);
    return true;
}

static int trust_of(const struct memory *memory)
{
    return __atomic_load_n(&memory->trust, __ATOMIC_RELAXED);
}

int memory_find_again(struct memory *memory, struct belay_error *err)
{
    if (trust_of(memory) != MEMORY_TRUST_ALL) /* told as written before the write was over */
        runs_release(&memory->current);
    if (!memory->is_lost && (trust_of(memory) != MEMORY_TRUST_NOTHING || !memory->ops->is_incremental))
        return 0;
    struct tracker *tracker = tracker_full.create(memory->pid, -1, err);
    if (!tracker)
        return -1;
    memory->ops->destroy(memory->tracker);
    memory->tracker = tracker;
    memory->ops = &tracker_full;
    memory->is_lost = false;
    memory_forget_staged(memory);
    return 0;
}

/* Places of an aborted line may be far apart by now. */
void memory_begin_line(struct memory *memory, uint64_t line)
{
    if (memory->staged_line == line)
        return;
    memory_forget_staged(memory);
    memory->staged_line = line;
    forget_cooled(memory);
    runs_release(&memory->told);
    memory->is_told_whole = false;
    learn_hot(memory);
}

void memory_leave_hot(struct memory *memory, bool is_running)
{
    struct run_set left = {0}, checked = {0};
    if (!memory->ops->leave)
        return;
    for (size_t i = 0; i < memory->hot.count; i++) {
        const struct image_run *run = &memory->hot.runs[i];
        int rc = 0;
        if (run->bytes >= LEFT_LEAST_BYTES)
            rc = is_running ? runs_append(&left, run->address, run->bytes)
                            : add_left(memory, run, &left, &checked);
        if (rc < 0)
            break; /* the others are tracked */
    }
    if (!is_running)
        runs_move(&checked, &memory->checked);
    memory->is_told_whole |= !is_running;
    runs_move(&left, &memory->left);
    memory->ops->leave(memory->tracker, &memory->left);
}

/* Of a run of hot pages, what is left alone after this line, and what is not. */
static int add_left(struct memory *memory, const struct image_run *run, struct run_set *left,
                    struct run_set *checked)
{
    const uint64_t end = run->address + run->bytes;
    for (uint64_t at = run->address, next; at < end; at = next) {
        uint64_t part = at / CHECKED_BYTES;
        bool is_checked = (part + memory->staged_line) % CHECKED_PARTS == 0;
        next = (part + 1) * CHECKED_BYTES < end ? (part + 1) * CHECKED_BYTES : end;
        if (runs_append(is_checked ? checked : left, at, next - at) < 0)
            return -1;
    }
    return 0;
}

/* Hot pages that were tracked since the pause of the line before the last, and were not written. */
static void forget_cooled(struct memory *memory)
{
    struct run_set cooled = {0}, hot = {0};
    if (memory->is_told_whole && runs_subtract(&memory->suspects, &memory->told, &cooled) == 0 &&
        runs_subtract(&memory->hot, &cooled, &hot) == 0)
        runs_move(&hot, &memory->hot);
    runs_release(&cooled);
    runs_move(&memory->checked, &memory->suspects);
}

bool memory_is_little_written(struct memory *memory, uint64_t line, uint64_t little_bytes)
{
    struct faults now;
    bool is_little = false;
    pthread_mutex_lock(&memory->lock);
    memory_begin_line(memory, line);
    if (memory_has_base(memory) && memory->pending.count == 0 && memory->faults.minor > 0 &&
        faults_read(memory->pid, &now) == 0) {
        uint64_t bytes = faults_bytes(&memory->faults, &now) + runs_bytes(&memory->left);
        is_little = bytes <= runs_bytes(&memory->hot) + little_bytes && bytes <= memory->buffer.bytes;
    }
    pthread_mutex_unlock(&memory->lock);
    return is_little;
}

void memory_settle(struct memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    if (memory->ops->settle)
        memory->ops->settle(memory->tracker);
    pthread_mutex_unlock(&memory->lock);
}

void memory_forget_staged(struct memory *memory)
{
    runs_release(&memory->staged);
    runs_release(&memory->current);
    memory->staged_bytes = IMAGE_PAGE_BYTES;
    if (memory->image >= 0)
        close(memory->image);
    memory->image = -1;
}

bool memory_is_tracked(const struct memory *memory)
{
    return memory->ops->is_concurrent && trust_of(memory) == MEMORY_TRUST_ALL;
}

bool memory_has_base(const struct memory *memory)
{
    return memory->ops->is_incremental && memory->base_line > 0;
}

/*
 * A hot page is not copied ahead, so nothing shows that it has cooled: from time to time some are tried
 * again. Without memory all are.
 */
static void learn_hot(struct memory *memory)
{
    struct run_set hot = {0};
    if (runs_union(&memory->hot, &memory->again, &hot) < 0)
        runs_release(&hot);
    runs_release(&memory->again);
    runs_move(&hot, &memory->hot);
    if (memory->hot_lines++ == HOT_LINES) {
        try_again(memory);
        memory->hot_lines = 1;
    }
}

/* A part of the hot pages counts as cool: all at once would be copied twice, by a line that takes as much
 * longer. */
static void try_again(struct memory *memory)
{
    struct run_set past = {0}, tried = {0}, rest = {0};
    uint64_t all_bytes = runs_bytes(&memory->hot), pages = all_bytes / HOT_PARTS / IMAGE_PAGE_BYTES,
             bytes = pages * IMAGE_PAGE_BYTES;
    bytes = bytes > HOT_LITTLE_BYTES ? bytes : HOT_LITTLE_BYTES;
    int rc = runs_slice(&memory->hot, 0, memory->hot_tried, &past);
    uint64_t past_bytes = runs_bytes(&past) < all_bytes ? runs_bytes(&past) : 0;
    uint64_t start = runs_address(&memory->hot, past_bytes);
    memory->hot_tried = runs_address(&memory->hot, past_bytes + bytes);
    if (rc < 0 || runs_slice(&memory->hot, start, memory->hot_tried, &tried) < 0 ||
        runs_subtract(&memory->hot, &tried, &rest) < 0)
        runs_release(&rest);
    runs_move(&rest, &memory->hot);
    runs_release(&past);
    runs_release(&tried);
}

static int take_base(struct memory *memory, int image, struct belay_error *err)
{
    struct image_view view;
    struct stat st;
    int rc = 0;
    if (fstat(image, &st) < 0)
        return belay_error_errno(err, "cannot look at an image");
    if (image_load(image, &view, err) < 0)
        return -1;
    for (uint64_t i = 0; rc == 0 && i < view.header->run_count; i++)
        rc = runs_append(&memory->base, view.runs[i].address, view.runs[i].bytes);
    if (rc == 0)
        rc = runs_copy(&memory->base, &memory->known);
    memory->image_inode = st.st_ino;
    image_unload(&view);
    return rc == 0 ? 0 : belay_error_errno(err, "cannot note the pages of an image");
}
