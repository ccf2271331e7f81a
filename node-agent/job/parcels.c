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
    int fd;
};

static void name_of(const char *job, uint64_t line, uint32_t rank, char name[KEEPER_NAME_BYTES])
{
    snprintf(name, KEEPER_NAME_BYTES, "%s/parcel/%" PRIu64 "/%" PRIu32, job, line, rank);
}

int parcels_adopt(struct parcels *parcels, uint64_t line, uint32_t rank, int fd, struct belay_error *err)
{
    struct stat st;
    bool is_socket = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
    struct parcel *parcel = is_socket ? calloc(1, sizeof *parcel) : NULL;
    if (!parcel) {
        close(fd);
        return is_socket ? belay_error_set(err, ENOMEM, "no memory to keep open files of rank %" PRIu32, rank)
                         : belay_error_set(err, EPROTO, "the open files of rank %" PRIu32 " are none", rank);
    }
    *parcel = (struct parcel){parcels->first, line, rank, fd};
    parcels->first = parcel;
    return 0;
}

int parcels_take(struct parcels *parcels, struct keeper *keeper, const char *job, const struct rank *rank,
                 uint64_t line, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    int fd = rank_take_parcel(rank);
    if (fd < 0)
        return errno == ENOENT ? 0
                               : belay_error_errno(err, "the open files of rank %" PRIu32 " cannot be taken",
                                                   rank_number(rank));
    name_of(job, line, rank_number(rank), name);
    if (keeper_put(keeper, name, fd, err) < 0) {
        close(fd);
        return -1;
    }
    return parcels_adopt(parcels, line, rank_number(rank), fd, err);
}

int parcels_find(const struct parcels *parcels, uint64_t line, uint32_t rank)
{
    for (const struct parcel *parcel = parcels->first; parcel; parcel = parcel->next)
        if (parcel->line == line && parcel->rank == rank)
            return parcel->fd;
    return -1;
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
        name_of(job, parcel->line, parcel->rank, name);
        keeper_drop(keeper, name, NULL);
        close(parcel->fd);
        free(parcel);
    }
}
