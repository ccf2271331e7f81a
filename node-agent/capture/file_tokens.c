#include "node-agent/capture/file_tokens.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/image/file_token.h"
#include "common/util/array.h"

#define CONTENTS_BYTES                                                                                       \
    (16ull << 20) /* read of a process's files that have no build id, in its whole life                      \
                   */

struct entry {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed;
    uint64_t token;
};

struct file_tokens {
    struct entry *entries;
    size_t count, room;
    size_t next;         /* mappings come in the same order at each line */
    uint64_t bytes_read; /* of contents */
};

struct file_tokens *file_tokens_create(void)
{
    return calloc(1, sizeof(struct file_tokens));
}

void file_tokens_destroy(struct file_tokens *tokens)
{
    if (!tokens)
        return;
    free(tokens->entries);
    free(tokens);
}

static bool is_same_file(const struct entry *entry, const struct stat *st)
{
    return entry->inode == st->st_ino && entry->device == st->st_dev;
}

static bool is_unchanged(const struct entry *entry, const struct stat *st)
{
    return entry->bytes == st->st_size && entry->changed.tv_sec == st->st_mtim.tv_sec &&
           entry->changed.tv_nsec == st->st_mtim.tv_nsec;
}

static struct entry *find(struct file_tokens *tokens, const struct stat *st)
{
    for (size_t i = 0; i < tokens->count; i++) {
        size_t at = (tokens->next + i) % tokens->count;
        if (is_same_file(&tokens->entries[at], st)) {
            tokens->next = at;
            return &tokens->entries[at];
        }
    }
    return NULL;
}

/* The path may lead to another file by now. */
static uint64_t read_token(struct file_tokens *tokens, const char *path, const struct entry *entry)
{
    uint64_t token = FILE_TOKEN_NONE;
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return FILE_TOKEN_NONE;
    if (fstat(fd, &st) == 0 && is_same_file(entry, &st) && is_unchanged(entry, &st))
        token = file_token(fd, CONTENTS_BYTES - tokens->bytes_read, &tokens->bytes_read);
    close(fd);
    return token;
}

uint64_t file_tokens_find(struct file_tokens *tokens, const char *path, const struct stat *st)
{
    struct entry *entry = S_ISREG(st->st_mode) ? find(tokens, st) : NULL;
    if (entry) {
        if (!is_unchanged(entry, st))
            entry->token = FILE_TOKEN_NONE;
        return entry->token;
    }
    if (!S_ISREG(st->st_mode) || array_reserve(&tokens->entries, tokens->count + 1, &tokens->room) < 0)
        return FILE_TOKEN_NONE;
    entry = &tokens->entries[tokens->count++];
    *entry = (struct entry){st->st_dev, st->st_ino, st->st_size, st->st_mtim, FILE_TOKEN_NONE};
    entry->token = read_token(tokens, path, entry);
    return entry->token;
}
