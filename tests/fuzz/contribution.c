/*
 * A member's contribution to parity, or to an image that is made again, as it comes from another agent
 * (node-agent/member/share.c). The first byte chooses how large its pieces are and what pages are multiplied
 * by; the second one how many pages the sum may have.
 */
#include <errno.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "node-agent/member/share.h"
#include "tests/fuzz/target.h"

#define PAGE IMAGE_PAGE_BYTES

/* Some blocks belong elsewhere; the others have three different coefficients. */
static uint8_t weigh(const void *context, uint64_t address)
{
    must(address % PAGE == 0 && address < LAYOUT_END);
    uint64_t page = address / PAGE;
    return page % 4 == 3 ? 0 : *(const uint8_t *)context & 2 ? (uint8_t)(1 + page % 4 * 80) : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct share_intake intake;
    struct share_sum sum;
    if (count < 2)
        return 0;
    int fd = image_make_memfd(NULL);
    size_t at = 2, piece = bytes[0] >> 2 ? (size_t)(bytes[0] >> 2) * 97 : count;
    uint64_t pages_max = bytes[1] % 16;
    must(fd >= 0);
    share_sum_init(&sum, fd, pages_max * PAGE);
    share_intake_begin(&intake, &sum, weigh, bytes);
    int rc = 0;
    for (; at < count && rc == 0; at += piece) {
        size_t part = count - at < piece ? count - at : piece;
        uint8_t *copy = target_copy(bytes + at, part);
        rc = share_intake_take(&intake, copy, part);
        must(rc == 0 || errno == EBADMSG || errno == ENOMEM);
        free(copy);
    }
    must(sum.pages <= pages_max);
    share_intake_end(&intake);
    share_sum_release(&sum);
    must(lseek(fd, 0, SEEK_END) == (off_t)image_end()); /* nothing lies behind an image */
    close(fd);
    return 0;
}
