/*
 * uffd.h - write protection by userfaultfd(2), with the definitions that older headers lack
 * (Documentation/admin-guide/mm/userfaultfd.rst).
 *
 * A process makes the descriptor for its own memory; whoever has it, in whatever process, says how it is to
 * be used, registers ranges and protects them. With its last copy all of that ends.
 */
#ifndef BELAY_COMMON_UTIL_UFFD_H
#define BELAY_COMMON_UTIL_UFFD_H

#include <stdbool.h>
#include <stdint.h>

/* How a write to a protected page is treated. */
enum uffd_mode {
    UFFD_MODE_NONE = 0,
    UFFD_MODE_ASYNC,  /* the kernel lifts the protection (Linux 6.7); absent pages can be protected, too */
    UFFD_MODE_SERVED, /* the writer waits until a reader of the descriptor lifts it; also told: mremap() */
};

/*
 * A userfaultfd of the calling process, not begun; -1 with errno. For writes of the kernel as well, where
 * this user may have that.
 */
int uffd_make(void);

/* Say, once, how it is used. Returns 0 or -1 with errno (EINVAL: the kernel has no such mode). */
int uffd_begin(int uffd, enum uffd_mode mode);

/*
 * Register a range of whole mappings. EINVAL: memory of a kind that the mode cannot protect. Pages of
 * hugetlbfs are refused, too, in the served mode.
 */
int uffd_register(int uffd, enum uffd_mode mode, uint64_t start, uint64_t end);

/* Undo uffd_register() and all protection, wherever the range is registered. Returns 0 or -1 with errno. */
int uffd_unregister(int uffd, uint64_t start, uint64_t end);

/*
 * Protect pages, or lift their protection and wake who waits for that. Returns 0 or -1 with errno: EAGAIN
 * while the process moves memory; ENOENT not (all) registered, or, before Linux 6.3, of several mappings.
 */
int uffd_protect(int uffd, uint64_t start, uint64_t end, bool is_protected);

/* Let those who wait for pages of the range try again. */
void uffd_wake(int uffd, uint64_t start, uint64_t end);

/* What was read from the descriptor in the served mode. */
enum uffd_news {
    UFFD_NEWS_NONE = 0, /* nothing (more) to read */
    UFFD_NEWS_WRITE,    /* somebody waits at the page `start` */
    UFFD_NEWS_MOVED,    /* what is in [start, end) now came from elsewhere, protected as it was there */
};

/* Read one; the descriptor does not block. Who waits for a move to be read goes on. */
enum uffd_news uffd_read(int uffd, uint64_t *start, uint64_t *end);

/* Whether pagemap_scan() finds a page that was written in the asynchronous mode, and arms it again: tried. */
bool uffd_async_works(void);

/* Whether the served mode works here, the kernel's own writes to protected pages included: tried. */
bool uffd_served_works(void);

#endif
