/*
 * vk_wait.h - calls that wait or transfer data: they go on after our signal (vk_cut.h).
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_WAIT_H
#define BELAY_MPI_LAYER_LOWER_VK_WAIT_H

#include "mpi-layer/lower/gate.h"

/* The three ways in, called by the page of code through the gate; registers as in gate.h. */
void vk_wait_prepare(struct wait *wait);
long vk_wait_ended(struct wait *wait, long result);
long vk_wait_resume(struct wait *wait, long result);
#endif
