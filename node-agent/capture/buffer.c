#include "node-agent/capture/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/huge_memory.h"

#define STEP_BYTES (1ull << 20)
#define HUGE_FROM_BYTES (16ull << 20)
#define SPARE_BYTES (16ull << 20) /* kept beyond twice the need */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
}

void buffer_init(struct buffer *buffer)
{
    *buffer = (struct buffer){.fd = -1};
}

void buffer_release(struct buffer *buffer)
{
    int code = errno;
    if (buffer->memory)
        munmap(buffer->memory, buffer->bytes);
    if (buffer->fd >= 0)
        close(buffer->fd);
    buffer_init(buffer);
    errno = code;
}

/* The whole file is mapped anew, where the kernel can give it huge pages; they are made by writing to them.
 */
static int grow_huge(struct buffer *buffer, uint64_t larger, struct belay_error *err)
{
    larger = (larger + HUGE_MEMORY_BYTES - 1) / HUGE_MEMORY_BYTES * HUGE_MEMORY_BYTES;
    if (ftruncate(buffer->fd, (off_t)larger) < 0)
        return belay_error_errno(err, "cannot enlarge a staging area");
    char *at = mmap(NULL, larger, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->fd, 0);
    if (at == MAP_FAILED)
        return belay_error_errno(err, "cannot map a staging area");
    madvise(at, larger, MADV_HUGEPAGE);
    if (madvise(at, larger, MADV_POPULATE_WRITE) < 0) {
        belay_error_errno(err, "cannot reserve %.1f MiB for a staging area", larger / (double)(1 << 20));
        munmap(at, larger);
        return -1;
    }
    if (buffer->memory)
        munmap(buffer->memory, buffer->bytes);
    buffer->memory = at;
    buffer->bytes = larger;
    return 0;
}

static int open_file(struct buffer *buffer, struct belay_error *err)
{
    if (buffer->fd < 0)
        buffer->fd = memfd_create("belay-delta", MFD_CLOEXEC);
    return buffer->fd < 0 ? belay_error_errno(err, "cannot make a staging area") : 0;
}

/* Its file is as large already. */
static int map_larger(struct buffer *buffer, uint64_t larger, struct belay_error *err)
{
    void *at = buffer->memory ? mremap(buffer->memory, buffer->bytes, larger, MREMAP_MAYMOVE)
                              : mmap(NULL, larger, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->fd, 0);
    if (at == MAP_FAILED)
        return belay_error_errno(err, "cannot map a staging area");
    buffer->memory = at;
    buffer->bytes = larger;
    return 0;
}

static int grow(struct buffer *buffer, uint64_t larger, struct belay_error *err)
{
    int code = posix_fallocate(buffer->fd, 0, (off_t)larger);
    if (code)
        return belay_error_set(err, code, "cannot reserve %.1f MiB for a staging area: %s",
                               larger / (double)(1 << 20), strerror(code));
    uint64_t before = buffer->bytes;
    if (map_larger(buffer, larger, err) < 0)
        return -1;
    /* All at once is cheaper than a fault a page; where the kernel cannot, the faults come. */
    madvise(buffer->memory + before, larger - before, MADV_POPULATE_WRITE);
    return 0;
}

int buffer_reserve(struct buffer *buffer, uint64_t bytes, struct belay_error *err)
{
    uint64_t larger = round_up(bytes);
    if (larger <= buffer->bytes)
        return 0;
    if (open_file(buffer, err) < 0)
        return -1;
    bool is_huge = larger - buffer->bytes >= HUGE_FROM_BYTES && huge_memory_is_given();
    return is_huge ? grow_huge(buffer, larger, err) : grow(buffer, larger, err);
}

int buffer_extend(struct buffer *buffer, uint64_t bytes, struct belay_error *err)
{
    uint64_t larger = round_up(bytes);
    if (larger <= buffer->bytes)
        return 0;
    if (open_file(buffer, err) < 0)
        return -1;
    if (ftruncate(buffer->fd, (off_t)larger) < 0)
        return belay_error_errno(err, "cannot enlarge a staging area");
    return map_larger(buffer, larger, err);
}

static uint64_t largest_need(const struct buffer *buffer)
{
    uint64_t largest = 0;
    for (unsigned i = 0; i < BUFFER_LINES; i++)
        if (buffer->needs[i] > largest)
            largest = buffer->needs[i];
    return largest;
}

void buffer_trim(struct buffer *buffer, uint64_t bytes)
{
    buffer->needs[buffer->next] = bytes;
    buffer->next = (buffer->next + 1) % BUFFER_LINES;
    buffer_shrink(buffer, 2 * largest_need(buffer) + SPARE_BYTES);
}

void buffer_shrink(struct buffer *buffer, uint64_t bytes)
{
    uint64_t enough = round_up(bytes);
    if (buffer->bytes <= enough || ftruncate(buffer->fd, (off_t)enough) < 0)
        return;
    munmap(buffer->memory + enough, buffer->bytes - enough);
    buffer->bytes = enough;
    if (enough == 0)
        buffer->memory = NULL;
}
