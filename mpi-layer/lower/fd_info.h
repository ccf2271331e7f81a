/*
 * fd_info.h - what the kernel tells below /proc/self of a descriptor of this process.
 */
#ifndef BELAY_MPI_LAYER_LOWER_FD_INFO_H
#define BELAY_MPI_LAYER_LOWER_FD_INFO_H

#include <stddef.h>

/*
 * The beginning of what /proc/self/fdinfo tells of a descriptor, as far as `room` bytes hold it, a NUL at its
 * end included. All of it comes with one read. Returns its length.
 */
size_t fd_info_read(int fd, char *text, size_t room);

/* Where /proc/self/fd links to, with a NUL at its end. Returns its length without that; 0: not known. */
size_t fd_info_link(int fd, char *path, size_t room);

/* Both keep a folder open: the way to it takes the kernel as long as the rest of an open. No more. */
void fd_info_close(void);

#endif
