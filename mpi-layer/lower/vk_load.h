/*
 * vk_load.h - the image of this rank is still on its way while the rank runs on it (struct control_loading).
 * A page that has not come makes its reader wait, by userfaultfd. What the kernel does not catch waits here.
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_LOAD_H
#define BELAY_MPI_LAYER_LOWER_VK_LOAD_H

#include <stdbool.h>
#include <stdint.h>

/* At each launch, before all else of this: the connection to the agent, and what wakes it. */
void vk_load_begin(int sock, int event_fd);
bool vk_load_is_on(void);

/* Ask for pages at these addresses. */
void vk_load_ask(uint64_t start, uint64_t end);
/* The number of arrivals so far; returns when it is another one than this, or after a while. */
uint32_t vk_load_arrivals(void);
void vk_load_wait(uint32_t seen);

/*
 * Before memory is copied for a forked child, in which nobody would wait at holes and which would read zeros
 * there: returns when all of the image has come. At once where nothing is on its way.
 */
void vk_load_wait_for_all(void);

#endif
