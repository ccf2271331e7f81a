/*
 * vk_undo.h - note what a file is before the application changes it, so that a restart can put it back.
 *
 * Whoever is about to change files on the application's behalf calls these first: the virtual kernel for
 * its system calls, and, through struct gate, the wrappers of MPI-IO. Each is cheap if the file was noted
 * since the last line, safe with either FS base and from several threads, and never fails: a file that
 * cannot be noted is named once on standard error and is then not protected. In forked children nothing is
 * done. The log is described in common/wire/undo.h.
 *
 * A line that commits makes older notes needless (the agent removes them); after a line that aborts, those
 * of the line before still stand.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_UNDO_H
#define BELAY_MPI_LAYER_LOWER_VK_UNDO_H

#include <stdbool.h>
#include <stdint.h>

#define VK_UNDO_WHOLE UINT64_MAX /* as `bytes`: up to the end of the file */
#define VK_UNDO_HERE UINT64_MAX  /* as `offset`: where the descriptor stands, or the end if it appends */

/*
 * Before the first note: where the job's undo folder is ("": there is none, nothing is noted), whose log it
 * is, how many bytes of files a rank keeps for a line.
 */
void vk_undo_start(const char *folder, uint32_t rank, uint64_t limit_bytes);

/* From now on files are noted as of this line. The rank stands still at it, or was restored from it. */
void vk_undo_begin_line(uint64_t line);

/*
 * [offset, offset + bytes) of the file is about to be overwritten, or its length to change: by an open
 * descriptor (of either half) or by a path, relative to the working directory. Anything but a regular file
 * is ignored, and so is a path that does not exist: see vk_undo_open().
 */
void vk_undo_fd(long fd, uint64_t offset, uint64_t bytes);
void vk_undo_path(const char *path, uint64_t offset, uint64_t bytes);

/*
 * Path, relative to `folder` (AT_FDCWD: the working directory), is about to be opened with these flags.
 * True if that will create it; vk_undo_created() with the new descriptor then saves notes of what is written.
 */
bool vk_undo_open(long folder, const char *path, long flags);
void vk_undo_created(long fd);
/* ... a new file, folder or link is about to be made there. */
void vk_undo_create(long folder, const char *path);
/* ... what is there is about to be removed. */
void vk_undo_remove(long folder, const char *path);
/* ... it is about to be renamed; flags are those of renameat2(2). */
void vk_undo_rename(long from_folder, const char *from, long to_folder, const char *to, long flags);

/*
 * A watched file is written by this descriptor of the lower half (interpose_file.h), until it is closed: then
 * it has to be forgotten. None is, any more.
 */
void vk_fd_watch(long fd);
bool vk_fd_is_watched(long fd);
void vk_fd_forget(long fd);
void vk_fd_unwatch_all(void);

/* Inside: the log (vk_undo_log.c). With the lock held. */
struct vk_undo_note {
    uint32_t kind, mode; /* see common/wire/undo.h */
    uint64_t offset;
    const char *path; /* absolute */
    const void *data;
    uint64_t data_bytes;
};

void vk_undo_log_start(const char *folder, uint32_t rank);
void vk_undo_log_line(uint64_t line);
/* Append. Returns 0 or -errno; a part that was written is taken back. */
long vk_undo_log(const struct vk_undo_note *note);
/* A path for one more file to be set aside, its number in *number. Returns 0 or -errno. */
long vk_undo_log_kept(char path[], uint64_t *number);
/* The absolute path of an open descriptor, or of `name` relative to a folder. Returns 0 or -errno. */
long vk_undo_path_of_fd(long fd, char path[]);
long vk_undo_absolute(long folder, const char *name, char path[]);
uint64_t vk_text_length(const char *text);

#endif
