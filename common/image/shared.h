/*
 * shared.h - the image of the objects that the ranks of a node share: each content once.
 *
 * The format is that of a rank's image (image.h) with an artificial address space. A struct shared_table is
 * at SHARED_TABLE_ADDRESS. From SHARED_CONTENTS_ADDRESS on follow the contents of the objects, each in a
 * region of its own, whose path is the object's name. Pages in no run of a region are zeros.
 *
 * The ranks of a node are a group, by the number of the lowest of them. The image's rank is the number of
 * ranks of the job plus that of the group, of twice as many ranks as the job has; the header's group is
 * IMAGE_OF_SHARED.
 *
 * contents of
 *   NAMELESS, NAMED, SEGMENT:  the bytes of the file or segment
 *   SEMS:                      uint16_t values[]
 *   MESSAGES:                  struct shared_message, each followed by its text, padded to 8 bytes
 *   PIPE:                      the bytes in the pipe, in pieces: struct pipe_piece (pipe_content.h)
 *   EVENT:                     its uint64_t count
 */
#ifndef BELAY_COMMON_IMAGE_SHARED_H
#define BELAY_COMMON_IMAGE_SHARED_H

#include <stdint.h>

#include "common/image/layout.h"

#define SHARED_TABLE_ADDRESS UPPER_BASE
#define SHARED_TABLE_BYTES (1ull << 30)
#define SHARED_CONTENTS_ADDRESS (SHARED_TABLE_ADDRESS + SHARED_TABLE_BYTES)
#define SHARED_RECORDS_MAX ((SHARED_TABLE_BYTES - sizeof(struct shared_table)) / sizeof(struct shared_record))

enum shared_kind {
    SHARED_NONE = 0,
    SHARED_NAMELESS = 1, /* a memfd, anonymous memory, a file without a name */
    SHARED_NAMED = 2,    /* a file of a file system in memory, as in /dev/shm */
    SHARED_SEGMENT = 3,  /* System V: memory, ... */
    SHARED_SEMS = 4,     /* ... a set of semaphores, ... */
    SHARED_MESSAGES = 5, /* ... a queue of messages */
    SHARED_PIPE = 6,     /* with ends in several ranks */
    SHARED_EVENT = 7,    /* an eventfd that several ranks have */
};

enum shared_flag {
    SHARED_IS_REMOVED = 1,  /* SEGMENT: by IPC_RMID; it goes with its last mapping */
    SHARED_HAS_SEALS = 2,   /* NAMELESS: `seals` are those of the file */
    SHARED_COUNTS_DOWN = 4, /* EVENT: EFD_SEMAPHORE */
    SHARED_HAS_NO_NAME = 8, /* PIPE: it is no FIFO, or one that was removed */
};

struct shared_record {
    uint32_t kind;           /* enum shared_kind */
    uint32_t flags;          /* enum shared_flag */
    uint32_t mode, uid, gid; /* permissions and owner */
    uint32_t seals;          /* F_SEAL_* */
    uint64_t device, inode;  /* at the line; regions and descriptors of ranks name the object by them */
    uint64_t address;        /* of its contents in this image */
    uint64_t bytes;          /* of its contents */
    int32_t id, kernel_id;   /* System V: as the program knows it; as the kernel did at the line */
    int32_t key;             /* System V */
    uint32_t reserved;       /* 0 */
    uint64_t limit_bytes;    /* MESSAGES: msg_qbytes; PIPE: its capacity */
    uint64_t room_bytes;     /* reserved for it in the image's address space, from `address` on */
    uint64_t file_device;    /* the device that fstat(2) gives, if it differs from `device`; else 0 */
    uint64_t birth_ns;       /* of a file, as of struct file_id */
};

struct shared_table {
    uint64_t count;
    uint64_t
        host; /* on which they were captured (mounts_host()): the kernel's ids are of no use on another */
    struct shared_record records[];
};

struct shared_message {
    int64_t type;
    uint64_t bytes; /* of its text */
};

#endif
