/*
 * A delta as another agent sends it, pages or lines of 64 bytes, put together from ranges
 * (node-agent/member/incoming.c) and applied to an image (node-agent/store/apply.c). The first byte chooses
 * how large the pieces are in which it comes, and whether it is put into the file as it is, with its tables
 * where seeds.c puts them.
 */
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "node-agent/member/incoming.h"
#include "node-agent/store/apply.h"
#include "tests/fuzz/target.h"

#define PAGE IMAGE_PAGE_BYTES

/* As outgoing.c sends it: two ranges, the page of the header and the rest. */
static bool put_parts(struct incoming *incoming, const uint8_t *bytes, size_t count)
{
    size_t head = count < PAGE ? count : PAGE;
    const struct part_range parts[] = {{0, head}, {3 * PAGE, count - head}};
    return incoming_take(incoming, (const void *)&parts[0], sizeof *parts) == 0 &&
           incoming_take(incoming, bytes, head) == 0 &&
           incoming_take(incoming, (const void *)&parts[1], sizeof *parts) == 0 &&
           incoming_take(incoming, bytes + head, count - head) == 0;
}

static bool put_pieces(struct incoming *incoming, size_t piece, const uint8_t *bytes, size_t count)
{
    bool is_taken = true;
    for (size_t at = 0; at < count && is_taken; at += piece) {
        size_t part = count - at < piece ? count - at : piece;
        uint8_t *copy = target_copy(bytes + at, part);
        is_taken = incoming_take(incoming, copy, part) == 0;
        free(copy);
    }
    return is_taken;
}

static void apply(int delta)
{
    struct image_view view;
    struct apply apply = {.image = image_make_memfd(NULL), .delta = delta, .copy = -1, .made = -1};
    must(apply.image >= 0);
    if (image_load(delta, &view, NULL) == 0) {
        apply.base_line = view.header->base_line;
        apply.line = view.header->line;
        image_unload(&view);
        if (apply.base_line > 0 && apply_delta(&apply, NULL) == 0) {
            must(image_load(apply.image, &view, NULL) == 0 && view.header->base_line == 0);
            image_unload(&view);
        }
    }
    must(lseek(apply.image, 0, SEEK_END) == (off_t)image_end());
    close(apply.image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct incoming incoming;
    if (count == 0)
        return 0;
    must(incoming_begin(&incoming, NULL) == 0);
    size_t piece = bytes[0] >> 1 ? (size_t)(bytes[0] >> 1) * 97 : count;
    bool is_taken = bytes[0] & 1 ? put_parts(&incoming, bytes + 1, count - 1)
                                 : put_pieces(&incoming, piece, bytes + 1, count - 1);
    must(lseek(incoming.fd, 0, SEEK_END) == (off_t)image_end());
    if (is_taken && incoming_is_whole(&incoming))
        apply(incoming.fd);
    incoming_end(&incoming);
    return 0;
}
