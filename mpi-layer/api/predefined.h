/*
 * predefined.h - the objects behind MPI's predefined handles.
 *
 * A program refers to MPI_COMM_WORLD and its like by the address of a data symbol of libmpi. Ours have the
 * same names and sizes (an executable may hold copies of them), and at first contain zeros.
 */
#ifndef BELAY_MPI_LAYER_API_PREDEFINED_H
#define BELAY_MPI_LAYER_API_PREDEFINED_H

#include <stddef.h>

enum handle_kind {
    HANDLE_NONE = 0,
    HANDLE_COMM,
    HANDLE_DATATYPE,
    HANDLE_ERRHANDLER,
    HANDLE_FILE,
    HANDLE_GROUP,
    HANDLE_INFO,
    HANDLE_MESSAGE,
    HANDLE_OP,
    HANDLE_REQUEST,
    HANDLE_WIN,
};

struct predefined_handle {
    const char *symbol; /* its twin's name in the real library */
    void *object;       /* ours, as the application sees it; its first word is to hold the twin's address */
    enum handle_kind kind;
    size_t size_bytes; /* of the object; what we keep in it must fit */
};

/* All of them, the null handles included, in the order of their symbols. Generated. */
extern const struct predefined_handle predefined_handles[];
extern const size_t predefined_handle_count;

#endif
