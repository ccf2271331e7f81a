/*
 * uffd.h - write protection, and pages that come later, by userfaultfd(2), with the definitions that older
 * headers lack (Documentation/admin-guide/mm/userfaultfd.rst).
 *
 * A process makes the descriptor for its own memory. Any process that has the descriptor chooses the mode,
 * registers ranges and protects them. When the last copy is closed, registration and protection end: a page
 * of a private mapping of a memfd that has not come by then reads as zeros.
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
    UFFD_MODE_GUARD,  /* the same; absent pages can be protected, too (Linux 6.4); moves are not told */
    UFFD_MODE_DEMAND, /* mappings of a memfd: who reads or writes a page waits until uffd_map() has mapped it
                       */
};

/*
 * A userfaultfd of the calling process, without a mode yet; -1 with errno. It also catches writes of the
 * kernel, if this user is allowed to.
 */
int uffd_make(void);

/* The same, but -1 with errno where it would not also catch what the kernel reads and writes. */
int uffd_make_full(void);

/* Set the mode, once. Returns 0 or -1 with errno (EINVAL: the kernel has no such mode). */
int uffd_begin(int uffd, enum uffd_mode mode);

/*
 * Register a range of whole mappings. EINVAL: memory of a kind that the mode cannot protect. Pages of
 * hugetlbfs are refused, too, in the modes that are served. EBUSY: another descriptor has it.
 */
int uffd_register(int uffd, enum uffd_mode mode, uint64_t start, uint64_t end);

/* Undo uffd_register() and all protection of a range that is registered with this descriptor. Returns 0 or -1
 * with errno. */
int uffd_unregister(int uffd, uint64_t start, uint64_t end);

/*
 * Protect pages, or lift their protection and wake the threads that wait for it. Returns 0 or -1 with errno:
 * EAGAIN while the process moves memory; ENOENT not (all) registered, or, before Linux 6.3, of several
 * mappings.
 */
int uffd_protect(int uffd, uint64_t start, uint64_t end, bool is_protected);

/*
 * UFFD_MODE_DEMAND: map the pages of a range that are in the memfd, and wake the threads that wait for them.
 * The range may be of several mappings. Pages that are mapped already, that are not in the memfd, or whose
 * mapping is gone, are left as they are.
 */
void uffd_map(int uffd, uint64_t start, uint64_t end);

/* Let threads that wait for pages of the range try again. */
void uffd_wake(int uffd, uint64_t start, uint64_t end);

/* What was read from the descriptor in the served mode. */
enum uffd_news {
    UFFD_NEWS_NONE = 0, /* nothing (more) to read */
    UFFD_NEWS_WRITE,    /* a writer waits at the page `start`; in UFFD_MODE_DEMAND a reader, too */
    UFFD_NEWS_MOVED,    /* the pages in [start, end) were moved there, with their protection */
};

/* Read one event; the descriptor does not block. A thread that waits for its move to be read goes on. */
enum uffd_news uffd_read(int uffd, uint64_t *start, uint64_t *end);

/* Whether pagemap_scan() finds a page that was written in the asynchronous mode, and arms it again; found out
 * by trying. */
bool uffd_async_works(void);

/* Whether the served mode works here, also for the kernel's writes to protected pages; found out by trying.
 */
bool uffd_served_works(void);
/* The same of the guard mode, with a page that is absent when it is protected, and with pagemap_scan(). */
bool uffd_guard_works(void);
/* The same of the mode for pages that come later, with a private mapping of a memfd, for the kernel as well.
 */
bool uffd_demand_works(void);

#endif
