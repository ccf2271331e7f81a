/*
 * handle.h - the objects that the application's MPI handles point to.
 *
 * The first word is the real handle, so translation is one load. For predefined handles the object is the
 * library's own data symbol (256 bytes at least); others come from handle_new(). All live objects that
 * are not predefined are listed by kind, oldest first, so that a restart can make their real twins again.
 */
#ifndef BELAY_MPI_LAYER_UPPER_HANDLE_H
#define BELAY_MPI_LAYER_UPPER_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/api/predefined.h"
#include "mpi-layer/upper/table.h"

/* Known of a datatype: its size and extent; that it has been counted in, received with: it is committed. */
enum type_fact { TYPE_NONE = 0, TYPE_SIZES = 1, TYPE_IS_COUNTED = 2, TYPE_IS_RECEIVED = 4 };

struct handle {
    void *real;
    uint32_t kind; /* enum handle_kind */
    uint32_t is_predefined;
    void *record;        /* what its kind keeps: struct comm, struct datatype, struct op, ... or NULL */
    uint32_t references; /* the application's, and one for each object or pending request that uses it */
    uint32_t held;       /* the application's: 1, more if it got it once more, 0: given up */
    struct attribute *attributes;
    char *name; /* given by the application, else NULL */
    struct handle *next, *previous;
    struct table_entry entry; /* of handle_find() */
    int number;               /* its integer in Fortran (fortran/numbers.h) */
    /* Of a datatype: what the library has said of it, which never changes (type_facts.c). */
    uint32_t known; /* enum type_fact */
    uint64_t size;
    int64_t lower_bound, extent;
};

_Static_assert(sizeof(struct handle) <= 256, "predefined ones are as small as the library's data symbols");

/* Ours for a real handle: the predefined object if there is one, else a new one. NULL: out of memory. */
void *handle_new(enum handle_kind kind, void *real);

/*
 * Ours for a real handle that exists already: predefined, or a communicator, datatype or error handler. NULL
 * if there is none. Without a search, and without libc: the library may be the caller.
 */
struct handle *handle_find(enum handle_kind kind, const void *real);

/*
 * The application freed it: forget it when nothing refers to it any more. Predefined ones stay. Of a datatype
 * or an operation the real one lives as long as ours, so that those that use it can be made again.
 */
void handle_release(enum handle_kind kind, void *handle);

/* The application gets it once more and will free it once more. */
static inline void handle_hold(struct handle *handle)
{
    if (!handle->is_predefined) {
        handle->held++;
        handle->references++;
    }
}

/* Keep it for an object or a pending request. NULL and predefined ones are accepted. */
static inline void handle_retain(void *handle)
{
    struct handle *h = handle;
    if (h && !h->is_predefined)
        h->references++;
}

/* The last reference goes: what its kind keeps of it beside the record goes first (handle_kinds.c). */
void handle_kind_forget(struct handle *handle);
/* Undo handle_retain(). */
void handle_unref(void *handle);

/* The same, without a call for the predefined ones. */
static inline void handle_unref_quick(void *handle)
{
    const struct handle *h = handle;
    if (h && !h->is_predefined)
        handle_unref(handle);
}

/* Keep a copy of the name that the application gave it. Returns 0, or -1: out of memory. */
int handle_set_name(void *handle, const char *name);

/* First listed object of a kind; follow next. */
struct handle *handle_first(enum handle_kind kind);

/* The real twin of one of those that handle_find() finds is this one from now on. */
void handle_set_real(struct handle *handle, void *real);

/* After a restart: all real twins are new. */
void handle_find_again(void);

/* Put the real handles into the predefined objects (start and restart). */
void handle_bind_predefined(void);

#endif
