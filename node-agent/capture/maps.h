/*
 * maps.h - the mappings of a process's upper half, from /proc/PID/maps, and what an image holds of each.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_MAPS_H
#define BELAY_NODE_AGENT_CAPTURE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/util/error.h"
#include "node-agent/capture/file_tokens.h"

enum mapping_content {
    MAPPING_CONTENT_NONE = 0, /* shared: it is not the process's own, nothing is saved of it here */
    MAPPING_CONTENT_OWN,      /* anonymous: pages that exist */
    MAPPING_CONTENT_CHANGED,  /* private file mapping: pages that are not the file's any more */
    MAPPING_CONTENT_ALL,      /* the file will not be there: all pages, up to the end of the file */
    MAPPING_CONTENT_IMAGE,    /* restored: pages of the image at their own addresses, or changed since */
};

struct mapping {
    struct image_region region; /* path is left 0 */
    enum mapping_content content;
    bool is_huge; /* it may have huge pages that were set aside (hugetlbfs) */
    uint64_t cut; /* CHANGED: the file ends here, no page is behind that; else the end of the mapping */
    char *path;   /* of a file that a restart can use, or of anything shared as it is told; NULL: none */
};

struct maps {
    struct mapping *mappings; /* ascending */
    size_t count, room;
};

/* The facts that tell a process's kinds of mappings apart. */
struct maps_source {
    const struct layout *layout;
    uint64_t image_inode;       /* of the image that it was restored from, 0: none */
    struct file_tokens *tokens; /* of files that were mapped at earlier lines; NULL: mappings have none */
};

/* Read the mappings of `pid` that lie in the upper half. Returns 0 (maps_release() it) or -1 with err. */
int maps_read(pid_t pid, const struct maps_source *source, struct maps *maps, struct belay_error *err);
void maps_release(struct maps *maps);

/* The mapping that holds an address, NULL: none. */
const struct mapping *maps_find(const struct maps *maps, uint64_t address);

/*
 * Parse one line of a maps file, without its newline, into *mapping (path malloc'ed, may be NULL). Returns 1
 * if it belongs to an image, 0 if not (another address range, [vdso], [vvar]), -1 with errno: ENOMEM, or
 * EINVAL (malformed). `root` is put before paths when files are looked at ("/proc/PID/root", "" in tests).
 */
int maps_parse_line(char *line, const char *root, const struct maps_source *source, struct mapping *mapping);

#endif
