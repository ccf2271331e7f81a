/* travel_meet.c - see travel.h: files that ranks of a lost host had in common are to be in common again. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/util/escape.h"
#include "common/util/fnv1a.h"
#include "common/util/mounts.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/travel.h"

/* What a rank says of a file that only its host has. */
struct said {
    uint64_t file; /* which it was, on which host */
    uint64_t here; /* the host that the rank is on */
    uint64_t is_written;
};

static uint64_t name_of(const struct fd_record *record)
{
    const uint64_t words[] = {VK->travel_host, record->id.device, record->id.inode, record->id.birth_ns};
    return fnv1a(FNV1A_START, words, sizeof words);
}

static bool is_own(const struct fd_record *record)
{
    return record->travel != TRAVEL_NONE && record->links > 0 && record->same_as < 0;
}

/* Returns how many there are. */
static int collect(struct said *own, uint64_t room)
{
    uint64_t here = mounts_host();
    int count = 0;
    for (uint64_t i = 0; i < VK->fd_count && (uint64_t)count < room; i++)
        if (is_own(&VK->fds[i]))
            own[count++] =
                (struct said){name_of(&VK->fds[i]), here, (VK->fds[i].status_flags & O_ACCMODE) != O_RDONLY};
    return count;
}

static int compare(const void *one, const void *other)
{
    const struct said *a = one, *b = other;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->here > b->here) - (a->here < b->here);
}

/* The first file that is on two hosts, and written to; NULL: none. */
static const struct said *find_parted(struct said *all, size_t count)
{
    qsort(all, count, sizeof *all, compare);
    for (size_t i = 0, end; i < count; i = end) {
        uint64_t is_written = 0;
        for (end = i; end < count && all[end].file == all[i].file; end++)
            is_written |= all[end].is_written;
        if (is_written && all[i].here != all[end - 1].here)
            return &all[i];
    }
    return NULL;
}

static int refuse(uint64_t file, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    *err = (struct belay_error){.code = EXDEV};
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (is_own(&VK->fds[i]) && name_of(&VK->fds[i]) == file)
            belay_error_set(
                err, EXDEV,
                "the program had %s open (descriptor %d) in several ranks of a host, which are on "
                "different hosts now: they would not write to one file any more",
                escape_text(shown, sizeof shown, fd_record_path(&VK->fds[i])), VK->fds[i].fd);
    return -1;
}

/* What all ranks say, to be freed; NULL: out of memory, or MPI has failed. */
static struct said *gather(struct said *own, int own_count, size_t *count)
{
    int ranks = 0, total = 0, bytes = own_count * (int)sizeof *own;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int *counts = calloc(2 * (size_t)ranks, sizeof *counts), *places = counts + ranks;
    if (!counts || MPI_Allgather(&bytes, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD) != MPI_SUCCESS) {
        free(counts);
        return NULL;
    }
    for (int i = 0; i < ranks; i++) {
        places[i] = total;
        total = counts[i] > INT_MAX - total ? INT_MAX : total + counts[i];
    }
    struct said *all = total < INT_MAX ? calloc(1, (size_t)total + 1) : NULL;
    if (all &&
        MPI_Allgatherv(own, bytes, MPI_BYTE, all, counts, places, MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS) {
        free(all);
        all = NULL;
    }
    free(counts);
    *count = (size_t)total / sizeof *all;
    return all;
}

int travel_meet(struct belay_error *err)
{
    struct said *own = calloc(VK->fd_count + 1, sizeof *own);
    size_t count = 0;
    struct said *all = own ? gather(own, collect(own, VK->fd_count), &count) : NULL;
    const struct said *parted = all ? find_parted(all, count) : NULL;
    int rc = !all     ? belay_error_set(err, ENOMEM, "ranks cannot compare the files that they have open")
             : parted ? refuse(parted->file, err)
                      : 0;
    free(all);
    free(own);
    return rc;
}
