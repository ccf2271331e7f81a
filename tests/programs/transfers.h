/*
 * transfers.h - what the parts of time_transfers share: calls that transfer data, each with another side that
 * takes or gives slowly.
 */
#ifndef BELAY_TESTS_PROGRAMS_TRANSFERS_H
#define BELAY_TESTS_PROGRAMS_TRANSFERS_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tests/programs/program.h"

#define TOTAL 300007 /* more than a pipe or a socket takes */
#define PIECE 12007  /* what the other side moves at once, ... */
#define PAUSE_MS 6   /* ... and how long it rests then */
#define PARTS 6

/* Two threads and what is between them. */
struct transfer {
    const char *name;
    void (*make)(struct transfer *t);
    void (*call)(struct transfer *t);  /* the call that must last, and its judgement */
    void (*other)(struct transfer *t); /* the other side, slowly */
    int fds[2];
    pid_t child;
    unsigned char *data;
    pthread_t threads[2];
    pthread_barrier_t *together;
};

extern struct program program;

/* Unless it is true, end the program with the transfer's name, what is wrong, and errno. */
void expect(int is_true, const char *name, const char *what);

void pause_ms(long ms);
void step_of_mpi(long step);

/* The data of a transfer; in parts of all sizes, one of them empty, which no call may change. */
void fill(struct transfer *t);
void check_data(const struct transfer *t, size_t bytes);
void divide(const struct transfer *t, struct iovec parts[PARTS]);
/* ... and an open file that holds it. */
int open_data(struct transfer *t);
void expect_unchanged(const struct transfer *t, const struct iovec parts[PARTS]);

/* What is between the two sides: a pipe, a pair of sockets, the name of a pipe, nothing. */
void make_pipe(struct transfer *t);
void make_pair(struct transfer *t);
void make_fifo(struct transfer *t);
void make_nothing(struct transfer *t);

/* The other side, slowly. */
void drain_bytes(struct transfer *t, size_t bytes);
void drain(struct transfer *t);
void feed(struct transfer *t);

void call_write(struct transfer *t);

/* Ended by one without a name (transfers_sockets.c). */
extern struct transfer transfers_on_sockets[], transfers_in_time[];

/* Calls that handlers of the program end (transfers_handlers.c). */
void transfers_handlers(int on_sockets);

#endif
