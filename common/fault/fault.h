/*
 * fault.h - named fault points, for tests: make a step of the protocol fail, stall or die.
 *
 * BELAY_FAULT="POINT[@RANK][#LINE[+|-LAST]][%SHARE[:SEED]]=ACTION[,...]"; RANK and LINE narrow a point to one
 * world rank or one line number: LINE+ is all from this one on, LINE-LAST all from the one to the other.
 * %SHARE lets it happen in so many cases of a hundred, which SEED (0 unless given) chooses by the point, its
 * rank and its line: the same ones in every run. Actions:
 *   kill       SIGKILL to the calling process
 *   error      fault_hit() returns true, the caller takes its error path
 *   delay:MS   stand still for MS milliseconds, then go on
 *   stop       SIGSTOP to the calling process, which goes on with SIGCONT
 *   rate:KB    not more than so many KB (1000 bytes) in a second: fault_rate() tells it, fault_hit() does
 * nothing Without BELAY_FAULT a point costs one getenv() (never placed on a fast path). Allocates nothing and
 * calls only async-signal-safe functions. The list of points is docs/faults.md.
 */
#ifndef BELAY_COMMON_FAULT_FAULT_H
#define BELAY_COMMON_FAULT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* rank -1: the point belongs to no rank; line 0: to no line. True: the caller is to fail. */
bool fault_hit(const char *point, int rank, uint64_t line);
/* KB (1000 bytes) that may pass the point in a second; 0: there is no limit. The first item that is of the
 * point counts. */
uint64_t fault_rate(const char *point, int rank);
/* What such a caller may do: one bit of the byte at this offset of the file becomes another. */
void fault_flip(int fd, uint64_t offset);

#endif
