/*
 * areas.h - memory without a file that the history has mapped, and what must be in it: a copy of each byte,
 * and for each page whether it is mapped and what may be done with it.
 */
#ifndef BELAY_TESTS_HISTORIES_MEMORY_AREAS_H
#define BELAY_TESTS_HISTORIES_MEMORY_AREAS_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/histories/core/world.h"

#define AREAS 14
#define AREA_PAGES 48

struct area_page {
    bool is_mapped;
    bool is_wiped, is_not_forked; /* what a child gets */
    bool is_locked;
    int protection;
};

struct area {
    char *at; /* NULL: the place is free */
    int pages;
    bool is_shared;
    bool is_whole; /* one mapping: nothing has been done to a part of it */
    bool is_fixed; /* at an address of the history's choice */
    struct area_page page[AREA_PAGES];
    char content[AREA_PAGES * PAGE];
};

/* A random one, named in the journal; NULL, and the journal tells so, if there is none. */
struct area *area_choose(void);

/* A place for a new one; its memory is unmapped if it was in use. */
struct area *area_renew(void);

struct area *area_at(int place);
int area_place(const struct area *a);

/* The area now stands for this new mapping, which is zeros. */
void area_set(struct area *a, char *at, int pages, int protection);

/* Unmap what is left of it. */
void area_drop(struct area *a);

/* A run of pages, all mapped and with at least this protection: its first page and how many, 0: there is
 * none. Told in the journal. */
int area_range(const struct area *a, int protection, int *first);

/* Write bytes of the dice's choice to some of these pages, and note what they are. */
void area_write(struct area *a, int first, int count);

/* Memory that can be written, for calls that fill it: told in the journal; NULL if there is none. The caller
 * then notes with area_filled() what is there now. */
char *area_room(size_t bytes_max, size_t *bytes);
void area_filled(const char *at, const void *data, size_t bytes);

/* An address that nothing else uses, for an area at this place in the table. */
char *area_address(const struct area *a);

/* Compare all memory with what must be in it; in a forked child with what it must have been given. Each
 * difference is told; true if there is none. */
bool areas_are_right(bool is_child);

/* In a forked child, from now on: what must be there is what it has been given. */
void areas_be_childs(void);

#endif
