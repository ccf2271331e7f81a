/* arena.c - power-of-two classes with free lists, cut from mapped chunks; large blocks are mapped alone. */
#include "mpi-layer/upper/arena.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "mpi-layer/lower/rawsys.h" /* not a function that the application may have of its own */

#define MIN_SHIFT 5  /* 32 bytes, header included */
#define MAX_SHIFT 16 /* 64 KiB; beyond it a mapping of its own */
#define CHUNK_BYTES (1ul << 20)
#define BALLAST_BYTES (8ul << 20)

struct header {     /* before every block */
    uint64_t shift; /* class, or 0: a mapping of its own ... */
    uint64_t bytes; /* ... of this length */
};

struct free_block {
    struct header header;
    struct free_block *next;
};

static struct free_block *free_lists[MAX_SHIFT + 1];
static char *chunk, *chunk_end; /* what is left of the newest chunk */
static void *ballast;           /* NULL: it has been given up */

static void *map(size_t bytes)
{
    long at =
        raw_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

static struct header *alloc_large(size_t bytes)
{
    size_t whole = (bytes + sizeof(struct header) + 4095) & ~4095ul;
    struct header *header = map(whole);
    if (header)
        header->bytes = whole;
    return header;
}

static struct header *alloc_class(unsigned shift)
{
    struct free_block *block = free_lists[shift];
    if (block) {
        free_lists[shift] = block->next;
        memset((char *)block + sizeof(struct header), 0, (1ul << shift) - sizeof(struct header));
        return &block->header;
    }
    if ((size_t)(chunk_end - chunk) < 1ul << shift) { /* the rest of the old chunk is given up */
        chunk = map(CHUNK_BYTES);
        chunk_end = chunk ? chunk + CHUNK_BYTES : NULL;
        if (!chunk)
            return NULL;
    }
    struct header *header = (struct header *)(void *)chunk;
    chunk += 1ul << shift;
    header->shift = shift;
    return header;
}

void *arena_alloc(size_t bytes)
{
    unsigned shift = MIN_SHIFT;
    if (bytes > PTRDIFF_MAX) /* with what is added to it, it might come out small */
        return NULL;
    while (shift <= MAX_SHIFT && (1ul << shift) < bytes + sizeof(struct header))
        shift++;
    struct header *header = shift > MAX_SHIFT ? alloc_large(bytes) : alloc_class(shift);
    return header ? header + 1 : NULL;
}

void arena_free(void *block)
{
    if (!block)
        return;
    struct header *header = (struct header *)block - 1;
    if (!header->shift) {
        raw2(SYS_munmap, header, header->bytes);
        return;
    }
    struct free_block *freed = (struct free_block *)(void *)header;
    freed->next = free_lists[header->shift];
    free_lists[header->shift] = freed;
}

void arena_take_ballast(void)
{
    if (!ballast)
        ballast = map(BALLAST_BYTES);
}

void arena_drop_ballast(void)
{
    if (ballast)
        raw2(SYS_munmap, ballast, BALLAST_BYTES);
    ballast = NULL;
}
