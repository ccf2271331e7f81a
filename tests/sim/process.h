/*
 * process.h - a modelled MPI process as other parts see it: woken, killed, its control page,
 * acknowledgements.
 */
#ifndef BELAY_TESTS_SIM_PROCESS_H
#define BELAY_TESTS_SIM_PROCESS_H

#include "tests/sim/world.h"

/* Something that the rank may wait for has happened. */
void process_wake(struct world *world, struct run *run, uint32_t rank, uint32_t delay_us);
/* The signal finds it wherever it is, also in a long computation, which then has a second step coming. */
void process_signal(struct world *world, struct run *run, uint32_t rank);
void process_kill(struct world *world, struct run *run, uint32_t rank);

/* A new process shows on its page the communicators that its memory has. */
void process_open_page(struct world *world, struct run *run, uint32_t rank);
void process_open_clock(const struct world *world, struct rank *rank, uint32_t comm);
/* Each communicator has a slot and a clock of its own, unless a mutation counts per group. */
uint32_t process_slot(const struct world *world, uint32_t comm);
uint64_t process_counted(const struct world *world, const struct rank *rank, uint32_t comm);

/* The state on its page; its agent is told. */
void process_publish(struct world *world, struct run *run, uint32_t rank, enum control_state state);
/* The eventfd, used while a line is in progress: its agent looks at the page after so long. */
void process_notify(struct world *world, struct run *run, uint32_t rank, uint32_t delay_us);
bool process_is_parked(const struct rank *rank);

/*
 * The receiver has a synchronous message. is_counted: the acknowledgement is its own; else its library takes
 * the send for complete.
 */
void process_send_ack(struct world *world, struct run *run, uint32_t msg, bool is_counted);
/* The sender's library takes the send for complete: the sender believes it, or holds the send. */
void process_note_completed(struct rank *sender, uint32_t msg);
/* The sender takes the acknowledgement from the library. */
void process_note_acked(struct world *world, struct run *run, uint32_t msg);

#endif
