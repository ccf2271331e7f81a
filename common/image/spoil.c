#include "common/image/spoil.h"

#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/image/sums.h"

static void sum_anew(int fd, struct image_view *view, const char *page);

void image_spoil(int fd)
{
    struct image_view view;
    char page[IMAGE_PAGE_BYTES];
    if (image_load(fd, &view, NULL) < 0)
        return;
    uint64_t at = image_first_data(&view);
    if (at > 0)
        fault_flip(fd, at);
    if (at > 0 && pread(fd, page, sizeof page, (off_t)at) == (ssize_t)sizeof page)
        sum_anew(fd, &view, page);
    image_unload(&view);
}

/* The sum of a delta's page is in its tables, which have one as well. */
static void sum_anew(int fd, struct image_view *view, const char *page)
{
    struct image_header *header = view->header;
    uint64_t *sum = (uint64_t *)(void *)(view->tables + header->sum_offset);
    if (header->base_line == 0) {
        sums_write(fd, view->runs[0].address, page, IMAGE_PAGE_BYTES, NULL);
        return;
    }
    sums_make(sum, view->runs[0].address, page, IMAGE_PAGE_BYTES);
    header->sum = sums_of_tables(header, view->tables);
    if (pwrite(fd, sum, sizeof *sum, (off_t)(header->tables_offset + header->sum_offset)) == sizeof *sum &&
        pwrite(fd, header, sizeof *header, 0) != sizeof *header)
        return;
}
