/*
 * pagemap.h - what /proc/PID/pagemap tells of a process's pages: PAGEMAP_SCAN (Linux 6.7,
 * Documentation/admin-guide/mm/pagemap.rst), with the definitions that older headers lack, and its entries.
 */
#ifndef BELAY_COMMON_UTIL_PAGEMAP_H
#define BELAY_COMMON_UTIL_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGEMAP_TRACKED 1u /* in a mapping with a userfaultfd for asynchronous write protection */
#define PAGEMAP_WRITTEN 2u /* not write-protected: written since it was armed, or never armed */
#define PAGEMAP_FILE 4u    /* the file's page, or shared memory: not a private copy */
#define PAGEMAP_PRESENT 8u
#define PAGEMAP_SWAPPED 16u /* in swap, or nothing but a mark that an absent page is armed */
#define PAGEMAP_ZERO 32u    /* the kernel's page of zeros */
#define PAGEMAP_HUGE 64u    /* mapped as a huge page */

struct pagemap_query {
    uint64_t start, end;
    bool arm;        /* write-protect what matches; EPERM where no userfaultfd is registered */
    bool is_checked; /* EPERM there also if nothing is armed */
    bool is_lenient; /* no EPERM: mappings without one are neither told nor armed (with arm) */
    uint32_t all;    /* categories that a page must have */
    uint32_t any;    /* ... of which it must have one; 0: no condition */
    uint32_t none;   /* ... that it must not have */
};

/* Takes ascending ranges; returns 0, or -1 with errno to stop. */
typedef int (*pagemap_found_f)(void *context, uint64_t start, uint64_t end);
/* The same, with those of the requested categories that all pages of the range have. */
typedef int (*pagemap_told_f)(void *context, uint64_t start, uint64_t end, uint32_t categories);

/*
 * Scan a process's page table through its /proc/PID/pagemap. Returns 0, or -1 with errno (ENOTTY: the
 * kernel has no PAGEMAP_SCAN).
 */
int pagemap_scan(int pagemap, const struct pagemap_query *query, pagemap_found_f found, void *context);
/* Also tells which of `categories` the pages have: one scan distinguishes several kinds of pages. */
int pagemap_scan_told(int pagemap, const struct pagemap_query *query, uint32_t categories,
                      pagemap_told_f told, void *context);

/* One word per page, from any kernel (Documentation/admin-guide/mm/pagemap.rst). */
#define PAGEMAP_ENTRY_PRESENT (1ull << 63)
#define PAGEMAP_ENTRY_SWAPPED (1ull << 62)    /* in swap, or nothing but a mark that is left of the page */
#define PAGEMAP_ENTRY_FILE (1ull << 61)       /* the file's page, or shared memory: not a private copy */
#define PAGEMAP_ENTRY_PROTECTED (1ull << 57)  /* by userfaultfd (Linux 5.13) */
#define PAGEMAP_ENTRY_EXCLUSIVE (1ull << 56)  /* nobody else has it mapped; not so the page of zeros */
#define PAGEMAP_ENTRY_SOFT_DIRTY (1ull << 55) /* written since soft_dirty_clear() */

/* Read up to `count` entries from a page on. Returns how many, at least 1, or -1 with errno (ESRCH: gone). */
ssize_t pagemap_entries(int pagemap, uint64_t start, uint64_t *entries, size_t count);

/* Take the marks from all pages of the process whose /proc/PID/clear_refs this is. Returns 0 or -1. */
int soft_dirty_clear(int clear_refs);

/* Whether written pages get marks; found out by trying, since clearing marks succeeds on every kernel. */
bool soft_dirty_works(void);

#endif
