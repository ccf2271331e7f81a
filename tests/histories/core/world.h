/*
 * world.h - where this process is: its rank, its seed, its step, its folders. One history a process.
 */
#ifndef BELAY_TESTS_HISTORIES_CORE_WORLD_H
#define BELAY_TESTS_HISTORIES_CORE_WORLD_H

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#define RANKS_MAX 8
#define PAGE 4096ul
#define FIRST_NUMBER 300 /* descriptors that the history keeps have numbers from here on */
#define JOURNAL_NUMBER 290
#define CROWD_NUMBER 400 /* those of a crowd of open files */
#define CROWD_MAX 500

struct world {
    int rank, ranks;
    uint64_t seed;
    long step, steps;
    MPI_Comm comm;
    char top[PATH_MAX];  /* where all ranks began: the folder of the job */
    char base[PATH_MAX]; /* a folder in it that is this rank's alone; its tree is in "root" below */
    bool is_child;       /* a forked child that does a part of the history */
};

extern struct world world;

#endif
