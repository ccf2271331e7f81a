/*
 * collmix_types.h - the derived datatypes and the operation of collmix.
 */
#ifndef BELAY_TESTS_PROGRAMS_COLLMIX_TYPES_H
#define BELAY_TESTS_PROGRAMS_COLLMIX_TYPES_H

#include <mpi.h>

#define MIX_TYPES 7
#define MIX_MAX_EXTENT_WORDS 12

struct mix_types {
    MPI_Datatype types[MIX_TYPES]; /* plain, contiguous, vector, indexed, struct, resized, subarray */
    int extent_words[MIX_TYPES];   /* of 8 bytes */
    MPI_Datatype affine;           /* two words (a, b): the map x -> a * x + b */
    MPI_Op compose;                /* of such maps: associative, not commutative */
};

void mix_types_create(struct mix_types *types);
void mix_types_destroy(struct mix_types *types);

#endif
