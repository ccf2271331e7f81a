/*
 * half.h - a stand-in for tests: both halves are one, lower_fn is the test's.
 */
#ifndef BELAY_API_TEST_HALF_H
#define BELAY_API_TEST_HALF_H

extern void *lower_fn[];

static inline unsigned long lower_enter(void)
{
    return 0;
}

static inline void lower_leave(unsigned long upper)
{
    (void)upper;
}

static inline void wrapper_enter(void)
{
}

static inline void wrapper_enter_anytime(void)
{
}

static inline void wrapper_leave(void)
{
}

#endif
