/*
 * tables.h - the block of tables of an image: where each table goes. For the writers of images and deltas.
 */
#ifndef BELAY_COMMON_IMAGE_TABLES_H
#define BELAY_COMMON_IMAGE_TABLES_H

#include "common/image/format.h"
#include "common/util/error.h"

/* Fill in the offsets of all tables, and tables_bytes, from the counts that the header has. */
void tables_place(struct image_header *header);

/* The tables are in their places: fill in what is left of the header, its sum last. tables_offset and
 * data_bytes are known. Returns 0, or -1 with err (EFBIG). */
int tables_seal(struct image_header *header, const char *tables, struct belay_error *err);

#endif
