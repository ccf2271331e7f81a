/*
 * paths.h - names of files: a few, so that operations meet, reached in all ways: absolute, from the working
 * directory, from a descriptor of a folder.
 *
 * All lie in the rank's own folder. Two steps up never follow one another, so no name leads out of it.
 */
#ifndef BELAY_TESTS_HISTORIES_FILES_PATHS_H
#define BELAY_TESTS_HISTORIES_FILES_PATHS_H

#include <limits.h>
#include <stdbool.h>

struct path {
    int folder; /* for functions whose names end in "at": AT_FDCWD or a descriptor */
    char name[PATH_MAX];
};

/* A file's name or a folder's, told in the journal. */
struct path path_of_file(void);
struct path path_of_folder(void);

/* The same as one string for functions that know no folder: not by a descriptor. */
struct path path_plain(bool is_folder);

/* A name without folders. */
const char *path_leaf(bool is_folder);

/* The folder in which names are absolute: TOP/rank-R/root. */
const char *path_root(void);

#endif
