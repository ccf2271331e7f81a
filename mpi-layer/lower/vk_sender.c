/* vk_sender.c - see vk_sender.h. */
#include "mpi-layer/lower/vk_sender.h"

#include <stddef.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_width.h"

static const uint64_t header_bytes = CMSG_ALIGN(sizeof(struct cmsghdr));

static struct ucred *credentials_in(struct cmsghdr *control)
{
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_CREDENTIALS ||
        control->cmsg_len < header_bytes + sizeof(struct ucred))
        return NULL;
    return (struct ucred *)(void *)((char *)control + header_bytes);
}

void vk_sender_received(struct cmsghdr *control)
{
    struct ucred *credentials = credentials_in(control);
    if (credentials)
        credentials->pid = (pid_t)vk_id_known(credentials->pid);
}

/* The first one at or behind this offset, which is moved behind it. */
static struct ucred *next_credentials(void *control, uint64_t bytes, uint64_t *at)
{
    struct ucred *found = NULL;
    while (!found && *at + header_bytes <= bytes) {
        struct cmsghdr *header = (struct cmsghdr *)(void *)((char *)control + *at);
        if (header->cmsg_len < header_bytes || header->cmsg_len > bytes - *at)
            return NULL;
        found = credentials_in(header);
        *at += CMSG_ALIGN(header->cmsg_len);
    }
    return found;
}

bool vk_sender_is_named(const struct msghdr *message)
{
    uint64_t at = 0;
    return VK->has_new_ids && vk_is_pointer((long)message) && message->msg_controllen &&
           vk_is_pointer((long)message->msg_control) &&
           next_credentials(message->msg_control, message->msg_controllen, &at);
}

void vk_sender_rename(struct wait *wait)
{
    struct thread *self = thread_self();
    const struct msghdr *message = (const struct msghdr *)wait->args[1];
    struct msghdr *sent = (struct msghdr *)wait->message;
    struct ucred *credentials;
    if (message->msg_controllen > sizeof self->passed)
        return;
    for (uint64_t i = 0; i < message->msg_controllen; i++)
        ((char *)self->passed)[i] = ((const char *)message->msg_control)[i];
    for (uint64_t at = 0; (credentials = next_credentials(self->passed, message->msg_controllen, &at));)
        credentials->pid = (pid_t)vk_id_kernel(credentials->pid);
    *sent = *message;
    sent->msg_control = self->passed;
    wait->call[1] = (long)sent;
}
