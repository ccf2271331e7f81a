/* vk_undo_facts.c - what is known of a file; see vk_undo_note.h. */
#include "mpi-layer/lower/vk_undo_note.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_held.h"

const char vk_undo_itself[] = "";

long vk_undo_look(long folder, const char *name, struct vk_undo_facts *facts)
{
    struct statx st;
    long flags = AT_SYMLINK_NOFOLLOW | (name == vk_undo_itself ? AT_EMPTY_PATH : 0);
    long result = raw_syscall(SYS_statx, folder, (long)name, flags, FILE_ID_MASK, (long)&st, 0);
    if (result < 0)
        return result;
    facts->id = file_id_from(&st);
    facts->bytes = st.stx_size;
    facts->disk_bytes = st.stx_blocks * 512;
    facts->links = st.stx_nlink;
    facts->gid = st.stx_gid;
    return 0;
}

struct undo_attributes vk_undo_attributes_of(long folder, const char *name)
{
    struct statx st;
    long flags = AT_SYMLINK_NOFOLLOW | (name == vk_undo_itself ? AT_EMPTY_PATH : 0);
    if (raw_syscall(SYS_statx, folder, (long)name, flags, FILE_ID_MASK | STATX_MTIME | STATX_ATIME, (long)&st,
                    0) < 0)
        return (struct undo_attributes){.changed_ns = UTIME_OMIT, .read_ns = UTIME_OMIT};
    return (struct undo_attributes){.mode = st.stx_mode & 07777u,
                                    .uid = st.stx_uid,
                                    .gid = st.stx_gid,
                                    .changed_s = st.stx_mtime.tv_sec,
                                    .changed_ns = st.stx_mtime.tv_nsec,
                                    .read_s = st.stx_atime.tv_sec,
                                    .read_ns = st.stx_atime.tv_nsec};
}

bool vk_undo_is_lost(const struct vk_undo_facts *facts)
{
    return facts->links == 0 && !vk_held_is(&facts->id);
}

bool vk_undo_is_of_the_kernel(long fd)
{
    static const uint32_t types[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,        DEBUGFS_MAGIC,
                                     TRACEFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC};
    struct statfs fs;
    bool is_one = false;
    if (raw2(SYS_fstatfs, fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        is_one |= (uint32_t)fs.f_type == types[i];
    return is_one;
}
