/*
 * tool.h - the MPI tool information interface (MPI-3.1, 14.3) over a library that a restart replaces.
 *
 * Handles and sessions are ours; the real ones are made again by a restart, which finds variables and
 * categories by their names. Everything here runs inside a wrapper.
 */
#ifndef BELAY_MPI_LAYER_UPPER_TOOL_H
#define BELAY_MPI_LAYER_UPPER_TOOL_H

#include <mpi.h>
#include <stdbool.h>

#include "mpi-layer/upper/handle.h"

#define TOOL_NAME_BYTES 512

/* Between MPI_T_init_thread and the last MPI_T_finalize. */
bool tool_is_ready(void);

/* Before parking (false: out of memory) / after a restart, when the other objects are there again. */
bool tool_note(void);
void tool_restore(void);

/* ---- numbers of variables and categories: tool_index.c ---- */

enum tool_space { TOOL_CVAR = 0, TOOL_PVAR, TOOL_CATEGORY, TOOL_SPACES };

/* How many there are to the application. */
int tool_count(enum tool_space space);
/* The library's number for ours; -1: there is no such variable, or not any more. */
int tool_real_index(enum tool_space space, int ours);
/* Ours for the library's. */
int tool_our_index(enum tool_space space, int real);
/* The library's number for ours; *code: MPI_SUCCESS, or what the call that was given it has to return. */
int tool_find(enum tool_space space, int ours, int *code);
/* The name by the library's number, and the class of a performance variable. False: there is none. */
bool tool_real_name(enum tool_space space, int real, char name[TOOL_NAME_BYTES], int *class);
/* What a call that gives the library's number of something returns: `get` is the library's function. */
int tool_get_num(enum tool_space space, int (*get)(int *), int *count);
bool tool_note_indices(void);
void tool_restore_indices(void);

/* ---- variables ---- */

struct tool_info { /* what handles of a variable have to know of it */
    int class;     /* MPI_T_PVAR_CLASS_..., of performance variables */
    MPI_Datatype type;
    void *enumeration; /* real; NULL: none */
    int bind;
    int is_readonly, is_continuous;
};

/* By the library's number. Returns the library's code. */
int tool_info_of(enum tool_space space, int real_index, struct tool_info *info);

/* Bytes of one element of a variable; 0: a type that variables do not have. */
size_t tool_size_of(MPI_Datatype type);

/* Ours for a real datatype of a variable. */
MPI_Datatype tool_type(void *real);

/* Ours for the enumeration of a variable, by our number. NULL if the real one is. */
MPI_T_enum tool_enum(void *real, enum tool_space space, int index);

/*
 * What a handle is bound to: the object whose handle the application has at `obj_handle`, kept until
 * tool_object_drop(); NULL: none. Its real handle is in *real.
 */
struct handle *tool_object(int bind, const void *obj_handle, void **real);
void tool_object_drop(struct handle *object);
/* The application has freed it meanwhile. */
bool tool_object_is_gone(const struct handle *object);

/* The application has written a control variable. */
bool tool_has_written(void);

/* Of the parts. */
void tool_restore_cvars(void);
bool tool_note_pvars(void);
void tool_restore_pvars(void);
/* After the last MPI_T_finalize: sessions and handles are no more. */
void tool_forget_cvars(void);
void tool_forget_pvars(void);

#endif
