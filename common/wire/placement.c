#include "common/wire/placement.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_FOLDER "/host-"

/* "NODE" or "NODE*COUNT". */
struct item {
    uint32_t node;
    uint32_t count; /* 0: not said */
};

/* One number of at most 32 bits; moves *at behind it. */
static bool read_number(const char **at, uint32_t *number)
{
    char *end;
    errno = 0;
    unsigned long value = isdigit((unsigned char)**at) ? strtoul(*at, &end, 10) : ULONG_MAX;
    if (value > UINT32_MAX || errno)
        return false;
    *number = (uint32_t)value;
    *at = end;
    return true;
}

/* The next item; *at is behind its comma, or at the end. */
static bool read_item(const char **at, struct item *item)
{
    item->count = 0;
    if (!read_number(at, &item->node) || item->node >= PLACEMENT_NODES_MAX)
        return false;
    if (**at == '*') {
        ++*at;
        if (!read_number(at, &item->count) || item->count == 0)
            return false;
    }
    if (**at != ',')
        return **at == '\0';
    return *++*at != '\0';
}

/* The item of this index, of those that say no count. */
static int find_block(const char *words, uint32_t index, uint32_t *node)
{
    struct item item;
    for (const char *at = words; *at && read_item(&at, &item); index--)
        if (index == 0) {
            *node = item.node;
            return 0;
        }
    return -1;
}

uint32_t placement_block(uint32_t rank, uint32_t ranks, uint32_t count)
{
    return (uint32_t)((uint64_t)rank * count / ranks);
}

int placement_find(const char *words, uint32_t rank, uint32_t ranks, uint32_t *node, struct belay_error *err)
{
    struct item item;
    uint32_t items = 0, counted = 0;
    uint64_t first = 0;
    for (const char *at = words; *at; items++) {
        if (!read_item(&at, &item))
            return belay_error_set(err, EINVAL, "%s=%.100s makes no sense", PLACEMENT_VARIABLE, words);
        if (rank >= first && rank < first + item.count)
            *node = item.node;
        counted += item.count > 0;
        first += item.count;
    }
    bool is_fit = counted == 0
                      ? items > 0 && find_block(words, placement_block(rank, ranks, items), node) == 0
                      : counted == items && first == ranks;
    return is_fit ? 0
                  : belay_error_set(err, EINVAL, "%s=%.100s is not for %" PRIu32 " ranks", PLACEMENT_VARIABLE,
                                    words, ranks);
}

char *placement_words(const uint32_t *nodes, uint32_t count, const uint32_t *placement, uint32_t ranks)
{
    char *words = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&words, &bytes);
    if (!stream)
        return NULL;
    for (uint32_t i = 0; ranks == 0 && i < count; i++)
        fprintf(stream, "%s%" PRIu32, i ? "," : "", nodes[i]);
    for (uint32_t rank = 0, next; rank < ranks; rank = next) {
        for (next = rank + 1; next < ranks && placement[next] == placement[rank];)
            next++;
        fprintf(stream, "%s%" PRIu32 "*%" PRIu32, rank ? "," : "", nodes[placement[rank]], next - rank);
    }
    if (fclose(stream) == 0)
        return words;
    free(words);
    errno = ENOMEM;
    return NULL;
}

int placement_rundir(char *path, size_t path_bytes, const char *rundir, uint32_t node,
                     struct belay_error *err)
{
    int used = node == 0 ? snprintf(path, path_bytes, "%s", rundir)
                         : snprintf(path, path_bytes, "%s/node-%" PRIu32, rundir, node);
    return used > 0 && (size_t)used < path_bytes
               ? 0
               : belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: %s", rundir);
}

int placement_find_host(const char *hosts, const char *name, uint32_t *node, struct belay_error *err)
{
    size_t length = strlen(name);
    uint32_t number = 0;
    for (const char *at = hosts; *at; number++) {
        size_t word = strcspn(at, ",");
        if (word == length && !strncmp(at, name, length)) {
            *node = number;
            return 0;
        }
        at += word + (at[word] == ',');
    }
    return belay_error_set(err, EXDEV, "host %s is none of the job's hosts, which are %s", name, hosts);
}

bool placement_is_host_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    size_t length = strspn(name, letters);
    return length > 0 && length <= HOST_NAME_MAX && name[length] == '\0' && name[0] != '-';
}

static int check_length(int used, size_t path_bytes, const char *rundir, struct belay_error *err)
{
    return used > 0 && (size_t)used < path_bytes
               ? 0
               : belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: %s", rundir);
}

int placement_hosts_dir(char *path, size_t path_bytes, const char *rundir, struct belay_error *err)
{
    const char *slash = strrchr(rundir, '/');
    bool is_of_host = !getenv(PLACEMENT_LOCAL_VARIABLE) && slash && slash > rundir &&
                      !strncmp(slash, HOST_FOLDER, sizeof HOST_FOLDER - 1) &&
                      placement_is_host_name(slash + sizeof HOST_FOLDER - 1);
    int length = is_of_host ? (int)(slash - rundir) : (int)strlen(rundir);
    return check_length(snprintf(path, path_bytes, "%.*s", length, rundir), path_bytes, rundir, err);
}

int placement_host_rundir(char *path, size_t path_bytes, const char *rundir, const char *name,
                          struct belay_error *err)
{
    char above[PATH_MAX];
    if (!placement_is_host_name(name))
        return belay_error_set(err, EINVAL, "the name of this host cannot be used");
    if (placement_hosts_dir(above, sizeof above, rundir, err) < 0)
        return -1;
    int used = getenv(PLACEMENT_LOCAL_VARIABLE)
                   ? snprintf(path, path_bytes, "%s", above)
                   : snprintf(path, path_bytes, "%s" HOST_FOLDER "%s", above, name);
    return check_length(used, path_bytes, rundir, err);
}
