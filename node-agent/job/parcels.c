#include "node-agent/job/parcels.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct parcel {
    struct parcel *next;
    uint64_t line;
    uint32_t rank;
    bool is_copied;
    int fd;
};

static void name_of(const char *job, uint64_t line, uint32_t rank, bool is_copied,
                    char name[KEEPER_NAME_BYTES])
{
    snprintf(name, KEEPER_NAME_BYTES, "%s/parcel/%" PRIu64 "/%" PRIu32 "%s", job, line, rank,
             is_copied ? PARCELS_COPIED : "");
}

int parcels_adopt(struct parcels *parcels, uint64_t line, uint32_t rank, bool is_copied, int fd,
                  struct belay_error *err)
{
    struct stat st;
    bool is_socket = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
    struct parcel *parcel = is_socket ? calloc(1, sizeof *parcel) : NULL;
    if (!parcel) {
        close(fd);
        return is_socket ? belay_error_set(err, ENOMEM, "no memory to keep open files of rank %" PRIu32, rank)
                         : belay_error_set(err, EPROTO, "the open files of rank %" PRIu32 " are none", rank);
    }
    *parcel = (struct parcel){parcels->first, line, rank, is_copied, fd};
    parcels->first = parcel;
    return 0;
}

int parcels_take(struct parcels *parcels, struct keeper *keeper, const char *job, const struct rank *rank,
                 uint64_t line, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    bool is_copied;
    int fd = rank_take_parcel(rank, &is_copied);
    if (fd < 0)
        return errno == ENOENT ? 0
                               : belay_error_errno(err, "the open files of rank %" PRIu32 " cannot be taken",
                                                   rank_number(rank));
    name_of(job, line, rank_number(rank), is_copied, name);
    if (keeper_put(keeper, name, fd, err) < 0) {
        close(fd);
        return -1;
    }
    return parcels_adopt(parcels, line, rank_number(rank), is_copied, fd, err);
}

static const struct parcel *find(const struct parcels *parcels, uint64_t line, uint32_t rank)
{
    const struct parcel *parcel = parcels->first;
    while (parcel && (parcel->line != line || parcel->rank != rank))
        parcel = parcel->next;
    return parcel;
}

int parcels_find(const struct parcels *parcels, uint64_t line, uint32_t rank)
{
    const struct parcel *parcel = find(parcels, line, rank);
    return parcel ? parcel->fd : -1;
}

bool parcels_are_copied(const struct parcels *parcels, uint64_t line, uint32_t rank)
{
    const struct parcel *parcel = find(parcels, line, rank);
    return parcel && parcel->is_copied;
}

void parcels_drop_before(struct parcels *parcels, struct keeper *keeper, const char *job, uint64_t line)
{
    char name[KEEPER_NAME_BYTES];
    for (struct parcel **at = &parcels->first; *at;) {
        struct parcel *parcel = *at;
        if (parcel->line >= line) {
            at = &parcel->next;
            continue;
        }
        *at = parcel->next;
        name_of(job, parcel->line, parcel->rank, parcel->is_copied, name);
        keeper_drop(keeper, name, NULL);
        close(parcel->fd);
        free(parcel);
    }
}
