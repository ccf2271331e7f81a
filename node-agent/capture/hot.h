/*
 * hot.h - which pages are hot: they were written again while a line was being taken, so that a copy made
 * ahead of the next line would be in vain, and tracking them costs more than it tells.
 *
 * Only tracking a hot page again shows whether the page has cooled. So some hot pages are tracked and copied
 * ahead at each line. The caller holds the memory's lock.
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

/* Another line begins: pages that were written at least twice while the last line was taken are hot. */
void hot_begin_line(struct hot *hot);

/* The tracker has told these pages while the present line is taken. Returns 0 or -1 with errno. */
int hot_note_written(struct hot *hot, const struct run_set *written);

/*
 * The large runs of hot pages that the tracker is to leave alone; for use before the tracker is asked.
 * Borrowed until the next call. In the pause of a line (is_running false) an eighth of the hot pages is left
 * out of the result: the tracker watches them, and shows by the next line whether they have cooled.
 */
const struct run_set *hot_leave(struct hot *hot, uint64_t line, bool is_running);

/* The hot pages. Borrowed until the next call. */
const struct run_set *hot_pages(const struct hot *hot);
/* How many bytes of them the tracker was last told to leave alone. */
uint64_t hot_left_bytes(const struct hot *hot);

/* Take over the hot pages of the same rank in an epoch that is over. */
void hot_inherit(struct hot *hot, struct hot *former);

#endif
