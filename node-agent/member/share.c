#include "node-agent/member/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/lines.h"
#include "common/util/array.h"

#define WINDOW_BYTES (UINT64_C(2) << 20)
#define CONTEXT_BYTES 64u /* of a map, at most */

struct share_pages {
    uint32_t references;    /* of the loop's thread */
    struct share_pages *of; /* whose files they are; NULL: its own */
    int staged, image;      /* ours; -1: none */
    struct share_piece *pieces;
    size_t count, room;
    uint64_t bytes; /* of all */
};

struct share {
    struct share_pages *pages;
    share_map_f *map;
    uint64_t context[CONTEXT_BYTES / sizeof(uint64_t)];
    void *owner;
    bool is_cancelled;          /* atomic */
    uint64_t given, page_bytes; /* atomic */

    /* the reader's: */
    size_t piece;
    uint64_t done;               /* of it */
    uint8_t *fresh, *old;        /* PARITY_BLOCK_BYTES each */
    uint64_t address, at, bytes; /* of what has been read: its place at the receiver; how much is used up */
    bool has_fresh, has_old;     /* else zeros */
    struct code_factor factor;   /* of it */
    uint8_t record[SHARE_RECORD_BYTES];
    size_t record_bytes, record_at; /* how much of it is given */
};

static int load(int fd, struct image_view *view, struct run_set *set, struct belay_error *err);
static int add_pieces(struct share_pages *pages, const struct image_view *staged, const struct run_set *base,
                      bool is_whole);
static int add_run(struct share_pages *pages, const struct image_run *run, bool is_of_staged, uint64_t fresh,
                   const struct run_set *base);
static int add_old(struct share_pages *pages, const struct run_set *set);
static int add_piece(struct share_pages *pages, struct share_piece piece);
static int read_block(struct share *share);
static int read_all(int fd, uint8_t *to, uint64_t bytes, uint64_t offset);
static size_t make_record(struct share *share, uint8_t *to);
static int take_record(struct share_intake *intake, const uint8_t *bytes);
static uint8_t *find_page(struct share_intake *intake, uint64_t address);
static void fold(const struct code_factor *factor, uint64_t mask, const uint8_t *lines, uint8_t *page);

/* ---- pages ---- */

struct share_pages *share_pages_staged(int staged, int image, bool is_whole, struct belay_error *err)
{
    struct share_pages *pages = calloc(1, sizeof *pages);
    struct image_view view = {0}, of_image = {0};
    struct run_set base = {0};
    if (!pages) {
        belay_error_set(err, ENOMEM, "no memory for a member's part in parity");
        return NULL;
    }
    pages->references = 1;
    pages->staged = fcntl(staged, F_DUPFD_CLOEXEC, 3);
    pages->image = image >= 0 ? fcntl(image, F_DUPFD_CLOEXEC, 3) : -1;
    int rc = pages->staged < 0 || (image >= 0 && pages->image < 0)
                 ? belay_error_errno(err, "no descriptor for a member's part in parity")
                 : 0;
    if (rc == 0)
        rc = image_load(staged, &view, err);
    if (rc == 0 && image >= 0)
        rc = load(image, &of_image, &base, err);
    if (rc == 0 && view.header->base_line > 0 && image < 0)
        rc = belay_error_set(err, EINVAL, "there is no image to which a delta is");
    if (rc == 0 && add_pieces(pages, &view, &base, is_whole) < 0)
        rc = belay_error_errno(err, "no memory for a member's part in parity");
    image_unload(&view);
    image_unload(&of_image);
    runs_release(&base);
    if (rc == 0)
        return pages;
    share_pages_unref(pages);
    return NULL;
}

struct share_pages *share_pages_of_image(int image, struct belay_error *err)
{
    return share_pages_staged(image, -1, true, err);
}

struct share_pages *share_pages_part(struct share_pages *of)
{
    struct share_pages *part = calloc(1, sizeof *part);
    if (part)
        *part = (struct share_pages){
            .references = 1, .of = share_pages_ref(of), .staged = of->staged, .image = of->image};
    return part;
}

/* The first piece of an image that ends behind an address; they ascend. */
static size_t find_piece(const struct share_pages *pages, uint64_t address)
{
    size_t low = 0, high = pages->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pages->pieces[middle].address + pages->pieces[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int share_pages_add(struct share_pages *part, uint64_t start, uint64_t end)
{
    const struct share_pages *of = part->of;
    for (size_t i = find_piece(of, start); i < of->count && of->pieces[i].address < end; i++) {
        struct share_piece piece = of->pieces[i];
        uint64_t last = piece.address + piece.bytes < end ? piece.address + piece.bytes : end;
        uint64_t skipped = piece.address < start ? start - piece.address : 0;
        piece.address += skipped;
        piece.fresh += skipped; /* of an image all content is there */
        piece.bytes = last - piece.address;
        if (add_piece(part, piece) < 0)
            return -1;
    }
    return 0;
}

struct share_pages *share_pages_ref(struct share_pages *pages)
{
    pages->references++;
    return pages;
}

void share_pages_unref(struct share_pages *pages)
{
    if (!pages || --pages->references > 0)
        return;
    if (!pages->of && pages->staged >= 0)
        close(pages->staged);
    if (!pages->of && pages->image >= 0)
        close(pages->image);
    share_pages_unref(pages->of);
    free(pages->pieces);
    free(pages);
}

static int load(int fd, struct image_view *view, struct run_set *set, struct belay_error *err)
{
    if (image_load(fd, view, err) < 0)
        return -1;
    for (uint64_t i = 0; i < view->header->run_count; i++)
        if (runs_append(set, view->runs[i].address, view->runs[i].bytes) < 0)
            return belay_error_errno(err, "no memory for a member's part in parity");
    return 0;
}

static int collect(const struct image_run *runs, uint64_t count, struct run_set *set)
{
    for (uint64_t i = 0; i < count; i++)
        if (runs_append(set, runs[i].address, runs[i].bytes) < 0)
            return -1;
    return 0;
}

/* base: the runs of the image. */
static int add_pieces(struct share_pages *pages, const struct image_view *staged, const struct run_set *base,
                      bool is_whole)
{
    static const struct run_set nothing;
    const struct image_header *header = staged->header;
    bool is_delta = header->base_line > 0;
    struct run_set fresh = {0}, drops = {0}, gone = {0};
    int rc = collect(staged->runs, header->run_count, &fresh);
    for (uint64_t i = 0; rc == 0 && i < header->run_count; i++)
        rc = add_run(pages, &staged->runs[i], true, staged->runs[i].data_offset, is_whole ? &nothing : base);
    if (rc == 0 && is_whole && is_delta) { /* what the image keeps */
        rc = collect(staged->present, header->present_count, &drops);
        if (rc == 0)
            rc = runs_subtract(&drops, &fresh, &gone);
        for (size_t i = 0; rc == 0 && i < gone.count; i++)
            rc = add_run(pages, &gone.runs[i], false, image_offset(gone.runs[i].address), &nothing);
    } else if (rc == 0 && is_delta) {
        rc = collect(staged->drops, header->drop_count, &drops);
        if (rc == 0 && (rc = runs_intersect(&drops, base, &gone)) == 0)
            rc = add_old(pages, &gone);
    } else if (rc == 0 && !is_whole && (rc = runs_subtract(base, &fresh, &gone)) == 0) {
        rc = add_old(pages, &gone);
    }
    runs_release(&fresh);
    runs_release(&drops);
    runs_release(&gone);
    return rc;
}

/* A run of fresh pages, split where the old image begins and ends to have them. */
static int add_run(struct share_pages *pages, const struct image_run *run, bool is_of_staged, uint64_t fresh,
                   const struct run_set *base)
{
    uint64_t end = run->address + run->bytes;
    size_t at = runs_find(base, run->address);
    for (uint64_t address = run->address, next; address < end; address = next) {
        const struct image_run *old = at < base->count ? &base->runs[at] : NULL;
        bool is_old = old && old->address <= address;
        next = !old ? end : is_old ? old->address + old->bytes : old->address;
        next = next < end ? next : end;
        const struct share_piece piece = {.address = address,
                                          .bytes = next - address,
                                          .fresh = fresh + (address - run->address),
                                          .old = is_old ? image_offset(address) : SHARE_ZERO,
                                          .is_of_delta = is_of_staged};
        if (add_piece(pages, piece) < 0)
            return -1;
        at += is_old && old->address + old->bytes == next;
    }
    return 0;
}

static int add_old(struct share_pages *pages, const struct run_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct share_piece piece = {.address = set->runs[i].address,
                                          .bytes = set->runs[i].bytes,
                                          .fresh = SHARE_ZERO,
                                          .old = image_offset(set->runs[i].address)};
        if (add_piece(pages, piece) < 0)
            return -1;
    }
    return 0;
}

static int add_piece(struct share_pages *pages, struct share_piece piece)
{
    if (array_reserve(&pages->pieces, pages->count + 1, &pages->room) < 0)
        return -1;
    pages->pieces[pages->count++] = piece;
    pages->bytes += piece.bytes;
    return 0;
}

/* ---- a share that goes ---- */

struct share *share_create(struct share_pages *pages, share_map_f *map, const void *context,
                           size_t context_bytes)
{
    struct share *share = context_bytes <= CONTEXT_BYTES ? calloc(1, sizeof *share) : NULL;
    if (share) {
        share->fresh = malloc(2 * PARITY_BLOCK_BYTES);
        share->pages = share_pages_ref(pages);
    }
    if (!share || !share->fresh) {
        share_destroy(share);
        errno = ENOMEM;
        return NULL;
    }
    share->old = share->fresh + PARITY_BLOCK_BYTES;
    share->map = map;
    memcpy(share->context, context, context_bytes);
    return share;
}

void share_destroy(struct share *share)
{
    if (!share)
        return;
    share_pages_unref(share->pages);
    free(share->fresh);
    free(share);
}

uint64_t share_bound(const struct share *share)
{
    uint64_t pages = 0, block;
    uint8_t coefficient;
    for (size_t i = 0; i < share->pages->count; i++) {
        const struct share_piece *piece = &share->pages->pieces[i];
        uint64_t end = piece->address + piece->bytes;
        for (uint64_t at = piece->address, next; at < end; at = next) {
            next = (at / PARITY_BLOCK_BYTES + 1) * PARITY_BLOCK_BYTES;
            next = next < end ? next : end;
            if (share->map(share->context, at / PARITY_BLOCK_BYTES, &block, &coefficient))
                pages += (next - at) / IMAGE_PAGE_BYTES;
        }
    }
    return pages * SHARE_RECORD_BYTES;
}

/* What is left of a record that had no room. */
static size_t give_rest(struct share *share, uint8_t *to, size_t room)
{
    size_t left = share->record_bytes - share->record_at, count = left < room ? left : room;
    memcpy(to, share->record + share->record_at, count);
    share->record_at += count;
    return count;
}

/* The next record, or as much of it as there is room for. Returns 0 if what has been read is used up. */
static size_t give_record(struct share *share, uint8_t *to, size_t room)
{
    if (room >= SHARE_RECORD_BYTES)
        return make_record(share, to);
    share->record_bytes = make_record(share, share->record);
    share->record_at = 0;
    return give_rest(share, to, room);
}

ssize_t share_fill(void *context, uint8_t *to, size_t room)
{
    struct share *share = context;
    size_t put = give_rest(share, to, room);
    while (put < room) {
        if (__atomic_load_n(&share->is_cancelled, __ATOMIC_SEQ_CST)) {
            errno = ECANCELED;
            return -1;
        }
        size_t count = give_record(share, to + put, room - put);
        int rc = count > 0 ? 1 : read_block(share);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        put += count;
    }
    /* the memory of what is staged may be used for the next line once this one is over */
    if (__atomic_load_n(&share->is_cancelled, __ATOMIC_SEQ_CST)) {
        errno = ECANCELED;
        return -1;
    }
    __atomic_fetch_add(&share->given, put, __ATOMIC_RELAXED);
    return (ssize_t)put;
}

void share_cancel(struct share *share)
{
    __atomic_store_n(&share->is_cancelled, true, __ATOMIC_SEQ_CST);
}

void share_set_owner(struct share *share, void *owner)
{
    share->owner = owner;
}

void *share_owner(const struct share *share)
{
    return share->owner;
}

uint64_t share_given(const struct share *share)
{
    return __atomic_load_n(&share->given, __ATOMIC_RELAXED);
}

/* The next part of a block that goes there. Returns 1, 0: there is none, or -1 with errno. */
static int read_block(struct share *share)
{
    const struct share_pages *pages = share->pages;
    while (share->piece < pages->count) {
        const struct share_piece *piece = &pages->pieces[share->piece];
        uint64_t address = piece->address + share->done, left = piece->bytes - share->done, to_block;
        uint64_t bytes = PARITY_BLOCK_BYTES - address % PARITY_BLOCK_BYTES, at = share->done;
        uint8_t coefficient;
        bytes = bytes < left ? bytes : left;
        share->done += bytes;
        if (share->done == piece->bytes) {
            share->piece++;
            share->done = 0;
        }
        if (!share->map(share->context, address / PARITY_BLOCK_BYTES, &to_block, &coefficient))
            continue;
        share->address = to_block * PARITY_BLOCK_BYTES + address % PARITY_BLOCK_BYTES;
        share->bytes = bytes;
        share->at = 0;
        share->has_fresh = piece->fresh != SHARE_ZERO;
        share->has_old = piece->old != SHARE_ZERO;
        __atomic_fetch_add(&share->page_bytes, bytes, __ATOMIC_RELAXED);
        if (coefficient != share->factor.value)
            code_factor_set(&share->factor, coefficient);
        if (share->has_fresh && read_all(piece->is_of_delta ? pages->staged : pages->image, share->fresh,
                                         bytes, piece->fresh + at) < 0)
            return -1;
        if (share->has_old && read_all(pages->image, share->old, bytes, piece->old + at) < 0)
            return -1;
        return 1;
    }
    return 0;
}

static int read_all(int fd, uint8_t *to, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got < 0 ? errno : EIO;
            return -1;
        }
        done += (uint64_t)got;
    }
    return 0;
}

/* Of the next page that has changed. Returns its size, 0: there is none in what has been read. */
static size_t make_record(struct share *share, uint8_t *to)
{
    uint8_t product[IMAGE_PAGE_BYTES], both[IMAGE_PAGE_BYTES];
    while (share->at < share->bytes) {
        const uint8_t *fresh = share->has_fresh ? share->fresh + share->at : NULL;
        const uint8_t *old = share->has_old ? share->old + share->at : NULL;
        struct share_record record = {.address = share->address + share->at,
                                      .lines = lines_compare(old, fresh)};
        share->at += IMAGE_PAGE_BYTES;
        if (record.lines == 0)
            continue;
        if (share->factor.value != 1) { /* of elements that are not 0 the product is not 0 */
            memset(product, 0, sizeof product);
            lines_pack_xor(LINES_ALL, old, fresh, both);
            code_fold(&share->factor, both, product, sizeof product);
            fresh = product;
            old = NULL;
        }
        memcpy(to, &record, sizeof record);
        return sizeof record + lines_pack_xor(record.lines, old, fresh, to + sizeof record);
    }
    return 0;
}

uint64_t share_page_bytes(const struct share *share)
{
    return __atomic_load_n(&share->page_bytes, __ATOMIC_RELAXED);
}

/* ---- a share that comes ---- */

void share_sum_init(struct share_sum *sum, int fd, uint64_t bytes_max)
{
    *sum = (struct share_sum){.fd = fd, .pages_max = bytes_max / IMAGE_PAGE_BYTES};
    pthread_mutex_init(&sum->lock, NULL);
}

void share_sum_init_memory(struct share_sum *sum, share_page_f *page, const void *context, uint64_t bytes_max)
{
    share_sum_init(sum, -1, bytes_max);
    sum->page = page;
    sum->context = context;
}

void share_sum_release(struct share_sum *sum)
{
    pthread_mutex_destroy(&sum->lock);
}

void share_intake_begin(struct share_intake *intake, struct share_sum *sum, share_weigh_f *weigh,
                        const void *context)
{
    *intake = (struct share_intake){.sum = sum, .weigh = weigh, .context = context};
    code_factor_set(&intake->factor, 1);
}

/* Of a record whose header has come: its size; 0: it is none. */
static size_t record_size(const uint8_t *bytes)
{
    struct share_record record;
    memcpy(&record, bytes, sizeof record);
    return record.lines ? sizeof record + lines_bytes(record.lines) : 0;
}

/* A record that has come as a whole, where it is. Returns its size, 0: it has not, or -1 with errno. */
static ssize_t take_in_place(struct share_intake *intake, const uint8_t *bytes, size_t count)
{
    size_t whole = intake->got == 0 && count > sizeof(struct share_record) ? record_size(bytes) : SIZE_MAX;
    if (whole == 0) {
        errno = EBADMSG;
        return -1;
    }
    return whole > count ? 0 : take_record(intake, bytes) < 0 ? -1 : (ssize_t)whole;
}

/* The same of one that comes in parts. */
static ssize_t take_part(struct share_intake *intake, const uint8_t *bytes, size_t count)
{
    const size_t header = sizeof(struct share_record);
    size_t whole = intake->got >= header ? record_size(intake->record) : header;
    size_t used = whole - intake->got < count ? whole - intake->got : count;
    memcpy(intake->record + intake->got, bytes, used);
    intake->got += used;
    if (intake->got == header && record_size(intake->record) == 0) {
        errno = EBADMSG;
        return -1;
    }
    if (intake->got > header && intake->got == whole) {
        intake->got = 0;
        return take_record(intake, intake->record) < 0 ? -1 : (ssize_t)used;
    }
    return (ssize_t)used;
}

int share_intake_take(struct share_intake *intake, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        ssize_t used = take_in_place(intake, bytes, count);
        if (used == 0)
            used = take_part(intake, bytes, count);
        if (used < 0)
            return -1;
        bytes += used;
        count -= (size_t)used;
    }
    return 0;
}

bool share_intake_end(struct share_intake *intake)
{
    if (intake->window)
        munmap(intake->window, WINDOW_BYTES);
    intake->window = NULL;
    return intake->got == 0;
}

/* Nothing of it is believed but what is checked here. */
static int take_record(struct share_intake *intake, const uint8_t *bytes)
{
    struct share_sum *sum = intake->sum;
    struct share_record record;
    memcpy(&record, bytes, sizeof record);
    if (record.address % IMAGE_PAGE_BYTES != 0 || record.address >= LAYOUT_END) {
        errno = EBADMSG;
        return -1;
    }
    uint8_t coefficient = intake->weigh ? intake->weigh(intake->context, record.address) : 1;
    if (coefficient == 0) {
        errno = EBADMSG;
        return -1;
    }
    if (coefficient != intake->factor.value)
        code_factor_set(&intake->factor, coefficient);
    uint8_t *page = find_page(intake, record.address);
    if (!page)
        return -1;
    pthread_mutex_lock(&sum->lock);
    bool is_short = sum->pages >= sum->pages_max;
    sum->pages += !is_short;
    if (!is_short)
        fold(&intake->factor, record.lines, bytes + sizeof record, page);
    pthread_mutex_unlock(&sum->lock);
    errno = ENOMEM;
    return is_short ? -1 : 0;
}

static uint8_t *find_page(struct share_intake *intake, uint64_t address)
{
    if (intake->sum->page) {
        errno = EBADMSG;
        return intake->sum->page(intake->sum->context, address);
    }
    uint64_t offset = image_offset(address), start = offset / WINDOW_BYTES * WINDOW_BYTES;
    if (!intake->window || start != intake->window_start) {
        if (intake->window)
            munmap(intake->window, WINDOW_BYTES);
        intake->window =
            mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, intake->sum->fd, (off_t)start);
        if (intake->window == MAP_FAILED) {
            intake->window = NULL;
            return NULL;
        }
        intake->window_start = start;
    }
    return intake->window + (offset - start);
}

static void fold(const struct code_factor *factor, uint64_t mask, const uint8_t *lines, uint8_t *page)
{
    if (factor->value == 1) {
        lines_fold(mask, lines, lines_bytes(mask), page);
        return;
    }
    while (mask) { /* runs of lines */
        unsigned first = (unsigned)__builtin_ctzll(mask);
        uint64_t rest = ~(mask >> first);
        unsigned count = rest ? (unsigned)__builtin_ctzll(rest) : 64;
        size_t bytes = (size_t)count * LINE_BYTES;
        code_fold(factor, lines, page + (size_t)first * LINE_BYTES, bytes);
        lines += bytes;
        mask = first + count < 64 ? mask >> (first + count) << (first + count) : 0;
    }
}

int share_add(struct share *share, struct share_sum *sum)
{
    struct share_intake intake;
    uint8_t *buffer = malloc(PARITY_BLOCK_BYTES);
    ssize_t count = buffer ? 1 : -1;
    share_intake_begin(&intake, sum, NULL, NULL);
    while (count > 0) {
        count = share_fill(share, buffer, PARITY_BLOCK_BYTES);
        if (count > 0 && share_intake_take(&intake, buffer, (size_t)count) < 0)
            count = -1;
    }
    int code = errno;
    share_intake_end(&intake);
    free(buffer);
    errno = code;
    return (int)count;
}
