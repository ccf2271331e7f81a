/*
 * vk_undo.h - note what a file is before the application changes it, so that a restart can put it back.
 *
 * Whoever is about to change files on the application's behalf calls these first: the virtual kernel for
 * its system calls, and, through struct gate, the wrappers of MPI-IO. Each is cheap if the file was noted
 * since the last line, safe with either FS base and from several threads, and never fails: a file that
 * cannot be noted is named on standard error and is then not protected. In forked children nothing is
 * done. The log is described in common/wire/undo.h.
 *
 * A line that commits makes older notes needless (the agent removes them); after a line that aborts, those
 * of the line before still stand.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_UNDO_H
#define BELAY_MPI_LAYER_LOWER_VK_UNDO_H

#include <stdbool.h>
#include <stdint.h>

#define VK_UNDO_WHOLE UINT64_MAX      /* as `bytes`: up to the end of the file */
#define VK_UNDO_HERE UINT64_MAX       /* as `offset`: where the descriptor stands, or the end if it appends */
#define VK_UNDO_NEXT (UINT64_MAX - 1) /* ... where it stands, even if it appends */

/*
 * Before the first note: the descriptor of the job's undo folder (-1: there is none, nothing is noted), which
 * stays open, whose log it is, how many bytes of files a rank keeps for a line, and all ranks of the job on
 * this node together (0: no limit).
 */
void vk_undo_start(long folder, uint32_t rank, uint64_t limit_bytes, uint64_t total_bytes);

/* From now on files are noted as of this line. The rank stands still at it, or was restored from it. */
void vk_undo_begin_line(uint64_t line);

/*
 * [offset, offset + bytes) of the file is about to be overwritten, or its length to change: by an open
 * descriptor (of either half) or by a path, relative to the working directory. Anything but a regular file
 * is ignored, and so is a path that does not exist: see vk_undo_open().
 */
void vk_undo_fd(long fd, uint64_t offset, uint64_t bytes);
void vk_undo_path(const char *path, uint64_t offset, uint64_t bytes);

/* Permissions, owner or times of what is there are about to change; `follows`: a symbolic link is followed.
 */
void vk_undo_attributes(long folder, const char *path, bool follows);
void vk_undo_attributes_fd(long fd);

/*
 * A call that changes names: a note before it is made, and vk_undo_changed() with its result. Zeroed, it is
 * none. Paths are relative to their folder (AT_FDCWD: the working directory).
 */
struct vk_undo_change {
    uint64_t created, removed, renamed; /* when that was noted, 0: it was not */
    long folder;
    const char *name;
    bool is_new, is_link, is_nameless;
    long refused; /* 0, or the call's result (-errno): it must not be made */
};

/* ... is about to be opened with these flags. The result is a descriptor. */
void vk_undo_open(struct vk_undo_change *change, long folder, const char *path, long flags);
void vk_undo_opened(const struct vk_undo_change *change, long fd);
/* ... a new file, folder or link is about to be made there; is_link: another name of an old file. */
void vk_undo_create(struct vk_undo_change *change, long folder, const char *path, bool is_link);
/* ... a name is about to be made for a file that has none, maybe (linkat). May set `refused`. */
void vk_undo_link(struct vk_undo_change *change, long from_folder, const char *from, long flags, long folder,
                  const char *path);
/* ... what is there is about to be removed. */
void vk_undo_remove(struct vk_undo_change *change, long folder, const char *path);
/* ... it is about to be renamed; flags are those of renameat2(2). */
void vk_undo_rename(struct vk_undo_change *change, long from_folder, const char *from, long to_folder,
                    const char *to, long flags);
void vk_undo_changed(const struct vk_undo_change *change, long result);

/*
 * An object of System V (enum share_kind) is about to be made with this key, which none has. Returns when
 * that was noted, 0: it was not. Then: it was made under this id of the kernel's (negative: it was not); when
 * 0: without a key.
 */
uint64_t vk_undo_sysv_key(uint32_t kind, int32_t key);
void vk_undo_sysv_made(uint32_t kind, uint64_t when, long kernel_id);

#endif
