/*
 * fd_record.h - the record of one descriptor in struct vk, and how a new descriptor takes its place.
 */
#ifndef BELAY_MPI_LAYER_LOWER_FD_RECORD_H
#define BELAY_MPI_LAYER_LOWER_FD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/* Of a record in struct vk. */
static inline const char *fd_record_path(const struct fd_record *record)
{
    return VK->fd_text + record->path;
}

/* The device of its file, as stat(2) and /proc/PID/maps have it. */
uint64_t fd_record_device(const struct fd_record *record);
/* Move a new descriptor to the record's number and give it the record's descriptor flags. -1 with errno. */
int fd_record_place(int fd, const struct fd_record *record);
/* At the record's number, a new open file description of what another descriptor refers to. */
bool fd_record_open_again(int file, const struct fd_record *record);

#endif
