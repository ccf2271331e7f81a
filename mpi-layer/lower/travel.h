/*
 * travel.h - open files that other hosts of the job do not have travel with the rank: at a line their
 * contents are written to saved memory, so that they are a part of the image; a rank that is restored on
 * another host makes them anew there.
 *
 * Files on file systems that all hosts have do not travel, but for those without a name, which are lost with
 * their host, and which no archive could hold. A file that does not travel is named once when a line finds it
 * so; a rank that has it open, and is restored on another host, refuses to go on, and names the file. Of a
 * file that was only read, the one at its place there will do if it has the same contents.
 *
 * Ranks of one host may have a file in common. They park one after the other, so their copies differ; the
 * one that was read last is the file as of the line, since all of them stood still then. It wins: a file that
 * is made anew has the time at which its contents were read as its time of change until all ranks are
 * restored. Such ranks must be restored on one host; otherwise the restart is refused.
 *
 * A file that was made anew is known by the list of its line's undo folder (common/wire/undo_replaced.h), on
 * which the rank writes it; the list is locked while files are made.
 *
 * Lower FS.
 */
#ifndef BELAY_MPI_LAYER_LOWER_TRAVEL_H
#define BELAY_MPI_LAYER_LOWER_TRAVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"
#include "mpi-layer/lower/gate.h"

/* Of a record (gate.h): what a restart on another host can do about the file. */
enum travel {
    TRAVEL_NONE = 0,   /* nothing has to be done: all hosts have it, or the job has one node */
    TRAVEL_CONTENTS,   /* its contents are in the image */
    TRAVEL_TOKEN,      /* it was only read, and the token of its contents is known */
    TRAVEL_TOO_LARGE,  /* nothing, since it is beyond the limit ... */
    TRAVEL_UNREADABLE, /* ... it cannot be read ... */
    TRAVEL_PATHLESS,   /* ... it has a name, and no path that leads there */
};

/*
 * Before the first line: how many bytes of files travel (0: none, the job has one node and no archive), and
 * the devices of file systems that all hosts have, ascending, as in struct file_id; borrowed.
 */
void travel_start(uint64_t limit_bytes, const uint64_t *common_devices, size_t count);

/*
 * At a line, when it is known which files are held (held.h): fill in what records tell of travelling. Returns
 * whether the contents of all files that are held are in the image.
 */
bool travel_note(struct fd_record *records, size_t count, const char *text);

/* ---- in a restart ---- */

/* This host is another one than that of the line, or not in the state of then, and the file was its own. */
bool travel_is_away(const struct fd_record *record);
/* A descriptor (O_PATH) of the file of such a record, which is at `path` or is made there; -1 with err. */
int travel_find(const struct fd_record *record, const char *path, struct belay_error *err);
/* A file without a name, with its contents: a new descriptor, or -1 with err. */
int travel_make_nameless(const struct fd_record *record, struct belay_error *err);
/* All descriptors are made again. */
void travel_close(void);

/*
 * All ranks have their files: is a file that several of them write to one file again? Collective over all
 * ranks. Returns 0, or -1 with err; err has no text if another rank tells the reason.
 */
int travel_meet(struct belay_error *err);
/* After that: files that were made anew get their times of change. */
void travel_set_times(void);

#endif
