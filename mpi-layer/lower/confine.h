/*
 * confine.h - where the kernel puts belay-launch: out of the way of the application's own addresses.
 *
 * The kernel chooses a process's layout when it executes a program, by its personality and its stack limit.
 * So both are set before belay-launch is executed. Without randomization (where that is allowed), the lower
 * half takes the same few windows in each launch; with a small stack limit the kernel uses the usual layout.
 * Then belay-launch sets both back, for the application and its children.
 */
#ifndef BELAY_MPI_LAYER_LOWER_CONFINE_H
#define BELAY_MPI_LAYER_LOWER_CONFINE_H

#include <stdbool.h>

#define CONFINE_TEXT_BYTES 48

/* Before belay-launch is executed. text: the former settings, for confine_end(). */
void confine_begin(char text[CONFINE_TEXT_BYTES]);

/* In belay-launch, first. Returns false if the text is not one of confine_begin()'s. */
bool confine_end(const char *text);

#endif
