/* vk_huge.c - memory of huge pages that were set aside (hugetlbfs), whose addresses are multiples of their
 * size. */
#include "mpi-layer/lower/vk_huge.h"

#include <linux/magic.h>
#include <linux/mman.h>
#include <linux/shm.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "mpi-layer/lower/vk.h"

#define MFD_HUGETLB 4u

/* Of a file of hugetlbfs; 0: it is none. */
static uint64_t file_page_bytes(long fd)
{
    struct statfs fs;
    return raw2(SYS_fstatfs, fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : 0;
}

static uint64_t default_page_bytes(void)
{
    long fd = raw2(SYS_memfd_create, "", MFD_HUGETLB);
    uint64_t bytes = fd >= 0 ? file_page_bytes(fd) : 0;
    if (fd >= 0)
        raw1(SYS_close, fd);
    return bytes;
}

uint64_t vk_huge_bytes(long flags, long fd)
{
    unsigned size = (unsigned)(flags >> MAP_HUGE_SHIFT) & MAP_HUGE_MASK;
    if (!(flags & MAP_ANONYMOUS))
        return file_page_bytes(fd);
    if (!(flags & MAP_HUGETLB))
        return 0;
    return size ? 1ul << size : default_page_bytes();
}

/* A line could not put back what is in it: such a file takes no write(2). One without a name is memory. */
bool vk_huge_is_refused(long prot, long flags, long fd)
{
    struct stat st;
    bool is_kept = (flags & (MAP_TYPE | MAP_ANONYMOUS)) == MAP_PRIVATE || (flags & MAP_ANONYMOUS) ||
                   !(prot & PROT_WRITE);
    if (is_kept || !vk_is_rank() || raw2(SYS_fstat, fd, &st) < 0 || st.st_nlink == 0)
        return false;
    vk_say("the program wants to share a file of huge pages (hugetlbfs), which a restart could not put back: "
           "refused "
           "(ENODEV); map it with MAP_PRIVATE, or anonymous memory with MAP_SHARED",
           0, "");
    return true;
}

/* Segments of System V have ordinary pages. */
long vk_huge_segment_flags(long flags)
{
    static uint32_t told;
    if ((flags & SHM_HUGETLB) && vk_is_rank()) {
        if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
            vk_say("segments of System V (SHM_HUGETLB) have ordinary pages under Belay, no huge ones", 0, "");
        flags &= ~(SHM_HUGETLB | (SHM_HUGE_MASK << SHM_HUGE_SHIFT));
    }
    return flags;
}
