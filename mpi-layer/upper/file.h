/*
 * file.h - files of MPI-IO.
 *
 * Every file has a communicator of its own, a duplicate of the one that opened it, unknown to the
 * application: its clock counts the file's collective calls (line.md), and a restart opens the file again on
 * it, in the order of ids. Positions, atomicity and hints are read back from the library at a line;
 * the view is recorded when it is set. The real file's error handler is always MPI_ERRORS_RETURN: errors are
 * raised here.
 */
#ifndef BELAY_MPI_LAYER_UPPER_FILE_H
#define BELAY_MPI_LAYER_UPPER_FILE_H

#include <mpi.h>
#include <stdbool.h>

#include "common/util/file_id.h"
#include "mpi-layer/upper/comm.h"

/* What a call does with the file. */
enum file_use { FILE_LOCAL = 0, FILE_COLLECTIVE = 1, FILE_SHARED_POINTER = 2 };

/* A split collective between its begin and its end. */
struct file_split {
    const char *call; /* the name of the blocking call, NULL: none is active */
    MPI_Status status;
};

struct file {
    struct handle *handle;
    struct comm *comm;         /* of its own */
    char *path;                /* absolute, unless it has a prefix of the library's ("ufs:name") */
    int amode;                 /* as given */
    struct handle *hints;      /* info object as the library has it */
    struct handle *errhandler; /* retained */
    MPI_Offset displacement;   /* the view; its types are retained */
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    struct file_split split;
    void *watch;                          /* of the lower half, which notes what the library overwrites */
    bool uses_shared_pointer;             /* by this rank */
    MPI_Offset position, shared_position; /* noted at a line, in etypes */
    int atomicity;                        /* noted at a line */
    struct file_id id;                    /* which file it is, noted at a line; inode 0: not known */
    struct file *next;
};

static inline struct file *file_of(MPI_File fh)
{
    return fh ? ((struct handle *)(void *)fh)->record : NULL;
}

/*
 * Before and after a call of the library on a file; real handles are valid in between. A collective passes
 * the gate of the recovery lines. file_enter() returns MPI_SUCCESS or an error, and the call is to be left
 * out; file_leave() raises the error that it is given and returns it.
 */
int file_enter_as(MPI_File fh, unsigned use, const char *function);
int file_leave(MPI_File fh, unsigned use, int code);

#define file_enter(fh, use) file_enter_as(fh, use, __func__)

/* Our request for a real one of the library, inside the call. */
MPI_Request file_request(MPI_File fh, void *real);

/*
 * Split collectives. The begin does the whole operation, as the standard allows: nothing of it is in flight
 * at a line, and the end is no collective. One may be active for a file. check: may one begin? begin: where
 * the blocking call is to put its status; begun: it has returned; end: hand the status over.
 */
int file_split_check(MPI_File fh);
MPI_Status *file_split_begin(MPI_File fh, const char *call);
int file_split_begun(MPI_File fh, int code);
int file_split_end(MPI_File fh, const char *call, MPI_Status *status);

/* The library has opened it / is about to close it: a restart puts back what it overwrites in between. */
void file_watch(struct file *f);
void file_unwatch(struct file *f);

/* Call the file's error handler (MPI_FILE_NULL's for none), outside a wrapper. Returns the code. */
int file_raise(MPI_File fh, int code);

/* The error handler that new files get, MPI_FILE_NULL's: our handle. */
struct handle *file_default_errhandler(void);

/* A new record, listed, without handle and view. NULL: out of memory. */
struct file *file_new(const char *path, int amode);
/* Unlist and free it, its handle included; NULL is accepted. */
void file_delete(struct file *f);

/* First open file; follow next. */
struct file *file_first(void);

/* Take over the hints that the library uses now / a view as given. Inside a call. */
void file_take_hints(struct file *f);
void file_take_view(struct file *f, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                    const char *representation);

/* Before parking: what only the library knows. False: it does not tell. */
bool file_note_all(void);
/* After a restart, communicators, datatypes and infos being there: open all again. */
void file_restore_all(void);

#endif
