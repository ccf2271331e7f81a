#include "common/image/root.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "common/image/image.h"
#include "common/image/sums.h"

#define BLOCK_PAGES 4096u /* whose sums are read at once */

/* What a restart reads of a header, in the order in which it is hashed. */
struct facts {
    char what[16];
    uint64_t line;
    uint32_t rank, ranks;
    uint64_t resume_context, layout_version;
    uint64_t region_count, run_count, strings_bytes;
    uint32_t program, group;
    uint8_t identity[32];
};

/* The sums of an image, in the order of its pages. */
struct source {
    const struct image_view *view; /* of the part */
    int sums_fd;                   /* the image with the sums of pages that are not in the delta */
    uint64_t run;                  /* of the delta: the first one that does not end before the next page */
    const uint64_t *run_sums;      /* its sums */
};

static int check_base(const struct image_view *delta, int base, struct belay_error *err);
static int make_root(int part, int base, uint64_t page_bytes, struct digest *root, struct belay_error *err);
static int read_sums(const struct image_view *view, int part, int base, root_sums_f *each, void *context,
                     struct belay_error *err);
static void hash_sums(void *context, uint64_t address, const uint64_t *sums, uint64_t count);
static int check_size(const struct image_view *view, int sums_fd, uint64_t page_bytes,
                      struct belay_error *err);
static void add_tables(crypto_generichash_state *state, const struct image_view *view);
static int read_run(struct source *source, const struct image_run *run, root_sums_f *each, void *context,
                    struct belay_error *err);
static void put_delta_sums(struct source *source, uint64_t address, uint64_t pages, uint64_t *sums);

int root_of_image(int part, int base, struct digest *root, struct belay_error *err)
{
    return make_root(part, base, IMAGE_PAGE_BYTES, root, err);
}

int root_of_tables(int part, int base, struct digest *root, struct belay_error *err)
{
    return make_root(part, base, sizeof(uint64_t), root, err);
}

/* page_bytes: what there has to be of each page at least. */
static int make_root(int part, int base, uint64_t page_bytes, struct digest *root, struct belay_error *err)
{
    struct image_view view;
    crypto_generichash_state state;
    if (sodium_init() < 0)
        return belay_error_set(err, EIO, "libsodium cannot be used");
    if (image_load(part, &view, err) < 0)
        return -1;
    bool is_delta = view.header->base_line > 0;
    int rc = is_delta ? check_base(&view, base, err) : 0;
    if (rc == 0)
        rc = check_size(&view, is_delta ? base : part, page_bytes, err);
    crypto_generichash_init(&state, NULL, 0, DIGEST_BYTES);
    add_tables(&state, &view);
    if (rc == 0)
        rc = read_sums(&view, part, base, hash_sums, &state, err);
    if (rc == 0)
        crypto_generichash_final(&state, (unsigned char *)root, DIGEST_BYTES);
    image_unload(&view);
    return rc;
}

int root_read_sums(int part, int base, root_sums_f *each, void *context, struct belay_error *err)
{
    struct image_view view;
    if (image_load(part, &view, err) < 0)
        return -1;
    int rc = view.header->base_line > 0 ? check_base(&view, base, err) : 0;
    if (rc == 0)
        rc = read_sums(&view, part, base, each, context, err);
    image_unload(&view);
    return rc;
}

static int read_sums(const struct image_view *view, int part, int base, root_sums_f *each, void *context,
                     struct belay_error *err)
{
    bool is_delta = view->header->base_line > 0;
    const struct image_run *runs = is_delta ? view->present : view->runs;
    uint64_t count = is_delta ? view->header->present_count : view->header->run_count;
    struct source source = {.view = view, .sums_fd = is_delta ? base : part, .run_sums = view->sums};
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < count; i++)
        rc = read_run(&source, &runs[i], each, context, err);
    return rc;
}

static int check_base(const struct image_view *delta, int base, struct belay_error *err)
{
    struct image_header header;
    if (base >= 0 && pread(base, &header, sizeof header, 0) == (ssize_t)sizeof header &&
        header.magic == IMAGE_MAGIC && header.line == delta->header->base_line && header.base_line == 0 &&
        header.rank == delta->header->rank)
        return 0;
    return belay_error_set(err, EINVAL, "a delta does not belong to the image that is here");
}

/* What somebody else has made may name pages that are nowhere: as many as there are addresses. */
static int check_size(const struct image_view *view, int sums_fd, uint64_t page_bytes,
                      struct belay_error *err)
{
    const struct image_header *header = view->header;
    bool is_delta = header->base_line > 0;
    const struct image_run *runs = is_delta ? view->present : view->runs;
    uint64_t count = is_delta ? header->present_count : header->run_count, bytes = 0, there;
    struct stat st;
    if (fstat(sums_fd, &st) < 0)
        return belay_error_errno(err, "cannot read an image");
    there = (uint64_t)st.st_blocks * 512 + (is_delta ? header->sum_count * IMAGE_PAGE_BYTES : 0);
    for (uint64_t i = 0; i < count; i++)
        bytes += runs[i].bytes; /* they do not overlap */
    return bytes / IMAGE_PAGE_BYTES * page_bytes <= there
               ? 0
               : belay_error_set(err, EINVAL, "damaged image: it lacks pages that it names");
}

static void add(crypto_generichash_state *state, const void *bytes, uint64_t count)
{
    if (count > 0)
        crypto_generichash_update(state, bytes, count);
}

/* Where tables and pages lie in a file is the same of all whole images with these tables. */
static void add_tables(crypto_generichash_state *state, const struct image_view *view)
{
    const struct image_header *header = view->header;
    bool is_delta = header->base_line > 0;
    struct facts facts = {.what = "belay image 1",
                          .line = header->line,
                          .rank = header->rank,
                          .ranks = header->ranks,
                          .resume_context = header->resume_context,
                          .layout_version = header->layout_version,
                          .region_count = header->region_count,
                          .run_count = is_delta ? header->present_count : header->run_count,
                          .strings_bytes = header->strings_bytes,
                          .program = header->program,
                          .group = header->group};
    memcpy(facts.identity, header->identity, sizeof facts.identity);
    add(state, &facts, sizeof facts);
    add(state, view->regions, header->region_count * sizeof *view->regions);
    add(state, is_delta ? view->present : view->runs, facts.run_count * sizeof *view->runs);
    add(state, view->strings, header->strings_bytes);
}

static void hash_sums(void *context, uint64_t address, const uint64_t *sums, uint64_t count)
{
    (void)address;
    add(context, sums, count * sizeof *sums);
}

static int read_run(struct source *source, const struct image_run *run, root_sums_f *each, void *context,
                    struct belay_error *err)
{
    uint64_t sums[BLOCK_PAGES];
    uint64_t end = run->address + run->bytes;
    for (uint64_t address = run->address, pages; address < end; address += pages * IMAGE_PAGE_BYTES) {
        pages = (end - address) / IMAGE_PAGE_BYTES;
        pages = pages < BLOCK_PAGES ? pages : BLOCK_PAGES;
        size_t bytes = pages * sizeof *sums;
        if (pread(source->sums_fd, sums, bytes, (off_t)sums_offset(address)) != (ssize_t)bytes)
            return belay_error_set(err, EIO, "the sums of an image cannot be read");
        if (source->view->header->base_line > 0)
            put_delta_sums(source, address, pages, sums);
        each(context, address, sums, pages);
    }
    return 0;
}

/* Over those of the base. Called with ascending addresses, as the delta's runs are. */
static void put_delta_sums(struct source *source, uint64_t address, uint64_t pages, uint64_t *sums)
{
    const struct image_view *delta = source->view;
    uint64_t end = address + pages * IMAGE_PAGE_BYTES;
    while (source->run < delta->header->run_count) {
        const struct image_run *run = &delta->runs[source->run];
        uint64_t run_end = run->address + run->bytes;
        uint64_t first = run->address > address ? run->address : address;
        uint64_t last = run_end < end ? run_end : end;
        if (first < last)
            memcpy(sums + (first - address) / IMAGE_PAGE_BYTES,
                   source->run_sums + (first - run->address) / IMAGE_PAGE_BYTES, SUMS_OF_BYTES(last - first));
        if (run_end > end)
            return;
        source->run_sums += run->bytes / IMAGE_PAGE_BYTES;
        source->run++;
    }
}
