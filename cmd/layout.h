/*
 * layout.h - where the other installed parts are, relative to this program: X/bin finds X/lib/belay.
 */
#ifndef BELAY_CMD_LAYOUT_H
#define BELAY_CMD_LAYOUT_H

#include <limits.h>
#include <stddef.h>

#include "common/util/error.h"

struct install_layout {
    char folder[PATH_MAX];  /* X/lib/belay, where the others are */
    char agent[PATH_MAX];   /* belayd */
    char preload[PATH_MAX]; /* libbelay.so */
    char launch[PATH_MAX];  /* belay-launch */
    char relay[PATH_MAX];   /* belay-relay */
};

/* Only forms the paths; whether the files are there is for the caller to find out. 0, or -1 with err. */
int layout_find(struct install_layout *layout, struct belay_error *err);

/*
 * The next installed part that cannot be read, by its name; *part counts through all, from 0. NULL: no
 * further one is missing.
 */
const char *layout_next_missing(const struct install_layout *layout, size_t *part);
/* All parts are there, and LD_PRELOAD takes the path. Returns 0, or -1 with err, which names what is wrong.
 */
int layout_check(const struct install_layout *layout, struct belay_error *err);

#endif
