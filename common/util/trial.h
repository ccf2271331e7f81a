/*
 * trial.h - pages of this process on which a mechanism of the kernel is tried, to find out whether it works
 * here.
 */
#ifndef BELAY_COMMON_UTIL_TRIAL_H
#define BELAY_COMMON_UTIL_TRIAL_H

#include <stdbool.h>
#include <stddef.h>

struct trial {
    char *pages; /* private and anonymous, not touched yet */
    size_t bytes;
    int pagemap; /* /proc/self/pagemap */
    int tried;   /* the descriptor of the mechanism */
};

/*
 * Make the pages and open the pagemap. `tried` passes to the trial; -1: the mechanism is not there. Returns
 * whether all three are there; trial_close() is needed in both cases.
 */
bool trial_open(struct trial *trial, size_t bytes, int tried);
void trial_close(struct trial *trial);

#endif
