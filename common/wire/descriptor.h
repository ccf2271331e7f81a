/*
 * descriptor.h - descriptors that are passed between processes: memory that both sides map, and other kinds.
 *
 * If the other side made the memory shorter, an access to it would end in SIGBUS. So the process that makes
 * the memory seals its size, and the process that gets it checks the seal.
 */
#ifndef BELAY_COMMON_WIRE_DESCRIPTOR_H
#define BELAY_COMMON_WIRE_DESCRIPTOR_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define DESCRIPTOR_EVENT "[eventfd]"
#define DESCRIPTOR_UFFD "[userfaultfd]"

/* A sparse memfd of this size, which is sealed. The caller owns it. -1 with err. */
int descriptor_make_memory(const char *name, uint64_t bytes, struct belay_error *err);

/* Is it such memory, of this size? `what` names it for the message. Returns 0, or -1 with err (EPROTO). */
int descriptor_check_memory(int fd, uint64_t bytes, const char *what, struct belay_error *err);

/* Is it of this kind of the kernel's (DESCRIPTOR_...)? Returns 0, or -1 with err (EPROTO). */
int descriptor_check_kind(int fd, const char *kind, const char *what, struct belay_error *err);

/*
 * Write into such memory through a mapping: write(2) obeys the limit of file sizes (ulimit -f), which is
 * meant for files, and ends the process beyond it. Returns 0, or -1 with errno (ENOMEM).
 */
int descriptor_put(int fd, uint64_t offset, const void *from, size_t bytes);

#endif
