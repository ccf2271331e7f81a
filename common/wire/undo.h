/*
 * undo.h - the log from which files are put back to what they were at a line, version 6.
 *
 * Below the job's undo folder there is a folder for each line that a restart may go back to, named by its
 * number, and in it a log of each rank, RANK.log, and the files that it has set aside, RANK-NUMBER.kept. A
 * rank writes an entry *before* it changes a file for the first time since the line at which it parked last
 * (line 0: since its start). To go back to line n is to undo the entries of all folders n and above, the
 * latest first: whatever several ranks have recorded of one file, the earliest record is undone last.
 * An entry cut short by a kill is the last of its log, and the change it speaks of has not been made.
 *
 * A log is a struct undo_head and entries; an entry is a struct undo_entry, its path with a NUL, and
 * data_bytes of data. Paths are absolute, and no folder in them was a symbolic link when they were noted. A
 * path is a hint only: which file is meant is told by its identity, and where a name was by that of its
 * folder. Others may have put something else there, which must not be touched.
 *
 * Calls that change names are announced before they are made. What then became of them is told by a second
 * entry: UNDO_MADE or UNDO_WITHDRAWN.
 *
 * Once the agent has put files back at line n, LINE/replaced tells which files it had to make anew (struct
 * undo_replaced, without a head): the image of line n knows them by their former identities.
 */
#ifndef BELAY_COMMON_WIRE_UNDO_H
#define BELAY_COMMON_WIRE_UNDO_H

#include <stdint.h>

#include "common/util/file_id.h"

#define UNDO_HEAD_MAGIC 0x474f4c4f444e5542ull /* "BUNDOLOG" */
#define UNDO_VERSION 6u
#define UNDO_MAGIC 0x6f646e75u /* "undo" */
#define UNDO_PATH_BYTES 4096
#define UNDO_DATA_BYTES (256u << 10) /* of an entry at most */
#define UNDO_KEPT_NAME_BYTES 48      /* of RANK-NUMBER.kept */
#define UNDO_REPLACED "replaced"
#define UNDO_HELD "held-"     /* so begins the name of an open file that had none */
#define UNDO_IN_RUNDIR "undo" /* below it a folder of each job that has no other one */

/* How much of a file system stays free of kept files: others need it as well. */
#define UNDO_DISK_FLOOR_BYTES (8ull << 30) /* or a twentieth of the disk */
static inline uint64_t undo_floor_bytes(uint32_t type, uint64_t all_bytes)
{
    const uint32_t tmpfs = 0x01021994, ramfs = 0x858458f6;
    if (type == tmpfs || type == ramfs)
        return all_bytes / 2;
    return all_bytes / 20 < UNDO_DISK_FLOOR_BYTES ? all_bytes / 20 : UNDO_DISK_FLOOR_BYTES;
}

struct undo_head {
    uint64_t magic;
    uint32_t version;
    uint32_t rank;
    uint64_t line;
};

enum undo_kind {
    UNDO_NONE = 0,
    UNDO_LENGTH,      /* the file had `offset` bytes; the data are a struct undo_attributes, or none */
    UNDO_DATA,        /* ... and the data at `offset` */
    UNDO_HOLE,        /* ... and `extent` zeros at `offset` that took no room */
    UNDO_CREATED,     /* there was nothing at path; `extent` ns since 1970, something is about to be made */
    UNDO_MADE,        /* it was made, and is `id`. `offset`: time_ns of its UNDO_CREATED; 0: there is none */
    UNDO_REMOVED,     /* at path there was the file `id`, RANK-`offset`.kept now: by a link, or as a copy
                         (`extent` 1). mode: its group; the data are its list of users
                         (system.posix_acl_access) */
    UNDO_LINK,        /* at path there was a symbolic link; the data are its target */
    UNDO_FOLDER,      /* at path there was an empty folder */
    UNDO_RENAMED,     /* `id` was at path; the data are a struct undo_target. mode: flags of renameat2(2) */
    UNDO_WITHDRAWN,   /* what the entry of time_ns `offset` speaks of has not happened */
    UNDO_UNPROTECTED, /* the file changes, and what it was could not be kept */
    UNDO_ATTRIBUTES,  /* what is at path had the struct undo_attributes in the data */
    UNDO_NODE,        /* at path there was a named pipe or a socket `id` */
    UNDO_SYSV_KEY,    /* no object of System V of the kind `mode` (shares.h) had the key `offset`; `extent`
                         ns since 1970, one is about to be made */
    UNDO_SYSV_ID,     /* the object of the kind `mode` with the kernel's id `offset` was made */
    UNDO_KINDS
};

/*
 * mode of UNDO_LENGTH, UNDO_DATA, UNDO_HOLE and UNDO_ATTRIBUTES: a rank holds the file itself, and puts it
 * back if the agent does not find it.
 */
#define UNDO_ALSO_HELD 1u
#define UNDO_MADE_LINK 1u /* mode of UNDO_MADE: another name of a file that was there */

struct undo_entry {
    uint32_t magic;
    uint32_t kind; /* enum undo_kind */
    /*
     * When, after what it holds was read; both ascend within a log. Entries of several logs are ordered by
     * the clock of the file system of the log, which is one for all hosts; where it tells of the same moment,
     * by the job's clock (fence.h). time_ns is different in each entry of a log.
     */
    uint64_t stored_ns; /* since 1970; 0: not known */
    uint64_t time_ns;
    uint64_t offset;
    uint64_t extent;
    uint64_t data_bytes;
    struct file_id id;     /* of the file; inode 0: not known */
    struct file_id folder; /* the last one in the path */
    uint32_t mode;
    uint32_t path_bytes; /* with the NUL */
};

/*
 * Of UNDO_ATTRIBUTES all is put back. Of UNDO_LENGTH only the times are: the job writes to the file, and has
 * not changed the rest. A time whose nanoseconds are UTIME_OMIT stays as it is.
 */
struct undo_attributes {
    uint32_t mode; /* permissions */
    uint32_t uid, gid;
    uint32_t reserved;
    int64_t changed_s, changed_ns; /* since 1970; of its contents */
    int64_t read_s, read_ns;       /* when it was read last; UTIME_OMIT where a write has left that alone */
};

/* The data of UNDO_RENAMED: where the new name is, and a path with a NUL. */
struct undo_target {
    struct file_id folder;
    struct file_id id; /* what was there if the two were exchanged (RENAME_EXCHANGE) */
};

struct undo_replaced {
    struct file_id former, now;
};

#endif
