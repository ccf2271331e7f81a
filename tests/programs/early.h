/* early.h - what libearly.so offers. */
#ifndef BELAY_TESTS_PROGRAMS_EARLY_H
#define BELAY_TESTS_PROGRAMS_EARLY_H

int early_answer(void);  /* 42 */
long early_ticks(void);  /* of the timer that its constructor has started */
long early_rounds(void); /* of the thread */

#endif
