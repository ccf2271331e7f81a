#include "common/image/tables.h"

#include <errno.h>

#include "common/image/sums.h"

/* The next table behind `end`, which moves. */
static uint64_t place(uint64_t *end, uint64_t count, uint64_t size)
{
    uint64_t offset = *end;
    *end += count * size;
    return offset;
}

void tables_place(struct image_header *header)
{
    uint64_t end = 0;
    header->region_offset = place(&end, header->region_count, sizeof(struct image_region));
    header->run_offset = place(&end, header->run_count, sizeof(struct image_run));
    header->drop_offset = place(&end, header->drop_count, sizeof(struct image_run));
    header->present_offset = place(&end, header->present_count, sizeof(struct image_run));
    header->sum_offset = place(&end, header->sum_count, sizeof(uint64_t));
    header->encoding_offset = place(&end, header->encoding_count, sizeof(uint64_t));
    header->mask_offset = place(&end, header->mask_count, sizeof(uint64_t));
    header->strings_offset = place(&end, header->strings_bytes, 1);
    header->tables_bytes = end;
}

int tables_seal(struct image_header *header, const char *tables, struct belay_error *err)
{
    header->magic = IMAGE_MAGIC;
    header->version = IMAGE_VERSION;
    header->header_bytes = sizeof *header;
    header->total_bytes = IMAGE_PAGE_BYTES + header->tables_bytes + header->data_bytes;
    if (header->tables_bytes > IMAGE_TABLES_MAX)
        return belay_error_set(err, EFBIG, "the tables of an image are too large");
    header->sum = sums_of_tables(header, tables);
    return 0;
}
