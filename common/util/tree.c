/* tree.c - see tree.h. */
#include "common/util/tree.h"

#include <ftw.h>
#include <unistd.h>

#define OPEN_DIRECTORIES 16

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)walk;
    if (type == FTW_DP)
        rmdir(path);
    else
        unlink(path);
    return 0;
}

void tree_remove(const char *path)
{
    nftw(path, remove_entry, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
