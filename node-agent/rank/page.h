/*
 * page.h - a rank's control page as its agent uses it: orders are written, what the rank publishes is read.
 *
 * Only the page is used; waking the rank and the fence on the processors are the caller's (rank.h), so that
 * tests/sim uses the same code on pages of its own. Each order ends with a change of command_seq, the futex.
 */
#ifndef BELAY_NODE_AGENT_RANK_PAGE_H
#define BELAY_NODE_AGENT_RANK_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/control.h"
#include "coord/rank_report.h"
#include "coord/targets.h"

void page_order(struct control *control, enum control_command command, uint64_t line);
/* Communicators that the table does not name count as 0. */
void page_order_targets(struct control *control, uint64_t line, uint32_t version,
                        const struct targets *targets);
/* Of an order, or of an answer that the rank waits for. */
void page_bump(struct control *control);
/* Without a change of command_seq: ranks that drain look at these. */
void page_order_drain(struct control *control, uint64_t line);
void page_order_leave(struct control *control, uint64_t line);

/*
 * True, or false if the rank was changing it, or there is no memory. The report's array is enlarged as
 * needed; free() releases it.
 */
bool page_read(const struct control *control, struct rank_report *report);

/* Why the rank cannot do its part in a line, as a line of text. False: it has not said so. */
bool page_failure(const struct control *control, uint64_t line, char text[CONTROL_FAILURE_BYTES]);

#endif
