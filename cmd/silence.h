/*
 * silence.h - nodes whose agents other agents do not hear: which one is asked, waited for, and given up.
 *
 * That a link is silent, or has not joined, is a hint and no proof. So the agent at its other end is asked.
 * One that does not answer in time is ended: what it holds is with its keeper, for the next agent of the
 * node. One that answers is there: a link that has not joined gets more time, and one that was lost costs the
 * launch, since the links of an epoch are made as it is opened.
 */
#ifndef BELAY_CMD_SILENCE_H
#define BELAY_CMD_SILENCE_H

#include <stdint.h>

#include "cmd/watch.h"
#include "common/wire/belay.pb-c.h"

/* A launch begins: nothing is wrong. */
void silence_begin(struct watch *watch);
/* The agent of the node `by` tells of its link to another one. May wait for an answer. */
void silence_take(struct watch *watch, uint32_t by, const Belay__Wire__LinkNews *news);
/* When silence_expire() is due, by the clock of watch_now_ms(); 0: never. */
long long silence_due_ms(const struct watch *watch);
void silence_expire(struct watch *watch);

#endif
