#include "common/image/lines.h"

#include <errno.h>
#include <string.h>

#include <emmintrin.h> /* SSE2: each x86-64 processor has it, and memory is the limit, not the comparison */

#define PART_BYTES sizeof(__m128i)

static const char zeros[LINE_BYTES];

/* Lines of a page, or of zeros: the step is the distance from one to the next. */
struct source {
    const char *line;
    size_t step;
};

static struct source source_of(const void *page)
{
    return page ? (struct source){page, LINE_BYTES} : (struct source){zeros, 0};
}

static const char *line_of(const struct source *source, unsigned line)
{
    return source->line + line * source->step;
}

static __m128i part_of(const char *line, unsigned part)
{
    return _mm_loadu_si128((const __m128i *)(const void *)(line + part * PART_BYTES));
}

static __m128i is_same_part(const char *a, const char *b, unsigned part)
{
    return _mm_cmpeq_epi8(part_of(a, part), part_of(b, part));
}

static uint64_t is_other(const char *a, const char *b)
{
    __m128i low = _mm_and_si128(is_same_part(a, b, 0), is_same_part(a, b, 1));
    __m128i high = _mm_and_si128(is_same_part(a, b, 2), is_same_part(a, b, 3));
    return _mm_movemask_epi8(_mm_and_si128(low, high)) != 0xffff;
}

static void xor_line(const char *a, const char *b, char *to)
{
    for (unsigned part = 0; part < LINE_BYTES / PART_BYTES; part++)
        _mm_storeu_si128((__m128i *)(void *)(to + part * PART_BYTES),
                         _mm_xor_si128(part_of(a, part), part_of(b, part)));
}

/* The lowest line of a mask that is not empty; it is taken out. */
static unsigned take_line(uint64_t *mask)
{
    unsigned line = (unsigned)__builtin_ctzll(*mask);
    *mask &= *mask - 1;
    return line;
}

uint64_t lines_compare(const void *old_page, const void *new_page)
{
    struct source a = source_of(old_page), b = source_of(new_page);
    uint64_t mask = 0;
    for (unsigned line = 0; line < IMAGE_PAGE_BYTES / LINE_BYTES; line++)
        mask |= is_other(line_of(&a, line), line_of(&b, line)) << line;
    return mask;
}

size_t lines_pack(uint64_t mask, const void *page, void *to)
{
    struct source source = source_of(page);
    char *next = to;
    if (mask == LINES_ALL && page) {
        memcpy(to, page, IMAGE_PAGE_BYTES);
        return IMAGE_PAGE_BYTES;
    }
    for (; mask; next += LINE_BYTES)
        memcpy(next, line_of(&source, take_line(&mask)), LINE_BYTES);
    return (size_t)(next - (char *)to);
}

size_t lines_pack_xor(uint64_t mask, const void *old_page, const void *new_page, void *to)
{
    struct source a = source_of(old_page), b = source_of(new_page);
    char *next = to;
    for (; mask; next += LINE_BYTES) {
        unsigned line = take_line(&mask);
        xor_line(line_of(&a, line), line_of(&b, line), next);
    }
    return (size_t)(next - (char *)to);
}

ptrdiff_t lines_unpack(uint64_t mask, const void *packed, size_t bytes, void *page)
{
    const char *next = packed;
    size_t used = lines_bytes(mask);
    if (used > bytes) {
        errno = EINVAL;
        return -1;
    }
    for (; mask; next += LINE_BYTES)
        memcpy((char *)page + take_line(&mask) * LINE_BYTES, next, LINE_BYTES);
    return (ptrdiff_t)used;
}

ptrdiff_t lines_fold(uint64_t mask, const void *packed, size_t bytes, void *page)
{
    const char *next = packed;
    size_t used = lines_bytes(mask);
    if (used > bytes) {
        errno = EINVAL;
        return -1;
    }
    for (; mask; next += LINE_BYTES) {
        char *line = (char *)page + take_line(&mask) * LINE_BYTES;
        xor_line(line, next, line);
    }
    return (ptrdiff_t)used;
}
