/*
 * kind.h - the vocabulary: kinds of things that a process has, and for each what may be done to them in a
 * step.
 */
#ifndef BELAY_TESTS_HISTORIES_CORE_KIND_H
#define BELAY_TESTS_HISTORIES_CORE_KIND_H

#include <stdbool.h>

struct operation {
    const char *name; /* NULL ends a list */
    int weight;       /* how often, against those of all kinds */
    void (*act)(void);
};

struct kind {
    const char *name;
    const struct operation *operations;
    bool is_common;        /* all ranks do such a step together, with the same dice */
    void (*begin)(void);   /* before the first step; these may be NULL */
    void (*observe)(void); /* note() everything that can be seen of the kind */
    void (*end)(void);     /* after the last step: leave nothing behind */
};

/* All kinds; the last entry is NULL. */
extern const struct kind *const vocabulary[];

#endif
