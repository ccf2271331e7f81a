/*
 * hot.h - which pages are hot: they were written again while a line was being taken, so that a copy made
 * ahead of the next line would be in vain, and tracking them costs more than it tells.
 *
 * Nothing tells that a hot page has cooled but its being tracked, and copied ahead, again: some are, at each
 * line. The caller holds the memory's lock.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_HOT_H
#define BELAY_NODE_AGENT_CAPTURE_HOT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/runs.h"

struct hot;

/* No page is hot. NULL with ENOMEM. */
struct hot *hot_create(void);
/* Accepts NULL. */
void hot_destroy(struct hot *hot);

/* Another line begins: what was written at least twice while the last one was taken is hot. */
void hot_begin_line(struct hot *hot);

/* The tracker has told these, in the line that is being taken. Returns 0 or -1 with errno. */
int hot_note_written(struct hot *hot, const struct run_set *written);

/*
 * Before the tracker is asked: large runs of hot pages that it is to leave alone (borrowed until the next
 * call). In the pause of a line these are not all of them: an eighth is tracked and tells by the next line
 * whether the pages have cooled.
 */
const struct run_set *hot_leave(struct hot *hot, uint64_t line, bool is_running);

/* The hot pages; and how many bytes of them the tracker was last told to leave alone. */
const struct run_set *hot_pages(const struct hot *hot);
uint64_t hot_left_bytes(const struct hot *hot);

/* The same rank's of an epoch that is over: its hot pages are taken over. */
void hot_inherit(struct hot *hot, struct hot *former);

#endif
