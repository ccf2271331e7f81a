/*
 * confine.h - where the kernel puts belay-launch: out of the way of the application's own addresses.
 *
 * The kernel chooses a process's layout when it executes a program, by its personality and its stack limit.
 * So whoever executes belay-launch sets both first: no randomization (where that is allowed), so that the
 * lower half takes the same few windows in each launch, and the usual layout, whatever the user's limit is.
 * Then belay-launch gives back what was there before, for the application and its children.
 */
#ifndef BELAY_MPI_LAYER_LOWER_CONFINE_H
#define BELAY_MPI_LAYER_LOWER_CONFINE_H

#include <stdbool.h>

#define CONFINE_TEXT_BYTES 48

/* Before belay-launch is executed. text: what confine_end() is to give back. */
void confine_begin(char text[CONFINE_TEXT_BYTES]);

/* In belay-launch, first. Returns false if the text is not one of confine_begin()'s. */
bool confine_end(const char *text);

#endif
