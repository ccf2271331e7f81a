/*
 * ranges.h - what /proc/self/maps tells.
 */
#ifndef BELAY_TESTS_HISTORIES_MEMORY_RANGES_H
#define BELAY_TESTS_HISTORIES_MEMORY_RANGES_H

/* Read it. */
void ranges_read(void);

/* PROT_ of this address when it was read; -1: not mapped. */
int ranges_protection(const void *at);

#endif
