/*
 * clock.h - clocks across a restart: what the application's clocks showed at a line, and the offsets that
 * let them go on from there (used by vk_clock.c).
 */
#ifndef BELAY_MPI_LAYER_LOWER_CLOCK_H
#define BELAY_MPI_LAYER_LOWER_CLOCK_H

/* Note the application's clocks and whose they are (boot, time namespace) in struct vk. Lower FS. */
void clock_note(void);

/*
 * Restart: choose the offsets. Under the same kernel the clocks that count from its start just go on; under
 * another one they go on by what the wall clock says has passed. Processor time goes on from the line.
 */
void clock_restore(void);

#endif
