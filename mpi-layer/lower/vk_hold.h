/*
 * vk_hold.h - calls that take pages of the rank away, or move them, while the agent copies these pages
 * (struct control_copying), and those that write to other ranks. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_HOLD_H
#define BELAY_MPI_LAYER_LOWER_VK_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/* At each launch: make the page, and note the connection to the agent, whose end is the agent's. */
void vk_hold_begin(int sock);
/* May pages be copied while the rank runs? */
bool vk_hold_is_wanted(void);
/*
 * Before such a call: returns when the agent has copied what it has to copy of the range, or is gone. Where
 * nothing is being copied, and in forked children, at once.
 */
void vk_hold(uint64_t start, uint64_t bytes);
/*
 * Before a write to the memory of other processes: tells the agent of such writes, and returns when no other
 * rank of the node stands for a line without being captured, or when the agent is gone. In forked children,
 * which no line stops, at once.
 */
void vk_hold_writes_to_others(void);

#endif
