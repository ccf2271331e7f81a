/*
 * file_id.h - the identity of a file, independent of its name: so that another file at the same path is not
 * taken for it.
 *
 * Device and inode tell apart the files that exist at a time; a file that is made later may get the inode
 * number of one that was removed. So the time of birth belongs to the identity where the file system knows it
 * (statx(2): ext4, XFS, Btrfs, tmpfs and others, NFS 4.2 only in newer kernels), elsewhere the owner does.
 *
 * struct file_id is part of the undo log and of a rank's saved memory: a change raises their versions. The
 * header needs no C library.
 */
#ifndef BELAY_COMMON_UTIL_FILE_ID_H
#define BELAY_COMMON_UTIL_FILE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct file_id {
    uint64_t device;   /* major number << 32 | minor number */
    uint64_t inode;    /* 0: no file */
    uint64_t birth_ns; /* since 1970; 0: not known */
    uint32_t uid;      /* of its owner */
    uint32_t mode;     /* type and permissions */
};

/* The mask for statx(2). Times of change are left out: asking for them makes later writes slow. */
#define FILE_ID_MASK                                                                                         \
    (STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_GID | STATX_INO | STATX_SIZE | STATX_BLOCKS | \
     STATX_BTIME)

static inline struct file_id file_id_from(const struct statx *st)
{
    bool has_birth = st->stx_mask & STATX_BTIME;
    return (struct file_id){
        .device = (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor,
        .inode = st->stx_ino,
        .birth_ns = has_birth ? (uint64_t)st->stx_btime.tv_sec * 1000000000u + st->stx_btime.tv_nsec : 0,
        .uid = st->stx_uid,
        .mode = st->stx_mode,
    };
}

/* Owner and permissions of the same file may have changed meanwhile. */
static inline bool file_id_is_same(const struct file_id *one, const struct file_id *other)
{
    if (one->inode != other->inode || one->device != other->device || !one->inode ||
        (one->mode & S_IFMT) != (other->mode & S_IFMT))
        return false;
    return one->birth_ns && other->birth_ns ? one->birth_ns == other->birth_ns : one->uid == other->uid;
}

/*
 * The identity of what is at `name` in a folder (links are not followed); of the descriptor itself if name is
 * "". Returns 0 or -1 with errno.
 */
int file_id_at(int folder, const char *name, struct file_id *id);

/* Does this absolute path lead to the file now (a link at its end is not followed)? False for other paths. */
bool file_id_is_named(const struct file_id *id, const char *path);

/*
 * Is what is open what a name in a folder stands for now (links are not followed)? A lock is none if another
 * file, or no file, has the name since: whoever held it before has removed the file.
 */
bool file_id_is_at(int fd, int folder, const char *name);

/*
 * Does a descriptor stand for the file that this was the identity of? Like file_id_is_same(), but a network
 * file system may have been mounted again meanwhile, which gives it another device number.
 */
bool file_id_is_of(const struct file_id *id, int fd);

/*
 * Is the file on a file system of the network? Each host that mounts one gives it a device number of its own.
 */
bool file_id_is_on_network(int fd);

/*
 * A descriptor (O_PATH) of the folder at an absolute path in which nothing is a symbolic link, `length` bytes
 * of it (0: "/"). -1 with errno: ELOOP: there is one.
 */
int file_id_open_folder(const char *path, size_t length);

/*
 * A descriptor (O_PATH) of the file that is_it() accepts: at `name` in a folder or, if that is another one or
 * none, elsewhere in the same folder, as after the rotation of a log. -1 with ENOENT: it is not there.
 */
typedef bool file_id_is_it_f(const void *context, int fd);
int file_id_find(int folder, const char *name, uint64_t inode, file_id_is_it_f *is_it, const void *context);

/* Open the file of an O_PATH descriptor. -1 with errno. */
int file_id_reopen(int fd, int flags);
/* ... also if the user, who owns it, may not: it was opened before that right was taken away. */
int file_id_reopen_own(int fd, int flags);

#endif
