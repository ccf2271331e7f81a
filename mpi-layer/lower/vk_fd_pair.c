/*
 * vk_fd_pair.c - see vk_fd.h: which two sockets are the ends of a pair.
 *
 * The kernel tells nobody. What is known of a descriptor goes with it when it is closed, but the socket may
 * be on its way through another one and come back under another number: so the newest pairs are remembered by
 * their inodes as well.
 */
#include <sys/stat.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"

#define PAIRS 4096

/* The lower half's: a restart makes other sockets. */
static struct pair {
    uint64_t inodes[2];
} pairs[PAIRS];
static uint64_t pair_count;

static uint64_t inode_of(long fd)
{
    struct stat st;
    return raw2(SYS_fstat, fd, &st) < 0 ? 0 : st.st_ino;
}

void vk_fd_note_pair(const int ends[2])
{
    uint64_t place = __atomic_fetch_add(&pair_count, 1, __ATOMIC_RELAXED) % PAIRS;
    uint64_t first = inode_of(ends[0]), second = inode_of(ends[1]);
    pairs[place] = (struct pair){{first, second}};
    vk_fd_set_hint(ends[0], VK_FD_HINT_OTHER_END(second));
    vk_fd_set_hint(ends[1], VK_FD_HINT_OTHER_END(first));
}

void vk_fd_find_other_end(long fd)
{
    uint64_t inode = vk_fd_other_end(fd) ? 0 : inode_of(fd), count = pair_count;
    for (uint64_t at = 0; inode && at < count && at < PAIRS; at++) {
        const struct pair *pair = &pairs[(count - 1 - at) % PAIRS];
        if (pair->inodes[0] != inode && pair->inodes[1] != inode)
            continue;
        vk_fd_set_hint(fd, VK_FD_HINT_OTHER_END(pair->inodes[pair->inodes[0] == inode]));
        return;
    }
}

uint64_t vk_fd_other_end(long fd)
{
    uint64_t hint = vk_fd_hint(fd);
    return (hint & 0xff) == VK_FD_HINT_OTHER_END(0) ? hint >> 8 : 0;
}
