/* vk_signalfd.c - see vk_signalfd.h. */
#include "mpi-layer/lower/vk_signalfd.h"

#include <stddef.h>
#include <sys/signalfd.h>
#include <sys/uio.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_signal.h"

#define FROM_TIMER (-2) /* SI_TIMER */
#define INFO_BYTES ((long)sizeof(struct signalfd_siginfo))

bool vk_signalfd_is_read(long nr, long fd)
{
    return (nr == SYS_read || nr == SYS_readv) && VK->has_new_ids && vk_fd_hint(fd) == VK_FD_HINT_SIGNALS;
}

/* The byte at this offset of all that the parts hold. */
static uint8_t *byte_of(const struct iovec *part, uint64_t at)
{
    for (; at >= part->iov_len; part++)
        at -= part->iov_len;
    return (uint8_t *)part->iov_base + at;
}

static void copy(const struct iovec *parts, long at, struct signalfd_siginfo *info, bool is_back)
{
    uint8_t *bytes = (uint8_t *)info;
    for (long i = 0; i < INFO_BYTES; i++) {
        uint8_t *place = byte_of(parts, (uint64_t)(at + i));
        if (is_back)
            *place = bytes[i];
        else
            bytes[i] = *place;
    }
}

/* By way of a siginfo_t: number, errno, code, padding, then the sender or the timer. */
static void rename_signal(struct signalfd_siginfo *info)
{
    bool is_timer = info->ssi_code == FROM_TIMER;
    int words[5] = {(int)info->ssi_signo, 0, info->ssi_code, 0,
                    (int)(is_timer ? info->ssi_tid : info->ssi_pid)};
    vk_signal_rename(words);
    if (is_timer)
        info->ssi_tid = (uint32_t)words[4];
    else
        info->ssi_pid = (uint32_t)words[4];
}

void vk_signalfd_rename(long nr, const long args[6], long bytes)
{
    const struct iovec whole = {(void *)args[1], (size_t)args[2]};
    const struct iovec *parts = nr == SYS_readv ? (const struct iovec *)args[1] : &whole;
    for (long at = 0; at + INFO_BYTES <= bytes; at += INFO_BYTES) {
        struct signalfd_siginfo info;
        copy(parts, at, &info, false);
        rename_signal(&info);
        copy(parts, at, &info, true);
    }
}
