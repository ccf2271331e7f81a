/*
 * undo.h - the log from which files are put back to what they were at a line.
 *
 * Below the job's undo folder there is a folder for each line that a restart may go back to, named by its
 * number, and in it a log of each rank, RANK.log, and the files that it has set aside, RANK-NUMBER.kept. A
 * rank writes an entry *before* it changes a file for the first time since the line at which it parked last
 * (line 0: since its start). To go back to line n is to undo the entries of all folders n and above, the
 * latest first: whatever several ranks have recorded of one file, the earliest record is undone last.
 * An entry cut short by a kill is the last of its log, and the change it speaks of has not been made.
 *
 * An entry is a struct undo_entry, its path with a NUL, and data_bytes of data.
 */
#ifndef BELAY_COMMON_WIRE_UNDO_H
#define BELAY_COMMON_WIRE_UNDO_H

#include <stdint.h>

#define UNDO_MAGIC 0x6f646e75u /* "undo" */
#define UNDO_PATH_BYTES 4096

enum undo_kind {
    UNDO_NONE = 0,
    UNDO_LENGTH,  /* the file at path had `offset` bytes */
    UNDO_DATA,    /* ... and the data at `offset` */
    UNDO_CREATED, /* there was nothing at path */
    UNDO_REMOVED, /* at path there was the file that is RANK-`offset`.kept now, its permissions in `mode` */
    UNDO_LINK,    /* at path there was a symbolic link; the data are its target */
    UNDO_FOLDER,  /* at path there was an empty folder with the permissions in `mode` */
    UNDO_RENAMED, /* what is at the path in the data was at path; `mode` has the flags of renameat2(2) */
};

struct undo_entry {
    uint32_t magic;
    uint32_t kind;       /* enum undo_kind */
    uint64_t time_ns;    /* CLOCK_MONOTONIC, after what it holds was read; ascending within a log */
    uint64_t offset;
    uint64_t data_bytes;
    uint32_t mode;
    uint32_t path_bytes; /* with the NUL */
};

#endif
