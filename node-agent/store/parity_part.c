#include "node-agent/store/parity_part.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/lines.h"
#include "common/image/sums.h"
#include "common/util/log.h"

#define CHUNK_BYTES (UINT64_C(1) << 18) /* read at once */

/* A part that is being made. */
struct making {
    const struct parity_part_request *request;
    int fd;                     /* where its pages go: the sum, or a delta */
    struct run_set base;        /* pages that the base has */
    struct run_set runs, drops; /* of the part */
    uint64_t data_end;          /* of a delta: where the next page goes */
    uint8_t *fresh, *old;       /* CHUNK_BYTES each */
};

static void write_set(const struct parity_holding *holding, char *text, size_t bytes);
static int look_at_sum(struct making *making);
static int look_at_extent(struct making *making, uint64_t start, uint64_t end);
static int take_page(struct making *making, uint64_t address, const uint8_t *fresh, bool is_in_base);
static int finish(struct making *making, struct belay_error *err);
static int load_base(struct making *making, struct belay_error *err);

/* "parity 3+1 2 4 0,1,-,3": code, position, slot, ranks. */
static void write_set(const struct parity_holding *holding, char *text, size_t bytes)
{
    int at = snprintf(text, bytes, "parity %u+%u %u %u ", (unsigned)holding->data, (unsigned)holding->parity,
                      (unsigned)holding->position, (unsigned)holding->slot);
    for (uint32_t i = 0; i < holding->data + holding->parity; i++)
        at += holding->ranks[i] == EPOCH_NOBODY
                  ? snprintf(text + at, bytes - (size_t)at, "-,")
                  : snprintf(text + at, bytes - (size_t)at, "%u,", (unsigned)holding->ranks[i]);
}

static int read_set(const char *text, struct parity_holding *holding)
{
    unsigned data, parity, position, slot;
    int used = 0;
    if (sscanf(text, "parity %u+%u %u %u %n", &data, &parity, &position, &slot, &used) != 4 || used == 0 ||
        parity == 0 || data > PARITY_MEMBERS_MAX || parity > data || data + parity > PARITY_MEMBERS_MAX ||
        position >= data + parity)
        return -1;
    holding->data = data;
    holding->parity = parity;
    holding->position = position;
    holding->slot = slot;
    text += used;
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++)
        holding->ranks[i] = EPOCH_NOBODY;
    for (uint32_t i = 0; i < data + parity; i++) {
        char *end = NULL;
        if (text[0] == '-') {
            end = (char *)(uintptr_t)text + 1;
        } else {
            unsigned long rank = strtoul(text, &end, 10);
            if (end == text || rank >= EPOCH_NOBODY)
                return -1;
            holding->ranks[i] = rank;
        }
        if (*end != ',')
            return -1;
        text = end + 1;
    }
    return *text == '\0' ? 0 : -1;
}

int parity_part_read(int fd, struct parity_holding *holding, struct belay_error *err)
{
    struct image_view view;
    if (image_load(fd, &view, err) < 0)
        return -1;
    int rc = view.header->group == IMAGE_OF_PARITY
                 ? read_set(image_string(&view, view.header->program), holding)
                 : -1;
    image_unload(&view);
    return rc == 0 ? 0 : belay_error_set(err, EINVAL, "damaged parity: it does not say of what");
}

bool parity_part_is_same(const struct parity_holding *one, const struct parity_holding *other)
{
    return one->data == other->data && one->parity == other->parity && one->position == other->position &&
           one->slot == other->slot &&
           memcmp(one->ranks, other->ranks, (one->data + one->parity) * sizeof *one->ranks) == 0;
}

int parity_part_make(const struct parity_part_request *request, struct belay_error *err)
{
    struct making making = {.request = request, .fd = request->sum, .data_end = IMAGE_PAGE_BYTES};
    int rc = 0;
    if (request->base >= 0)
        making.fd = image_make_memfd(err);
    else
        making.fd = fcntl(request->sum, F_DUPFD_CLOEXEC, 3);
    if (making.fd < 0)
        return request->base >= 0 ? -1 : belay_error_errno(err, "no descriptor for parity");
    making.fresh = malloc(2 * CHUNK_BYTES);
    if (!making.fresh)
        rc = belay_error_errno(err, "no memory for parity");
    making.old = making.fresh ? making.fresh + CHUNK_BYTES : NULL;
    if (rc == 0 && request->base >= 0)
        rc = load_base(&making, err);
    if (rc == 0 && look_at_sum(&making) < 0)
        rc = belay_error_errno(err, "no memory for parity");
    if (rc == 0)
        rc = finish(&making, err);
    free(making.fresh);
    runs_release(&making.base);
    runs_release(&making.runs);
    runs_release(&making.drops);
    if (rc == 0)
        return making.fd;
    close(making.fd);
    return -1;
}

static int load_base(struct making *making, struct belay_error *err)
{
    struct image_view view;
    if (image_load(making->request->base, &view, err) < 0)
        return -1;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < view.header->run_count; i++)
        rc = runs_append(&making->base, view.runs[i].address, view.runs[i].bytes);
    image_unload(&view);
    return rc < 0 ? belay_error_errno(err, "no memory for parity") : 0;
}

/* Whatever has been touched. Other pages are holes. */
static int look_at_sum(struct making *making)
{
    int sum = making->request->sum;
    off_t start = (off_t)IMAGE_DATA_BASE, end, limit = (off_t)image_offset(LAYOUT_END);
    while ((start = lseek(sum, start, SEEK_DATA)) >= 0 && start < limit) {
        end = lseek(sum, start, SEEK_HOLE);
        if (end < 0)
            return -1;
        end = end < limit ? end : limit;
        for (off_t at = start; at < end; at += (off_t)CHUNK_BYTES)
            if (look_at_extent(making, (uint64_t)at,
                               (uint64_t)(end - at < (off_t)CHUNK_BYTES ? end : at + (off_t)CHUNK_BYTES)) < 0)
                return -1;
        start = end;
    }
    return start < 0 && errno != ENXIO ? -1 : 0;
}

static int look_at_extent(struct making *making, uint64_t start, uint64_t end)
{
    const struct parity_part_request *request = making->request;
    uint64_t bytes = end - start, first = start - IMAGE_DATA_BASE;
    if (pread(request->sum, making->fresh, bytes, (off_t)start) != (ssize_t)bytes)
        return -1;
    if (request->base >= 0 && pread(request->base, making->old, bytes, (off_t)start) != (ssize_t)bytes)
        return -1;
    for (uint64_t at = 0; at < bytes; at += IMAGE_PAGE_BYTES) {
        uint8_t *fresh = making->fresh + at;
        uint64_t address = first + at, mask = lines_compare(NULL, fresh);
        size_t run = runs_find(&making->base, address);
        bool is_in_base = run < making->base.count && making->base.runs[run].address <= address;
        if (request->base >= 0 && mask == 0)
            continue; /* it is what it was */
        if (is_in_base)
            lines_fold(LINES_ALL, making->old + at, IMAGE_PAGE_BYTES, fresh);
        if (take_page(making, address, fresh, is_in_base) < 0)
            return -1;
    }
    if (request->base >= 0)
        return fallocate(request->sum, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start,
                         (off_t)bytes);
    struct belay_error err;
    int rc = sums_write(making->fd, first, making->fresh, bytes, &err); /* of pages of zeros, too */
    errno = rc < 0 ? err.code : errno;
    return rc;
}

/* A page of zeros takes no memory. */
static int take_page(struct making *making, uint64_t address, const uint8_t *fresh, bool is_in_base)
{
    bool is_zero = lines_compare(NULL, fresh) == 0, is_whole = making->request->base < 0;
    if (is_zero && is_whole)
        return fallocate(making->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)image_offset(address),
                         (off_t)IMAGE_PAGE_BYTES);
    if (is_zero)
        return is_in_base ? runs_append(&making->drops, address, IMAGE_PAGE_BYTES) : 0;
    if (!is_whole &&
        pwrite(making->fd, fresh, IMAGE_PAGE_BYTES, (off_t)making->data_end) != (ssize_t)IMAGE_PAGE_BYTES)
        return -1;
    making->data_end += is_whole ? 0 : IMAGE_PAGE_BYTES;
    return runs_append(&making->runs, address, IMAGE_PAGE_BYTES);
}

/* Where the pages of an image, or of a delta, are in its file. */
static void set_places(struct run_set *set, bool is_packed)
{
    uint64_t at = IMAGE_PAGE_BYTES;
    for (size_t i = 0; i < set->count; i++) {
        set->runs[i].data_offset = is_packed ? at : image_offset(set->runs[i].address);
        at += set->runs[i].bytes;
    }
}

static int find_present(const struct making *making, struct run_set *present)
{
    struct run_set all = {0};
    int rc = runs_union(&making->base, &making->runs, &all);
    if (rc == 0)
        rc = runs_subtract(&all, &making->drops, present);
    runs_release(&all);
    set_places(present, false);
    return rc;
}

static int finish(struct making *making, struct belay_error *err)
{
    const struct parity_part_request *request = making->request;
    static const struct image_region region = {.start = 0, .end = LAYOUT_END, .kind = IMAGE_REGION_ANON};
    bool is_whole = request->base < 0;
    struct image_header header = {.line = request->line,
                                  .rank = store_parity_part(request->world, (uint32_t)request->holding.slot),
                                  .ranks = 3 * request->world,
                                  .group = IMAGE_OF_PARITY},
                        of_base;
    struct run_set present = {0};
    char text[128 + 12 * PARITY_MEMBERS_MAX];
    struct image_writer *writer = image_writer_create();
    write_set(&request->holding, text, sizeof text);
    int rc = writer && image_writer_add_region(writer, &region, NULL) == 0 &&
                     image_writer_set_program(writer, text) == 0 &&
                     (is_whole || find_present(making, &present) == 0)
                 ? 0
                 : belay_error_errno(err, "no memory for parity");
    if (rc == 0 && !is_whole && pread(request->base, &of_base, sizeof of_base, 0) != (ssize_t)sizeof of_base)
        rc = belay_error_set(err, EIO, "the committed parity cannot be read");
    if (rc == 0) {
        set_places(&making->runs, !is_whole);
        header.base_line = is_whole ? 0 : of_base.line;
        const struct image_pages pages = {.runs = &making->runs,
                                          .drops = is_whole ? NULL : &making->drops,
                                          .present = is_whole ? NULL : &present};
        rc = image_writer_finish(writer, &pages, &header, making->fd,
                                 is_whole ? IMAGE_PAGE_BYTES : making->data_end, err);
    }
    runs_release(&present);
    image_writer_destroy(writer);
    return rc;
}

/* What is staged as a whole may be of another set than what is committed. */
static void list_slot(const struct store *store, uint32_t part, struct parity_holding *list, uint32_t *count)
{
    const struct holding lines = store_list_part(store, part);
    bool is_delta = lines.base_line > 0;
    struct belay_error err;
    uint64_t base_line;
    const struct {
        int fd;
        struct holding lines;
    } found[] = {
        {lines.image_line ? store_image(store, part) : -1,
         {lines.image_line, is_delta ? lines.staging_line : 0, lines.base_line}},
        {lines.staging_line && !is_delta ? store_staged(store, lines.staging_line, part, &base_line) : -1,
         {0, lines.staging_line, 0}},
    };
    for (int i = 0; i < 2; i++) {
        if (found[i].fd < 0)
            continue;
        list[*count] = (struct parity_holding){
            .lines = {found[i].lines.image_line, found[i].lines.staging_line, found[i].lines.base_line}};
        if (parity_part_read(found[i].fd, &list[*count], &err) == 0)
            ++*count;
        else
            log_warning("parity is not told of: %s", err.text);
    }
}

static void list_spare(const struct store *store, uint32_t slot, struct parity_holding *list, uint32_t *count)
{
    struct belay_error err;
    int fd = store_spare(store, slot);
    list[*count] = (struct parity_holding){.lines = {store_committed_line(store)}};
    if (fd >= 0 && parity_part_read(fd, &list[*count], &err) == 0)
        ++*count;
}

int store_list_parity(const struct store *store, struct parity_holding **holdings, uint32_t *count)
{
    uint32_t ranks = store_held_ranks(store), found = 0;
    struct parity_holding *list = calloc(3 * (size_t)ranks + 1, sizeof *list);
    *holdings = NULL;
    *count = 0;
    if (!list)
        return -1;
    for (uint32_t slot = 0; slot < ranks; slot++) {
        list_slot(store, store_parity_part(ranks, slot), list, &found);
        list_spare(store, slot, list, &found);
    }
    if (found > 0)
        *holdings = list;
    else
        free(list);
    *count = found;
    return 0;
}
