/*
 * object.h - the things that ranks share, as they are found at one line: what each is, and who can read it.
 */
#ifndef BELAY_NODE_AGENT_SHARED_OBJECT_H
#define BELAY_NODE_AGENT_SHARED_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "common/image/shared.h"
#include "node-agent/shared/content.h"

/*
 * Two things are one if these are equal. The numbers of the kernel's kinds of things overlap. All files are
 * NAMELESS here: one may be mapped by a name that it has not any more, and have another.
 */
struct object_key {
    uint64_t kind;          /* enum shared_kind */
    uint64_t device, inode; /* System V: 0 and the kernel's id */
};

struct object {
    UT_hash_handle hh;
    struct object_key key;
    struct shared_record record;
    char *path; /* as /proc tells, or the name of a NAMED one; "": none */
    struct content content;
    bool has_name;       /* path is one by which a file can be opened */
    bool is_in_memory;   /* so is the file system that has the name */
    bool may_be_written; /* by a mapping of the file with a name */
    bool is_nameless;    /* a rank has it by a name that is gone, or by none */
    bool has_id;         /* a rank has told under which id the program knows it */
    bool is_gone;        /* System V: it was removed meanwhile */
    bool is_wanted;      /* NAMELESS: mapped, or of several ranks, or not held by its rank itself */
    bool is_of_several;  /* pipe, eventfd, file: ranks have it open */
    uint32_t ends;       /* pipe: enum share_ends, of all ranks */
    pid_t pid;           /* the same: a rank, and, but for files, its descriptor, which reads if any does */
    int fd;
};

/* A zeroed struct is empty. */
struct objects {
    struct object *all; /* a hash by key; in the order of their addresses once they have some */
};

/* Find or add. path may be NULL. NULL with ENOMEM. */
struct object *objects_get(struct objects *objects, const struct object_key *key, const char *path);
/* NULL: it is not there. */
struct object *objects_find(const struct objects *objects, const struct object_key *key);
/* Another path. Returns 0 or -1 with ENOMEM. */
int object_set_path(struct object *object, const char *path);
void objects_remove(struct objects *objects, struct object *object);
size_t objects_count(const struct objects *objects);
void objects_release(struct objects *objects);

#endif
