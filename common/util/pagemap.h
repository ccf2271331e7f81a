/*
 * pagemap.h - PAGEMAP_SCAN (Linux 6.7, Documentation/admin-guide/mm/pagemap.rst) and asynchronous write
 * protection by userfaultfd, with the definitions that older headers lack.
 */
#ifndef BELAY_COMMON_UTIL_PAGEMAP_H
#define BELAY_COMMON_UTIL_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGEMAP_WRITTEN 2u /* not write-protected: written since it was armed, or never armed */
#define PAGEMAP_FILE 4u    /* the file's page, or shared memory: not a private copy */
#define PAGEMAP_PRESENT 8u
#define PAGEMAP_SWAPPED 16u /* in swap, or nothing but a mark that an absent page is armed */
#define PAGEMAP_ZERO 32u    /* the kernel's page of zeros */

struct pagemap_query {
    uint64_t start, end;
    bool arm;      /* write-protect what matches; EPERM where no userfaultfd is registered */
    uint32_t all;  /* categories that a page must have */
    uint32_t any;  /* ... of which it must have one; 0: no condition */
    uint32_t none; /* ... that it must not have */
};

/* Takes ascending ranges; returns 0, or -1 with errno to stop. */
typedef int (*pagemap_found_f)(void *context, uint64_t start, uint64_t end);

/*
 * Scan a process's page table through its /proc/PID/pagemap. Returns 0, or -1 with errno (ENOTTY: the
 * kernel has no PAGEMAP_SCAN).
 */
int pagemap_scan(int pagemap, const struct pagemap_query *query, pagemap_found_f found, void *context);

/* A userfaultfd of the calling process for asynchronous write protection, or -1 with errno. */
int pagemap_make_uffd(void);

/* Register a range of a userfaultfd's process, of whatever mappings. Returns 0 or -1 with errno. */
int pagemap_register(int uffd, uint64_t start, uint64_t end);

/* Pages of a registered range count as written from now on. Returns 0 or -1 with errno. */
int pagemap_disarm(int uffd, uint64_t start, uint64_t end);

/* Undo pagemap_register() and all arming, wherever the range is registered. Returns 0 or -1 with errno. */
int pagemap_unregister(int uffd, uint64_t start, uint64_t end);

/* Whether a page written by this process is found, and armed again: tried, not looked up. */
bool pagemap_scan_works(void);

#endif
