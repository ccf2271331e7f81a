/*
 * signals.h - signals that other kinds wait for.
 */
#ifndef BELAY_TESTS_HISTORIES_TIME_SIGNALS_H
#define BELAY_TESTS_HISTORIES_TIME_SIGNALS_H

/* A signal that only timers send; always blocked, its disposition is the default one. */
int signals_of_timers(void);

#endif
