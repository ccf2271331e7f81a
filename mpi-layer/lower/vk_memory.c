/* vk_memory.c - where the application's mappings go: mmap, munmap, brk, mremap. */
#include "mpi-layer/lower/vk_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <linux/stat.h>
#include <stddef.h>
#include <sys/shm.h>
#include <sys/stat.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_hold.h"
#include "mpi-layer/lower/vk_huge.h"
#include "mpi-layer/lower/vk_image.h"
#include "mpi-layer/lower/vk_lease.h"
#include "mpi-layer/lower/vk_lock.h"
#include "mpi-layer/lower/vk_maps.h"
#include "mpi-layer/lower/vk_move.h"
#include "mpi-layer/lower/vk_patch.h"
#include "mpi-layer/lower/vk_place.h"
#include "mpi-layer/lower/vk_undo.h"

#ifndef MAP_ABOVE4G
#define MAP_ABOVE4G 0x80
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
static bool is_name(const char *path, const char *name)
{
    while (*name && *path == *name)
        path++, name++;
    return !*name;
}

/* Only C libraries and their loader hold system calls worth patching: others call them. */
static bool is_c_library(long fd)
{
    char link[32] = "/proc/self/fd/", path[512];
    int used = 14;
    char digits[12];
    int count = 0;
    do
        digits[count++] = (char)('0' + fd % 10);
    while ((fd /= 10) > 0);
    while (count > 0)
        link[used++] = digits[--count];
    link[used] = 0;
    long length = raw3(SYS_readlink, link, path, sizeof path - 1);
    if (length <= 0)
        return false;
    path[length] = 0;
    const char *base = path;
    for (long i = 0; i < length; i++)
        if (path[i] == '/')
            base = path + i + 1;
    return is_name(base, "libc.so") || is_name(base, "libc-2.") || is_name(base, "libpthread") ||
           is_name(base, "ld-linux");
}

/* Never look at pages behind the end of the file: ld.so maps a library's whole span first (SIGBUS). */
static void patch_mapped(long at, uint64_t bytes, long prot, long fd, long offset)
{
    struct stat st;
    if (!is_c_library(fd) || raw2(SYS_fstat, fd, &st) < 0 || st.st_size <= offset)
        return;
    uint64_t valid = (uint64_t)(st.st_size - offset);
    if (!vk_patch((uint8_t *)at, valid < bytes ? valid : bytes, prot))
        raw_syscall(SYS_mmap, at, (long)bytes, prot, MAP_PRIVATE | MAP_FIXED, fd, offset);
}

/* At an address of the program's choice. What is the lower half's is not given away, and the program told. */
static long map_fixed(uint64_t addr, uint64_t bytes, long prot, long flags, long fd, long offset)
{
    if (!vk_is_reserved(addr, bytes) && !(flags & MAP_FIXED_NOREPLACE))
        vk_hold(addr, bytes);
    if (!vk_is_reserved(addr, bytes))
        return raw_syscall(SYS_mmap, (long)addr, (long)bytes, prot, flags, fd, offset);
    if (flags & MAP_FIXED_NOREPLACE)
        return -EEXIST;
    vk_say("the program wants to map memory at ", addr,
           ", where Belay has its own half of the process: refused (ENOMEM)");
    return -ENOMEM;
}

/*
 * At the address that the program would like, if it is free; -1: it is not. Files go elsewhere: a library
 * that was linked for an address (prelink) has system calls, which are known by where they are.
 */
static long map_hinted(uint64_t hint, uint64_t bytes, long prot, long flags, long fd, long offset)
{
    uint64_t addr = VK_PAGE_UP(hint), high = flags & MAP_32BIT ? UPPER_LOW_MAP_END : LAYOUT_END;
    bool is_file_elsewhere = !(flags & MAP_ANONYMOUS) && (addr < UPPER_BASE || addr >= UPPER_END);
    if (!addr || is_file_elsewhere || addr + bytes < addr || addr + bytes > high ||
        vk_is_reserved(addr, bytes))
        return -1;
    long result =
        raw_syscall(SYS_mmap, (long)addr, (long)bytes, prot, flags | MAP_FIXED_NOREPLACE, fd, offset);
    return result < 0 ? -1 : result;
}

/* Huge pages that were set aside: where they may lie, in lengths of their own. */
static long map_huge(uint64_t bytes, long prot, long flags, long fd, long offset)
{
    uint64_t page = vk_huge_bytes(flags, fd);
    return page ? vk_place_anon((bytes + page - 1) & ~(page - 1), prot, flags, fd, offset, page) : -EINVAL;
}

static long map_anywhere(uint64_t bytes, long prot, long flags, long fd, long offset)
{
    long result = -ENOMEM;
    if (flags & MAP_32BIT)
        return vk_place(VK_PLACE_LOW, bytes, prot, flags & ~MAP_32BIT, fd, offset, MAP_PAGE_BYTES);
    if (flags & MAP_ANONYMOUS && flags & MAP_HUGETLB)
        return map_huge(bytes, prot, flags, fd, offset);
    if (!(flags & MAP_ANONYMOUS))
        result = vk_place(VK_PLACE_FILES, bytes, prot, flags, fd, offset, MAP_PAGE_BYTES);
    if (result == -ENOMEM)
        result = vk_place_anon(bytes, prot, flags, fd, offset, vk_place_alignment(bytes));
    if (result == -EINVAL && !(flags & MAP_ANONYMOUS))
        result = map_huge(bytes, prot, flags, fd, offset);
    return result;
}

/*
 * What is written through a shared mapping is not seen: the whole file is noted, when it can be written.
 * Mapped of a descriptor that may not write, it never becomes writable.
 */
static void note_shared(long prot, long flags, long fd)
{
    bool is_file = !(flags & MAP_ANONYMOUS);
    bool may_write = !is_file || (raw3(SYS_fcntl, fd, F_GETFL, 0) & O_ACCMODE) == O_RDWR;
    if (may_write)
        VK->may_share = 1;
    if (!is_file)
        return;
    VK->has_shared_files = 1;
    if (prot & PROT_WRITE) {
        vk_lease_check();
        vk_undo_fd(fd, 0, VK_UNDO_WHOLE);
    } else if (!VK->has_late_writers && may_write) {
        VK->has_late_writers = 1;
        vk_trap_mprotect();
    }
}

long vk_mprotect(long nr, const long args[6])
{
    static char path[VK_MAPS_PATH_BYTES];
    static uint32_t lock;
    struct vk_part part;
    uint64_t end = (uint64_t)args[0] + VK_PAGE_UP((uint64_t)args[1]), at = (uint64_t)args[0];
    for (; vk_is_rank() && at < end && vk_maps_find(at, end, VK_MAPS_ANY, &part); at = part.end) {
        if (part.is_private || !part.inode || (part.prot & PROT_WRITE))
            continue;
        while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
            raw0(SYS_sched_yield);
        if (vk_maps_path(part.start, path))
            vk_undo_path(path, 0, VK_UNDO_WHOLE);
        __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    }
    return raw4(nr, args[0], args[1], args[2], args[3]);
}

/*
 * MAP_SHARED_VALIDATE refuses flags that it does not know, and MAP_FIXED_NOREPLACE, by which we choose the
 * place, is one of these. So we do what it asks for: the flags with MAP_SHARED, or -EOPNOTSUPP. MAP_SYNC
 * fails as on a file system without DAX.
 */
static long validated(long flags)
{
    const long known = MAP_TYPE | MAP_FIXED | MAP_ANONYMOUS | MAP_32BIT | MAP_ABOVE4G | MAP_GROWSDOWN |
                       MAP_DENYWRITE | MAP_EXECUTABLE | MAP_LOCKED | MAP_NORESERVE | MAP_POPULATE |
                       MAP_NONBLOCK | MAP_STACK | MAP_HUGETLB | (long)MAP_HUGE_MASK << MAP_HUGE_SHIFT;
    if ((flags & MAP_TYPE) != MAP_SHARED_VALIDATE || (flags & MAP_ANONYMOUS))
        return flags;
    return flags & ~known ? -EOPNOTSUPP : (flags & ~MAP_TYPE) | MAP_SHARED;
}

long vk_mmap(uint64_t addr, uint64_t bytes, long prot, long flags, long fd, long offset)
{
    long result = -1;
    bool is_file = !(flags & MAP_ANONYMOUS);
    if (!bytes)
        return -EINVAL;
    if ((flags = validated(flags)) < 0)
        return flags;
    bool is_huge = vk_huge_bytes(flags, fd) > 0;
    if (is_huge && is_file && vk_huge_is_refused(prot, flags, fd))
        return -ENODEV;
    flags |= vk_lock_flags();
    if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
        result = map_fixed(addr, bytes, prot, flags, fd, offset);
    else if ((result = map_hinted(addr, bytes, prot, flags, fd, offset)) == -1)
        result = map_anywhere(bytes, prot, flags, fd, offset);
    if (!(flags & MAP_LOCKED))
        result = vk_lock_mapped(result, bytes);
    if ((flags & MAP_GROWSDOWN) || is_huge || ((flags & MAP_LOCKED) && !VK->lock_all))
        VK->has_advice = 1;
    if (result > 0 && (prot & PROT_EXEC) && !(flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE) &&
        VK->is_patching)
        patch_mapped(result, bytes, prot, fd, offset);
    if (result > 0 && (flags & MAP_TYPE) != MAP_PRIVATE)
        note_shared(prot, flags, fd);
    return result;
}

/* The last mapping given back makes its place the next one again: long runs reuse addresses. */
long vk_munmap(uint64_t addr, uint64_t bytes)
{
    if (vk_is_reserved(addr, bytes))
        return -EINVAL;
    vk_hold(addr, bytes);
    long result = raw2(SYS_munmap, addr, bytes);
    uint64_t end = addr + VK_PAGE_UP(bytes);
    if (result == 0 && addr >= UPPER_ANON)
        __atomic_compare_exchange_n(&VK->next_anon, &end, addr, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return result;
}

/* At a place of ours. The id is the kernel's. */
long vk_shmat(long id, uint64_t addr, long flags)
{
    struct shmid_ds segment;
    long result = raw3(SYS_shmctl, id, IPC_STAT, &segment);
    if (result < 0 || (addr && vk_is_reserved(addr, segment.shm_segsz)))
        return result < 0 ? result : -EINVAL;
    VK->may_share = 1;
    if (addr && (flags & SHM_REMAP))
        vk_hold(addr, segment.shm_segsz);
    if (addr)
        return vk_lock_mapped(raw3(SYS_shmat, id, addr, flags), segment.shm_segsz);
    long at = vk_place(VK_PLACE_ANON, segment.shm_segsz, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, MAP_PAGE_BYTES);
    if (at < 0)
        return at;
    result = raw3(SYS_shmat, id, at, flags | SHM_REMAP);
    if (result < 0)
        raw2(SYS_munmap, at, segment.shm_segsz);
    return vk_lock_mapped(result, segment.shm_segsz);
}

void vk_brk_begin(uint64_t start)
{
    VK->brk = VK->brk_start = start;
}

static long grow_brk(uint64_t at, uint64_t bytes)
{
    long flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | vk_lock_flags();
    long result = raw_syscall(SYS_mmap, (long)at, (long)bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return flags & MAP_LOCKED ? result : vk_lock_mapped(result, bytes);
}

long vk_brk(uint64_t end)
{
    if (end < VK->brk_start || end > VK->brk_end)
        return (long)VK->brk;
    uint64_t old_page = VK_PAGE_UP(VK->brk), new_page = VK_PAGE_UP(end);
    if (new_page > old_page) {
        if (vk_is_reserved(old_page, new_page - old_page) || grow_brk(old_page, new_page - old_page) < 0)
            return (long)VK->brk;
    } else if (new_page < old_page) {
        vk_hold(new_page, old_page - new_page);
        raw2(SYS_munmap, new_page, old_page - new_page);
    }
    VK->brk = end;
    return (long)end;
}

/* The range could be one anonymous mapping: *prot. */
static bool is_like_one(uint64_t old, uint64_t bytes, long *prot)
{
    struct vk_part part;
    uint64_t at = old;
    for (; at < old + bytes && vk_maps_find(at, old + bytes, VK_MAPS_ANY, &part); at = part.end) {
        bool is_first = at == old;
        if (part.start != at || part.inode || !part.is_private || (!is_first && part.prot != *prot))
            return false;
        *prot = part.prot;
    }
    return at == old + bytes;
}

/* What is one mapping for the program may be several; `to` is ours. */
static long move_whole(uint64_t old, uint64_t bytes, long flags, uint64_t to)
{
    struct vk_part part;
    long prot;
    bool is_one =
        vk_maps_find(old, old + bytes, VK_MAPS_ANY, &part) && part.start == old && part.end == old + bytes;
    return is_one || is_like_one(old, bytes, &prot) ? vk_move(old, bytes, flags | MREMAP_FIXED, to) : -EFAULT;
}

/*
 * Move and resize what the kernel would not, since it is several mappings; `to` is ours. The kernel has moved
 * none of them: it does not move several to a place of another length.
 */
static long move_resized(uint64_t old, uint64_t old_bytes, uint64_t bytes, long flags, uint64_t to)
{
    long prot = PROT_NONE;
    if (!is_like_one(old, old_bytes, &prot))
        return -EFAULT;
    long result = raw_syscall(SYS_mmap, (long)to, (long)bytes, prot,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    uint64_t moved = old_bytes < bytes ? old_bytes : bytes;
    if (result >= 0)
        result = vk_move(old, moved, flags | MREMAP_FIXED, to);
    if (result >= 0 && old_bytes > moved)
        raw2(SYS_munmap, old + moved, old_bytes - moved);
    return result;
}

/* To a place of the program's own choice. */
static long move_to(uint64_t old, uint64_t old_bytes, uint64_t bytes, long flags, uint64_t wanted)
{
    uint64_t length = VK_PAGE_UP(bytes);
    if (vk_is_reserved(wanted, length))
        return -ENOMEM;
    bool is_plain = length && length == VK_PAGE_UP(old_bytes) && !((old | wanted) & (MAP_PAGE_BYTES - 1)) &&
                    (old + length <= wanted || wanted + length <= old);
    if (is_plain)
        return vk_move(old, length, flags, wanted);
    return raw_syscall(SYS_mremap, (long)old, (long)old_bytes, (long)bytes, flags, (long)wanted, 0);
}

static long move_to_reserved(uint64_t old, uint64_t old_bytes, uint64_t bytes, long flags, uint64_t to)
{
    uint64_t old_length = VK_PAGE_UP(old_bytes), length = VK_PAGE_UP(bytes);
    if (old_length == length && !(old & (MAP_PAGE_BYTES - 1)))
        return move_whole(old, length, flags, to);
    long result =
        raw_syscall(SYS_mremap, (long)old, (long)old_bytes, (long)bytes, flags | MREMAP_FIXED, (long)to, 0);
    return result == -EFAULT ? move_resized(old, old_length, length, flags, to) : result;
}

/* Not every tracker sees it. */
static long note_move(long result, uint64_t old, uint64_t bytes)
{
    if (result > 0 && (uint64_t)result != old && VK->pid == VK->rank_pid)
        control_note_move(&GATE->control->moves, (uint64_t)result, (uint64_t)result + VK_PAGE_UP(bytes));
    return result;
}

static long move(uint64_t old, uint64_t old_bytes, uint64_t bytes, long flags, uint64_t wanted)
{
    if (flags & MREMAP_FIXED)
        return move_to(old, old_bytes, bytes, flags, wanted);
    if (!(flags & MREMAP_MAYMOVE))
        return raw_syscall(SYS_mremap, (long)old, (long)old_bytes, (long)bytes, flags, (long)wanted, 0);
    long result = -1;
    if (!(flags & MREMAP_DONTUNMAP)) /* which wants it moved in any case */
        result = raw_syscall(SYS_mremap, (long)old, (long)old_bytes, (long)bytes, 0, 0, 0);
    if (result > 0)
        return result;
    /* It has to move: reserve a place of ours and move there. */
    long at = vk_place_anon(bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0,
                            vk_place_alignment(bytes));
    if (at < 0)
        return at;
    result = move_to_reserved(old, old_bytes, bytes, flags, (uint64_t)at);
    if (result < 0)
        raw2(SYS_munmap, at, bytes);
    return result;
}

long vk_mremap(uint64_t old, uint64_t old_bytes, uint64_t bytes, long flags, uint64_t wanted)
{
    if (flags & ~(long)(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP))
        return -EINVAL;
    if (vk_is_reserved(old, old_bytes))
        return -EFAULT;
    vk_hold(0, UINT64_MAX); /* neighbours that the kernel merges with what is moved lose their protection */
    long left = vk_image_is_used() ? vk_image_leave(old, old_bytes) : 0;
    return left < 0 ? left : note_move(move(old, old_bytes, bytes, flags, wanted), old, bytes);
}
