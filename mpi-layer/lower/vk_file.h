/*
 * vk_file.h - files: calls that write to descriptors, calls that change names, and opening. Freestanding,
 * like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_FILE_H
#define BELAY_MPI_LAYER_LOWER_VK_FILE_H

#include <stdbool.h>
#include <stdint.h>

bool vk_file_is_write(long nr);
bool vk_file_is_name_call(long nr);
/* May a vector have so many parts? The kernel refuses others. */
static inline bool vk_file_is_count(long parts)
{
    return parts >= 0 && parts <= 1024 /* UIO_MAXIOV */;
}
/* The descriptor that a call writes to, by its arguments. */
long vk_file_written_fd(long nr, long a, long c);
/* Note what a call that writes, with these arguments, is about to change. */
void vk_file_note_write(long nr, const int64_t args[6]);
bool vk_file_is_open(long nr);
/* A call that waits has this result: a descriptor of the application, if it opens a file or accepts a
 * connection. */
void vk_file_note_opened(long nr, long result);
/* Does this open wait for the other end of a named pipe? */
bool vk_file_is_open_wait(long nr, long a, long b, long c);
long vk_file_syscall(long nr, const long args[6]);
/* Requests of ioctl that change a file, ended by 0; the filter traps these. */
extern const unsigned vk_file_ioctls[];
long vk_file_open(long nr, long a, long b, long c, long d);

#endif
