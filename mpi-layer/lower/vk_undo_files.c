/* vk_undo_files.c - the table of files that were noted since the line; see vk_undo_note.h. */
#include "mpi-layer/lower/vk_undo_note.h"

#include <linux/mman.h>
#include <stddef.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"

#define BUCKETS 1024
#define TABLE_BYTES (1ul << 30) /* of what there is to know at most, ... */
#define CHUNK_BYTES (1ul << 20) /* ... taken as it is needed: a program may limit its address space */
#define BLOCK_SHIFT 16          /* data are kept by blocks of 64 KiB, larger ones in files beyond 1 GiB */
#define MAX_BLOCKS 16384u

/* Of the table, CHUNK_BYTES in all. They are kept from line to line. */
struct chunk {
    struct chunk *next;
    uint64_t reserved;
};

static struct {
    struct chunk *chunks, *chunk; /* the first, the one that is in use */
    char *chunk_next;             /* what is free of that */
    uint64_t chunks_bytes;
    struct vk_undo_file *buckets[BUCKETS];
} table;

static bool take_chunk(struct chunk *chunk)
{
    table.chunk = chunk;
    table.chunk_next = chunk ? (char *)(chunk + 1) : NULL;
    return chunk;
}

static bool next_chunk(void)
{
    struct chunk **next = table.chunk ? &table.chunk->next : &table.chunks;
    if (!*next && table.chunks_bytes < TABLE_BYTES) {
        long at = raw_syscall(SYS_mmap, 0, CHUNK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        *next = at > 0 ? (struct chunk *)at : NULL;
        table.chunks_bytes += at > 0 ? CHUNK_BYTES : 0;
    }
    return *next && take_chunk(*next);
}

void *vk_undo_alloc(uint64_t bytes)
{
    bytes = (bytes + 15) & ~15ul;
    bool has_room = table.chunk && table.chunk_next + bytes <= (char *)table.chunk + CHUNK_BYTES;
    if (!has_room && !next_chunk())
        return NULL;
    uint64_t *block = (uint64_t *)(void *)table.chunk_next;
    table.chunk_next += bytes;
    for (uint64_t i = 0; i < bytes / 8; i++)
        block[i] = 0; /* used before, at an earlier line */
    return block;
}

static struct vk_undo_file **bucket(const struct file_id *id)
{
    return &table.buckets[(id->inode ^ id->inode >> 10 ^ id->device) % BUCKETS];
}

struct vk_undo_file *vk_undo_find(const struct file_id *id)
{
    struct vk_undo_file *file = *bucket(id);
    while (file && !file_id_is_same(&file->id, id))
        file = file->next;
    return file;
}

struct vk_undo_file *vk_undo_add(const struct vk_undo_facts *facts)
{
    struct vk_undo_file *file = vk_undo_alloc(sizeof *file);
    if (!file)
        return NULL;
    struct vk_undo_file **first = bucket(&facts->id);
    /* Complete before it can be found. */
    file->id = facts->id;
    file->length = facts->bytes;
    file->shift = BLOCK_SHIFT;
    while (file->length >> file->shift >= MAX_BLOCKS)
        file->shift++;
    file->next = *first;
    __atomic_store_n(first, file, __ATOMIC_RELEASE);
    return file;
}

/* With the last name goes its inode, whose number a new file may get. */
void vk_undo_forget(const struct vk_undo_facts *facts)
{
    struct vk_undo_file **at = bucket(&facts->id);
    while (*at && !file_id_is_same(&(*at)->id, &facts->id))
        at = &(*at)->next;
    if (*at && facts->links <= 1)
        *at = (*at)->next;
    vk_fd_forget_noted();
}

void vk_undo_add_new(const struct vk_undo_facts *facts)
{
    vk_undo_forget(facts);
    struct vk_undo_file *file = vk_undo_add(facts);
    if (file)
        file->is_new = file->is_settled = true;
}

bool vk_undo_is_new(const struct vk_undo_facts *facts)
{
    const struct vk_undo_file *file = vk_undo_find(&facts->id);
    return file && file->is_new;
}

void vk_undo_files_line(void)
{
    for (int i = 0; i < BUCKETS; i++)
        table.buckets[i] = NULL;
    vk_fd_forget_noted();
    take_chunk(table.chunks);
}
