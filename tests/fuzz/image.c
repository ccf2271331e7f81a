/*
 * Images and deltas, as an agent gets them from another one or from its keeper: a page with the header, and
 * behind it the tables, at the place where seeds.c puts them. The first byte chooses.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/root.h"
#include "tests/fuzz/target.h"

#define PAGE IMAGE_PAGE_BYTES

static void check_runs(const struct image_run *runs, uint64_t count, bool is_whole)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        must(runs[i].bytes > 0 && runs[i].address >= end && runs[i].address + runs[i].bytes <= LAYOUT_END);
        must(!is_whole || runs[i].data_offset == image_offset(runs[i].address));
        end = runs[i].address + runs[i].bytes;
    }
}

static void check(const struct image_view *view, uint64_t file_bytes)
{
    const struct image_header *header = view->header;
    uint64_t end = 0;
    volatile uint64_t lines = 0; /* each mask and sum can be read */
    size_t texts = strlen(image_string(view, header->program));
    must(header->rank < header->ranks || header->ranks == 0);
    for (uint64_t i = 0; i < header->region_count; i++) {
        const struct image_region *region = &view->regions[i];
        must(region->start < region->end && region->end <= LAYOUT_END && region->start >= end);
        texts += strlen(image_string(view, region->path));
        end = region->end;
    }
    must(texts < 1 << 20);
    check_runs(view->runs, header->run_count, !header->base_line);
    check_runs(view->drops, header->drop_count, false);
    check_runs(view->present, header->present_count, true);
    struct image_piece piece = {0};
    while (image_next_piece(view, &piece)) {
        must(piece.run->data_offset >= PAGE && piece.run->data_offset + piece.data_bytes <= file_bytes);
        for (uint64_t i = 0; piece.masks && i < piece.run->bytes / PAGE; i++)
            lines += piece.masks[i] + piece.sums[i];
    }
}

/* Whatever there is of it: it ends soon, and is always the same. */
static void check_root(int fd, int base)
{
    struct digest root, again;
    if (root_of_image(fd, base, &root, NULL) == 0)
        must(root_of_image(fd, base, &again, NULL) == 0 && digest_is_equal(&root, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static int whole = -1, delta = -1;
    struct image_view view;
    if (count == 0)
        return 0;
    if (whole < 0) {
        whole = image_make_memfd(NULL);
        delta = memfd_create("delta", MFD_CLOEXEC);
        must(whole >= 0 && delta >= 0);
    }
    bool is_delta = bytes[0] & 1;
    int fd = is_delta ? delta : whole;
    uint64_t tables_at = is_delta ? 3 * PAGE : PAGE;
    size_t header_bytes = count - 1 < PAGE ? count - 1 : PAGE, table_bytes = count - 1 - header_bytes;
    uint64_t file_bytes = is_delta ? tables_at + table_bytes : image_end();
    uint8_t zeros[PAGE] = {0};
    if (is_delta)
        must(ftruncate(fd, (off_t)file_bytes) == 0);
    must(pwrite(fd, zeros, PAGE, 0) == PAGE);
    must(pwrite(fd, bytes + 1, header_bytes, 0) == (ssize_t)header_bytes);
    must(pwrite(fd, bytes + 1 + header_bytes, table_bytes, (off_t)tables_at) == (ssize_t)table_bytes);
    if (image_load(fd, &view, NULL) == 0) {
        check(&view, file_bytes);
        image_unload(&view);
        check_root(fd, is_delta ? whole : -1);
    }
    return 0;
}
