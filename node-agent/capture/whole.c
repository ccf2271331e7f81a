/*
 * whole.c - see whole.h.
 *
 * Pages go by way of a small block of memory: writing to a file makes its pages without clearing them first,
 * which is several times faster than faulting them in. Where the kernel gives huge pages to a mapping,
 * faulting is faster still, and those parts that fill huge pages are copied there directly.
 */
#include "node-agent/capture/whole.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "common/image/sums.h"
#include "common/util/huge_memory.h"
#include "node-agent/capture/copy.h"

#define HUGE_FROM_BYTES (16ull << 20) /* of an image: less is not worth a trial */
#define WINDOW_BYTES (64ull << 20)    /* mapped at once */
#define BLOCK_BYTES (4ull << 20)      /* stays in the processor's cache */
#define BATCH_RUNS 256u

struct job {
    pid_t pid;
    const struct maps *maps;
    int image;
    bool is_huge; /* huge pages are given */
    char *block;
    struct image_run batch[BATCH_RUNS]; /* data_offset: in the block */
    size_t count;
    uint64_t used; /* of the block */
};

static int add(struct job *job, const struct image_run *run, struct belay_error *err);
static int add_in_blocks(struct job *job, uint64_t address, uint64_t bytes, struct belay_error *err);
static int copy_window(const struct job *job, uint64_t address, uint64_t bytes, struct belay_error *err);
static int flush(struct job *job, struct belay_error *err);

int whole_copy(pid_t pid, const struct maps *maps, const struct run_set *pages, int image,
               struct belay_error *err)
{
    struct job job = {.pid = pid, .maps = maps, .image = image};
    int rc = 0;
    job.is_huge = runs_bytes(pages) >= HUGE_FROM_BYTES && huge_memory_is_given();
    job.block = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (job.block == MAP_FAILED)
        return belay_error_errno(err, "no memory to copy an image");
    for (size_t i = 0; rc == 0 && i < pages->count; i++)
        rc = add(&job, &pages->runs[i], err);
    if (rc == 0)
        rc = flush(&job, err);
    munmap(job.block, BLOCK_BYTES);
    return rc;
}

int whole_drop(const struct run_set *pages, int image, struct belay_error *err)
{
    for (size_t i = 0; i < pages->count; i++) {
        if (fallocate(image, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      (off_t)image_offset(pages->runs[i].address), (off_t)pages->runs[i].bytes) < 0)
            return belay_error_errno(err, "cannot give back pages of an image");
    }
    return 0;
}

/* Addresses and offsets have the same place in a huge page: IMAGE_DATA_BASE is a multiple of one. */
static int add(struct job *job, const struct image_run *run, struct belay_error *err)
{
    uint64_t end = run->address + run->bytes;
    uint64_t low = (run->address + HUGE_MEMORY_BYTES - 1) & ~(HUGE_MEMORY_BYTES - 1);
    uint64_t high = end & ~(HUGE_MEMORY_BYTES - 1);
    if (!job->is_huge || low >= high)
        return add_in_blocks(job, run->address, run->bytes, err);
    for (uint64_t at = low; at < high; at += WINDOW_BYTES)
        if (copy_window(job, at, high - at < WINDOW_BYTES ? high - at : WINDOW_BYTES, err) < 0)
            return -1;
    if (add_in_blocks(job, run->address, low - run->address, err) < 0)
        return -1;
    return add_in_blocks(job, high, end - high, err);
}

static int copy_window(const struct job *job, uint64_t address, uint64_t bytes, struct belay_error *err)
{
    const struct image_run run = {.address = address, .bytes = bytes};
    char *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, job->image, (off_t)image_offset(address));
    if (at == MAP_FAILED)
        return belay_error_errno(err, "cannot map an image");
    madvise(at, bytes, MADV_HUGEPAGE);
    int rc = copy_runs(job->pid, job->maps, &run, 1, at, err);
    if (rc == 0)
        rc = sums_write(job->image, address, at, bytes, err);
    munmap(at, bytes);
    return rc;
}

static int add_in_blocks(struct job *job, uint64_t address, uint64_t all_bytes, struct belay_error *err)
{
    for (uint64_t done = 0, bytes; done < all_bytes; done += bytes) {
        if ((job->count == BATCH_RUNS || job->used == BLOCK_BYTES) && flush(job, err) < 0)
            return -1;
        uint64_t left = all_bytes - done;
        bytes = left < BLOCK_BYTES - job->used ? left : BLOCK_BYTES - job->used;
        job->batch[job->count++] = (struct image_run){address + done, bytes, job->used};
        job->used += bytes;
    }
    return 0;
}

static int flush(struct job *job, struct belay_error *err)
{
    if (copy_runs(job->pid, job->maps, job->batch, job->count, job->block, err) < 0)
        return -1;
    for (size_t i = 0; i < job->count; i++)
        if (image_write_pages(job->image, job->batch[i].address, job->block + job->batch[i].data_offset,
                              job->batch[i].bytes, err) < 0)
            return -1;
    job->count = 0;
    job->used = 0;
    return 0;
}
