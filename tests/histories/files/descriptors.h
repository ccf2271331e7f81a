/*
 * descriptors.h - the descriptors that the history has open, whatever they stand for. Most have numbers of
 * the history's choice, some keep the one that the kernel gave; the journal names them by their place in the
 * table.
 */
#ifndef BELAY_TESTS_HISTORIES_FILES_DESCRIPTORS_H
#define BELAY_TESTS_HISTORIES_FILES_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>

#define DESCRIPTORS 40

enum descriptor_kind {
    DESCRIPTOR_NONE = 0,
    DESCRIPTOR_FILE = 1 << 0,
    DESCRIPTOR_FOLDER = 1 << 1,
    DESCRIPTOR_PATH = 1 << 2, /* O_PATH */
    DESCRIPTOR_PIPE = 1 << 3,
    DESCRIPTOR_SOCKET = 1 << 4,
    DESCRIPTOR_EVENT = 1 << 5, /* eventfd */
    DESCRIPTOR_TIMER = 1 << 6,
    DESCRIPTOR_EPOLL = 1 << 7,
    DESCRIPTOR_SIGNAL = 1 << 8,
    DESCRIPTOR_TERMINAL = 1 << 9,
    DESCRIPTOR_DEVICE = 1 << 10,
    DESCRIPTOR_WATCH = 1 << 11, /* inotify */
    DESCRIPTOR_CHILD = 1 << 12, /* pidfd */
    DESCRIPTOR_ANY = (1 << 13) - 1,
};

struct descriptor {
    enum descriptor_kind kind; /* DESCRIPTOR_NONE: the place is free */
    int number;
    long tag;           /* what its kind likes to remember; the same for all duplicates */
    bool is_watched;    /* in an epoll set: taken out of it before it is closed */
    bool has_lost_name; /* the file has not the name that it was opened by: see descriptors_note_names() */
};

/* Take what a call has just opened into the table, at a number that the dice choose; closes another one if
 * the table is full. For -1 as well: NULL. */
struct descriptor *descriptor_keep(int fd, enum descriptor_kind kind);

/* A random one of these kinds, named in the journal; NULL, and the journal tells so, if there is none. */
struct descriptor *descriptor_choose(int kinds);

/* The same without a word in the journal. */
struct descriptor *descriptor_pick(int kinds);

/* The place in the table. */
int descriptor_place(const struct descriptor *d);

struct descriptor *descriptor_at(int place);

void descriptor_close(struct descriptor *d);

/*
 * Of which files has the kernel lost the name that they were opened by? To be called after each step, since a
 * restart may open a file by another name that it has, and then the kernel does not tell it any more.
 */
void descriptors_note_names(void);

/* True if reading (POLLIN) or writing (POLLOUT) would not wait. */
bool descriptor_is_ready(const struct descriptor *d, short event);

/* FILE, FOLDER, PIPE ...: what a descriptor that has been opened by a name is. */
enum descriptor_kind descriptor_kind_of(int fd);

#endif
