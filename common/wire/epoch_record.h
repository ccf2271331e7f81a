/*
 * epoch_record.h - the arbiter's record of a job's newest epoch, as bytes: on disk in
 * RUNDIR/jobs/NAME.epochs, and in the keeper of each member. A header with a magic number, a version, the
 * length and a sum, then an EpochRecord (belay.proto). What is read is checked in full; a damaged record is
 * as good as none.
 */
#ifndef BELAY_COMMON_WIRE_EPOCH_RECORD_H
#define BELAY_COMMON_WIRE_EPOCH_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/belay.pb-c.h"

#define EPOCH_RECORD_MAX_BYTES (8u << 20)
#define EPOCH_RECORD_MAX_MEMBERS 65536u
#define EPOCH_RECORD_REBUILD 102u /* numbers of a rebuild (struct epoch_rebuild) */

/*
 * Whether its numbers fit together: it may have come over a socket. Returns 0, or -1 with errno EBADMSG. The
 * job's name is for the caller to compare.
 */
int epoch_record_check(const Belay__Wire__EpochRecord *record);

/*
 * Whether it is what a member of several is told: in runs, and not all of it. The arbiter's own record, and
 * what a keeper has, is not.
 */
bool epoch_record_is_told(const Belay__Wire__EpochRecord *record);
/* How many members and ranks it has, of a record that has been checked. */
uint32_t epoch_record_members(const Belay__Wire__EpochRecord *record);
uint32_t epoch_record_ranks(const Belay__Wire__EpochRecord *record);

/* The record as bytes, to be freed. NULL with ENOMEM. */
uint8_t *epoch_record_pack(const Belay__Wire__EpochRecord *record, size_t *count);
/* The record of this job. NULL with errno: EBADMSG (damaged, or another job's), ENOMEM. */
Belay__Wire__EpochRecord *epoch_record_unpack(const uint8_t *bytes, size_t count, const char *job);

/*
 * Write the record down: it is durable when 0 is returned, and until then the former one stays. -1 with
 * errno.
 */
int epoch_record_write(const char *rundir, const Belay__Wire__EpochRecord *record);
/* NULL with errno: ENOENT (none), EBADMSG, ENOMEM, what open(2) says. */
Belay__Wire__EpochRecord *epoch_record_read(const char *rundir, const char *job);
/* Returns 0, or -1 with errno (ENOENT). */
int epoch_record_remove(const char *rundir, const char *job);
/* Call visit() with the name of each job that has one, until that is -1. Returns that, or 0. */
int epoch_record_each(const char *rundir, int (*visit)(void *context, const char *job), void *context);

/* Accepts NULL. */
void epoch_record_free(Belay__Wire__EpochRecord *record);

#endif
