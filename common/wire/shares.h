/*
 * shares.h - what a rank knows of the things that it may share with other ranks, for the agent.
 *
 * The agent finds shared mappings by itself, in /proc/PID/maps. What it cannot see there, a rank notes when
 * it parks, as an array of struct share_note in its own memory (control.h says where): files without a name,
 * pipes and eventfds that it has open, and the System V objects whose ids it knows. Also what it cannot bring
 * back.
 *
 * An id of System V is virtual: it stays what the program was told first, while the kernel's is another one
 * when the object had to be made again. The kernel's ids are in the Welcome message of a restarted rank.
 */
#ifndef BELAY_COMMON_WIRE_SHARES_H
#define BELAY_COMMON_WIRE_SHARES_H

#include <stdint.h>

#define SHARES_NOTES_MAX (1u << 20)

enum share_kind {
    SHARE_NONE = 0,
    SHARE_FILE,     /* a regular file without a name: a memfd, an unlinked file */
    SHARE_SEGMENT,  /* System V: shared memory, */
    SHARE_SEMS,     /* a set of semaphores, */
    SHARE_MESSAGES, /* a queue of messages */
    SHARE_PIPE,     /* a pipe, whichever ends of it the rank has */
    SHARE_EVENT,    /* an eventfd */
    SHARE_LOST,     /* a descriptor that a restart does not bring back */
    SHARE_CHILD,    /* a process that the rank has started, and that runs */
};

/* Of a SHARE_FILE: the rank brings it back itself, unless it is shared. */
#define SHARE_IS_HELD 1

/* Of a SHARE_CHILD. */
enum share_child {
    SHARE_CHILD_NEW = 1,         /* it was not there at the line before */
    SHARE_CHILD_AWAITED = 2,     /* a thread of the rank waits for a child */
    SHARE_CHILD_OWN_PROGRAM = 4, /* it was forked, and has executed nothing: a part of the program */
    SHARE_CHILD_FEEDS = 8,       /* the rank reads what it writes */
};

/* Of a SHARE_PIPE. */
enum share_ends { SHARE_READER = 1, SHARE_WRITER = 2 };

struct share_note {
    uint32_t kind;   /* enum share_kind */
    int32_t fd;      /* a descriptor of the rank that refers to it; not System V */
    uint64_t device; /* FILE, PIPE: as fstat(2) tells; EVENT: 0 and its id in fdinfo */
    uint64_t inode;
    /*
     * System V: as the program knows it, and the kernel; PIPE: enum share_ends; FILE: SHARE_IS_HELD or 0;
     * CHILD: its process id, and enum share_child.
     */
    int32_t id, kernel_id;
};

#endif
