/*
 * unseen.h - the MPI library writes to the application's memory in ways that no page table shows: tell the
 * agent (enum control_unseen).
 *
 * process_vm_writev is interposed for the whole lower half: Open MPI's vader uses it where the sender of a
 * message, and not the receiver, copies.
 */
#ifndef BELAY_MPI_LAYER_LOWER_UNSEEN_H
#define BELAY_MPI_LAYER_LOWER_UNSEEN_H

/*
 * Look which of Open MPI's components are loaded (after MPI_Init those in use): any transport that is not
 * known to leave memory alone counts as one that registers it.
 */
void unseen_note_transports(void);

#endif
