/*
 * hybrid.h - what hybrid_c, hybrid_cxx and hybrid_fortran have in common, so that they run in one world.
 *
 * In each step every rank sums HYBRID_TERMS terms by OpenMP threads (hybrid_term), and all ranks add up their
 * sums.
 */
#ifndef BELAY_TESTS_PROGRAMS_HYBRID_H
#define BELAY_TESTS_PROGRAMS_HYBRID_H

#define HYBRID_TERMS 20000

/* Term i of a step: small, so that no order of additions matters. */
static inline long hybrid_term(long step, long i)
{
    return (step * 31 + i * i) % 1009;
}

#endif
