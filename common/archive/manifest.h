/*
 * manifest.h - the last file of an archived line: which parts belong to it, and how the job is run. A header
 * with a magic number, a version, the length and a sum, then an ArchiveManifest (belay.proto). What is read
 * is checked in full.
 */
#ifndef BELAY_COMMON_ARCHIVE_MANIFEST_H
#define BELAY_COMMON_ARCHIVE_MANIFEST_H

#include <stdint.h>

#include "common/archive/folder.h"
#include "common/util/digest.h"
#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"

#define ARCHIVE_MANIFEST_MAX_BYTES (256u << 20)
#define ARCHIVE_STREAM_NUMBERS 8u /* of a rank's part */
#define ARCHIVE_EPOCH_MAX (1u << 29)

/* Do its numbers fit together? Returns 0, or -1 with err (EBADMSG). */
int archive_manifest_check(const Belay__Wire__ArchiveManifest *manifest, struct belay_error *err);

/* Write it into the folder of its line: durable when 0 is returned. -1 with err. */
int archive_manifest_write(int folder, const Belay__Wire__ArchiveManifest *manifest, struct belay_error *err);
/* To be freed by archive_manifest_free(). NULL with err (ENOENT: there is none; EBADMSG; EPROTO: of another
 * version). */
Belay__Wire__ArchiveManifest *archive_manifest_read(int folder, struct belay_error *err);
/* The same of bytes. */
Belay__Wire__ArchiveManifest *archive_manifest_unpack(const uint8_t *bytes, size_t count,
                                                      struct belay_error *err);
/* Accepts NULL. */
void archive_manifest_free(Belay__Wire__ArchiveManifest *manifest);

/* The part's root. */
struct digest archive_part_root(const Belay__Wire__ArchivePart *part);

#endif
