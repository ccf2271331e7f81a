/*
 * program.h - what the test programs share: options, a step counter that can be followed from outside,
 * repeatable random numbers and a digest of everything received.
 *
 * A program's standard output depends on its options and the number of ranks only, never on time.
 */
#ifndef BELAY_TESTS_PROGRAMS_PROGRAM_H
#define BELAY_TESTS_PROGRAMS_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

struct program {
    const char *name;
    int rank, ranks;  /* in MPI_COMM_WORLD */
    long steps;       /* --steps */
    double seconds;   /* --seconds: what all steps together take at least */
    uint64_t seed;    /* --seed */
    const char *mode; /* --mode: a program's own choice, "" by default */
    long value;       /* --value: for the mode */
    int victim;       /* --rank: the rank that does something special */
    int trace_fd;     /* --trace FILE, rank 0: "PID STEP SECONDS" after each step; else -1 */
    uint64_t digest;
};

/* Read the options into *program (fields set before are the defaults), after MPI_Init. Wrong options end
 * the program with status 2 and one line. */
void program_begin(struct program *program, const char *name, int argc, char **argv);

/*
 * A step is done: trace it and sleep for its part of --seconds.
 *
 * A test may name a file in BELAY_TEST_PACE: the last steps wait until it is there, so that no job ends
 * before its test has done with it. Once it has contents no step sleeps any more.
 */
void program_step(struct program *program, long step);

/* Combine the ranks' digests (collective); rank 0 prints one line. */
void program_end(struct program *program);

/* Add data to the digest; the order matters. */
void digest_add(uint64_t *digest, const void *data, size_t bytes);
void digest_add_number(uint64_t *digest, uint64_t number);

/* A number that depends on all three; and the next of a sequence (splitmix64). */
uint64_t mix_number(uint64_t a, uint64_t b, uint64_t c);
uint64_t random_next(uint64_t *state);

/* CLOCK_MONOTONIC in seconds. */
double seconds_now(void);

/* Say what went wrong and MPI_Abort with status 3. */
void fail(const struct program *program, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* fail() with the text of an MPI error, unless the code is MPI_SUCCESS; what: the call. */
void check_mpi(const struct program *program, int code, const char *what);

#endif
