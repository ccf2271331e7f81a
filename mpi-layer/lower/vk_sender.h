/*
 * vk_sender.h - credentials that are sent over a socket (SCM_CREDENTIALS) name a process. Freestanding, like
 * vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_SENDER_H
#define BELAY_MPI_LAYER_LOWER_VK_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct wait;

/* Control data have come. If they are credentials: their process as the application knows it. */
void vk_sender_received(struct cmsghdr *control);

/* Does sendmsg(2) with this message name a process, where the kernel knows processes by other ids? */
bool vk_sender_is_named(const struct msghdr *message);
/*
 * Such a sendmsg(2) is to be made, or made again after a restart: with a copy that names the kernel's ids. If
 * the control data are too long for a copy, they stay.
 */
void vk_sender_rename(struct wait *wait);

#endif
