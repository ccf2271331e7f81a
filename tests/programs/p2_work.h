/* p2_work.h - time that passes in a program of tests, with and without the processor. */
#ifndef BELAY_TESTS_PROGRAMS_P2_WORK_H
#define BELAY_TESTS_PROGRAMS_P2_WORK_H

/* Compute for about this long: no call of MPI, no system call. */
void work_ms(double milliseconds);

/* Sleep for at least this long. */
void rest_ms(double milliseconds);

#endif
