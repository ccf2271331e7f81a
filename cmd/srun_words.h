/*
 * srun_words.h - the words of an srun line: which are options, what these are about, and where the program
 * begins. Pure functions.
 */
#ifndef BELAY_CMD_SRUN_WORDS_H
#define BELAY_CMD_SRUN_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* What an option of srun's is about (Slurm 20.11 to 23.11, `srun --help`). */
enum srun_about {
    SRUN_COUNTS = 1,    /* how many tasks the step has */
    SRUN_PLACES = 2,    /* on which nodes, how many on each, in which order, beside which other steps */
    SRUN_STREAMS = 4,   /* the tasks' standard streams; files that are made or copied for the step */
    SRUN_REACHES = 8,   /* which allocation and which cluster */
    SRUN_OUTPUT = 16,   /* standard output or error is marked or goes elsewhere */
    SRUN_INPUT = 32,    /* where standard input goes */
    SRUN_EXPORTS = 64,  /* the tasks' environment */
    SRUN_MPI = 128,     /* how tasks find one another */
    SRUN_REFUSED = 256, /* a step that cannot be launched again elsewhere */
};

struct srun_option {
    const char *name; /* the long one */
    char letter;      /* 0: none */
    enum { SRUN_ALONE, SRUN_WITH_VALUE, SRUN_MAYBE_VALUE } values;
    unsigned about; /* bits of enum srun_about */
};

/* An option as a line has it. */
struct srun_given {
    const struct srun_option *option;
    const char *value; /* NULL: none */
};

/* Where a walk through the options of a line is; begin with {1, NULL}. */
struct srun_walk {
    size_t at;          /* the word that comes next; in the end that of the program */
    const char *letter; /* within a word of several short options; NULL: not within */
};

/*
 * The next option. Returns 1, or 0 at the program's word or the line's end, or -1 at a word that looks like
 * an option, and is not known: walk->at is there.
 */
int srun_words_next(char *const argv[], struct srun_walk *walk, struct srun_given *given);

/* The index of the program's word, or of the line's end; of the first word that is not known. */
size_t srun_words_program(char *const argv[]);

/* The last option of the line that is about any of these; false if there is none. */
bool srun_words_find(char *const argv[], unsigned about, struct srun_given *given);

#endif
