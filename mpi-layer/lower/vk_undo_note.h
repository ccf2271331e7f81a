/*
 * vk_undo_note.h - what the files vk_undo*.c share: the table of noted files, the places of names, the log.
 *
 * The functions are called with the lock held (vk_undo_lock()), but for those that are said to need none.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_UNDO_NOTE_H
#define BELAY_MPI_LAYER_LOWER_VK_UNDO_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/undo.h"

/* ---- what is known of a file (vk_undo_facts.c) ---- */

/* What is known of a file, a folder, a link or another object that has a name. */
struct vk_undo_facts {
    struct file_id id;
    uint64_t bytes, disk_bytes; /* its length; the room that it takes */
    uint32_t links, gid;
};

/*
 * Look at `name` in a folder, not following a link; with the name vk_undo_itself, at the descriptor itself.
 * The name may be a pointer of the application's that leads nowhere. Returns 0 or -errno. Needs no lock.
 */
extern const char vk_undo_itself[];
long vk_undo_look(long folder, const char *name, struct vk_undo_facts *facts);

/* Permissions, owner and times of a file. Asked for once for a file and line: see FILE_ID_MASK. */
struct undo_attributes vk_undo_attributes_of(long folder, const char *name);

/* No path leads to the file, and it was not there at the line; or its content is in the image. */
bool vk_undo_is_lost(const struct vk_undo_facts *facts);
/* Files in which the kernel tells and takes settings (/proc, /sys): they hold nothing that could be kept. */
bool vk_undo_is_of_the_kernel(long fd);

/* ---- the lock (vk_undo.c) ---- */

bool vk_undo_is_active(void);
/*
 * Blocks all signals: a handler that writes to a file would wait for the lock that its own thread holds.
 * Returns the former mask.
 */
uint64_t vk_undo_lock(void);
void vk_undo_unlock(uint64_t mask);

/*
 * Run a function in a process that shares this memory and has descriptors of its own. It may open and close
 * files without the loss of the locks (fcntl) that the rank has on them.
 */
void vk_undo_aside(void (*what)(const void *with), const void *with);

/* ---- the table of files (vk_undo_files.c) ---- */

/* A file that was noted since the line. */
struct vk_undo_file {
    struct vk_undo_file *next;
    struct file_id id;
    uint64_t length;     /* when it was noted */
    uint64_t *blocks;    /* one bit for each block that was kept; NULL: none */
    uint32_t shift;      /* log2 of a block's bytes */
    bool is_new;         /* it was made since the line */
    bool is_settled;     /* nothing more has to be noted: it is new, or cannot be protected */
    bool has_attributes; /* they were noted */
};

/* A new line: the table is empty, and its memory is used again. */
void vk_undo_files_line(void);
/* Zeroed memory that lasts as long as the table; NULL: there is none left. */
void *vk_undo_alloc(uint64_t bytes);
/* NULL: the file was not noted. Needs no lock: files are added, never freed while threads run. */
struct vk_undo_file *vk_undo_find(const struct file_id *id);
/* NULL: no memory. */
struct vk_undo_file *vk_undo_add(const struct vk_undo_facts *facts);
/* A file was made since the line, so nothing of it has to be kept / is it such a file? / its name goes. */
void vk_undo_add_new(const struct vk_undo_facts *facts);
bool vk_undo_is_new(const struct vk_undo_facts *facts);
void vk_undo_forget(const struct vk_undo_facts *facts);

/* ---- what cannot be protected (vk_undo_warn.c) ---- */

/* Why a file cannot be put back. */
enum vk_undo_reason {
    VK_UNDO_NO_REASON = 0,
    VK_UNDO_UNREADABLE,
    VK_UNDO_LIMIT,
    VK_UNDO_TOTAL,
    VK_UNDO_FULL,
    VK_UNDO_MEMORY,
    VK_UNDO_NOT_WRITTEN,
    VK_UNDO_NO_PATH,
    VK_UNDO_FOREIGN,
    VK_UNDO_NOT_KEPT,
    VK_UNDO_LENGTH,
    VK_UNDO_REASONS
};
/* Why a file is not protected if the log could not take its entry (-errno). */
enum vk_undo_reason vk_undo_reason_of(long error);
/*
 * The file is not protected: tell the user, once for each reason, and note it in the log. The path may be
 * the application's.
 */
void vk_undo_give_up(const char *path, const struct file_id *id, enum vk_undo_reason reason);

/* ---- room (vk_undo_room.c) ---- */

/* The limits of this rank for a line, and of all ranks of the job on this node together (0: no limit). */
void vk_undo_room_start(uint64_t limit_bytes, uint64_t total_bytes);
void vk_undo_room_line(void);
/* Take room for so many bytes more of this line. Else returns why they must not be kept. */
enum vk_undo_reason vk_undo_take_room(uint64_t bytes);

/* ---- the log (vk_undo_log.c) ---- */

struct vk_undo_note {
    uint32_t kind, mode; /* see common/wire/undo.h */
    uint64_t offset, extent;
    struct file_id id, folder;
    const char *path; /* absolute */
    const void *data[2];
    uint64_t data_bytes[2];
};

void vk_undo_log_start(long folder, uint32_t rank);
void vk_undo_log_line(uint64_t line);
/* Append an entry. Returns its time_ns, or -errno; a part that was written is taken back. */
long vk_undo_log(const struct vk_undo_note *note);
/* The folder of this line, made if need be: a descriptor (O_PATH), or -errno. */
long vk_undo_log_folder(void);
/* A name in it for one more file to be set aside, its number in *number. */
void vk_undo_log_kept(char name[UNDO_KEPT_NAME_BYTES], uint64_t *number);

/* The folder of the job, and a name in it for a held file (vk_held.h), until the job ends. 0 or -errno. */
long vk_undo_log_job(void);
long vk_undo_log_held(uint64_t inode, char name[UNDO_KEPT_NAME_BYTES]);

uint64_t vk_text_length(const char *text);
char *vk_text_put(char *at, const char *text);
char *vk_text_put_number(char *at, uint64_t number);

/* ---- beyond the program's limit of the length of files (vk_undo_append.c) ---- */

/*
 * Append to a file, which is `end` bytes long. Returns 0 or -errno (EFBIG: the hard limit forbids it); a part
 * that was written is taken back.
 */
struct iovec;
long vk_undo_append(long fd, uint64_t end, const struct iovec *parts, long count);
/* This process may write files of so many bytes. In vk_undo_aside() the limit is raised. 0 or -EFBIG. */
long vk_undo_lift_limit(uint64_t bytes);

/* ---- names for files without one (vk_undo_link.c) ---- */

/* Another name was made for the file with these facts. */
struct vk_undo_change;
void vk_undo_keep_link(const struct vk_undo_change *change, const struct vk_undo_facts *facts);

/* ---- places (vk_undo_place.c) ---- */

struct vk_undo_place {
    long fd; /* of the folder (O_PATH), -1: not open */
    char name[256];
    struct file_id folder;
    char path[UNDO_PATH_BYTES]; /* absolute; no folder in it is a symbolic link */
};

/*
 * Find the place of `name`, which is relative to a folder. vk_undo_leave() the place. Returns 0 or -errno:
 * EINVAL for a name that no call can change ("..", "/"), ENAMETOOLONG for a path that is longer than a log
 * takes.
 */
long vk_undo_place(long folder, const char *name, struct vk_undo_place *place);
void vk_undo_leave(struct vk_undo_place *place);
/* Where an open descriptor's file is; the folder is not opened. Returns 0 or -errno. */
long vk_undo_place_of_fd(long fd, struct vk_undo_place *place);

/* ---- data (vk_undo_keep.c) ---- */

/* A range of a file that is about to be lost. */
struct vk_undo_range {
    struct vk_undo_file *file;
    long reader;
    bool is_lent; /* the reader is the application's: its position stays as it is */
    const struct vk_undo_place *place;
};

/* Data on their way to the log. */
extern char vk_undo_buffer[UNDO_DATA_BYTES];

/* Append an entry about the file. False: that was impossible, and the file is given up. */
bool vk_undo_keep_note(const struct vk_undo_range *range, struct vk_undo_note *what);
/* The contents [from, to) that the file had at the line are about to be lost. */
void vk_undo_keep_range(const struct vk_undo_range *range, uint64_t from, uint64_t to);
/* Has everything been kept that has to be, of this range? Needs no lock. */
bool vk_undo_is_kept(const struct vk_undo_file *file, uint64_t from, uint64_t to);
/* The range's file cannot be protected. */
void vk_undo_give_up_file(const struct vk_undo_range *range, enum vk_undo_reason reason);

#endif
