#include "node-agent/member/rebuild.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/root.h"
#include "common/image/sums.h"
#include "common/util/log.h"
#include "node-agent/loop/pool.h"
#include "node-agent/member/incoming.h"
#include "node-agent/member/outgoing.h"
#include "node-agent/member/share.h"
#include "node-agent/store/store.h"

#define NOTE_MAGIC 0x61687362u
#define COPY_BYTES (UINT64_C(1) << 20)

enum note_kind { NOTE_NONE = 0, NOTE_WANT, NOTE_SHARE, NOTE_REFUSED };
enum note_what { WHAT_NONE = 0, WHAT_TABLES, WHAT_IMAGE, WHAT_PARITY };

/* A word, and the tag in front of a share. */
struct note {
    uint32_t magic;
    uint32_t kind, what; /* enum note_kind, note_what */
    uint32_t epoch;
    uint32_t rank, position, ranks; /* the rank that is made again; whose share; ranks of the world */
    int32_t error;                  /* REFUSED: errno */
    uint32_t has_shared;            /* SHARE of TABLES */
    uint32_t reserved;
    uint64_t line;
};

/* What this node gives: to another one, or to itself. */
struct giving {
    struct giving *next;
    struct rebuilder *rebuilder; /* NULL: gone */
    struct epoch_rebuild plan;
    enum note_what what;
    uint32_t position;
    uint8_t coefficients[PARITY_MEMBERS_MAX]; /* by codeword */
    struct store_pin pin;
    struct share *share;       /* NULL: tables */
    struct outgoing *outgoing; /* of tables */
};

/* An image that is made here. */
struct making {
    struct making *next;
    struct rebuilder *rebuilder; /* NULL: gone */
    uint32_t references;         /* that come, and a thread */
    struct epoch_rebuild plan;
    uint64_t line;
    uint32_t ranks;
    bool awaits_tables, has_shared, is_over;
    uint32_t images, parities; /* masks of positions whose shares are awaited */
    uint32_t coming_images, coming_parities;
    struct incoming incoming; /* its memfd gets the tables, and all shares */
    struct share_sum sum;
    struct giving *own; /* shares that are here */
    struct pool_work *work;
    bool is_busy; /* a thread is at work */
    uint64_t got; /* atomic: bytes that have come */
    struct rebuilt rebuilt;
    struct belay_error err;
};

/* A share that comes. */
struct arrival {
    struct making *making;
    struct note note;
    struct share_intake intake; /* not of tables */
};

struct rebuilder {
    struct job *job;
    struct remotes *remotes;
    const struct epoch_start *start;
    uint32_t own; /* index */
    rebuilder_done_f *done;
    void *context;
    struct making *makings;
    struct giving *givings;
};

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake);
static void on_lost(void *context, uint32_t node);
static int give(struct rebuilder *rebuilder, uint32_t node, const struct note *note);
static struct giving *giving_create(struct rebuilder *rebuilder, const struct epoch_rebuild *plan,
                                    enum note_what what, uint32_t position, struct belay_error *err);
static void giving_destroy(struct giving *giving);
static int ask_all(struct making *making, struct belay_error *err);
static void go_on(struct making *making);
static void fail(struct making *making, const char *why);
static void making_unref(struct making *making);
static void run(void *context, uint32_t part);
static void after(void *context, bool is_cancelled);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = on_offered, .lost = on_lost};
static const struct pool_ops pool_ops = {.run = run, .done = after};

struct rebuilder *rebuilder_create(struct job *job, struct remotes *remotes, const struct epoch_start *start,
                                   rebuilder_done_f *done, void *context)
{
    struct rebuilder *rebuilder = calloc(1, sizeof *rebuilder);
    if (!rebuilder)
        return NULL;
    *rebuilder = (struct rebuilder){.job = job,
                                    .remotes = remotes,
                                    .start = start,
                                    .own = epoch_start_index(start, job->config->node),
                                    .done = done,
                                    .context = context};
    remotes_hear(remotes, REMOTES_SHARES, &remotes_ops, rebuilder);
    return rebuilder;
}

void rebuilder_destroy(struct rebuilder *rebuilder)
{
    if (!rebuilder)
        return;
    rebuilder_stop(rebuilder);
    while (rebuilder->givings) {
        struct giving *giving = rebuilder->givings;
        rebuilder->givings = giving->next;
        store_image_unpin(rebuilder->job->store, &giving->pin);
        giving->rebuilder = NULL;
        if (giving->outgoing) {
            outgoing_cancel(giving->outgoing); /* it is not told of its end */
            giving->outgoing = NULL;
            giving_destroy(giving);
        } else {
            share_cancel(giving->share); /* on_given() follows */
        }
    }
    remotes_hear(rebuilder->remotes, REMOTES_SHARES, NULL, NULL);
    free(rebuilder);
}

void rebuilder_stop(struct rebuilder *rebuilder)
{
    while (rebuilder->makings) {
        struct making *making = rebuilder->makings;
        rebuilder->makings = making->next;
        making->rebuilder = NULL;
        for (struct giving *own = making->own; own; own = own->next)
            store_image_unpin(rebuilder->job->store, &own->pin);
        making_unref(making);
    }
}

uint64_t rebuilder_bytes(const struct rebuilder *rebuilder)
{
    uint64_t bytes = 0;
    for (const struct making *making = rebuilder->makings; making; making = making->next)
        bytes += __atomic_load_n(&making->got, __ATOMIC_RELAXED);
    return bytes;
}

bool rebuilder_is_busy(const struct rebuilder *rebuilder)
{
    for (const struct making *making = rebuilder->makings; making; making = making->next)
        if (making->is_busy)
            return true;
    return false;
}

static struct note note_of(const struct rebuilder *rebuilder, enum note_kind kind, enum note_what what,
                           uint32_t rank, uint32_t position)
{
    return (struct note){.magic = NOTE_MAGIC,
                         .kind = kind,
                         .what = what,
                         .epoch = rebuilder->start->epoch,
                         .rank = rank,
                         .position = position,
                         .ranks = rebuilder->start->rank_count,
                         .line = rebuilder->start->line};
}

static bool read_note(const struct rebuilder *rebuilder, const void *bytes, size_t count, struct note *note)
{
    if (count != sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == NOTE_MAGIC && note->epoch == rebuilder->start->epoch &&
           note->ranks == rebuilder->start->rank_count && note->rank < note->ranks && note->line > 0 &&
           note->line == rebuilder->start->line && note->position < PARITY_MEMBERS_MAX;
}

/* The member that has a part, by the arbiter's decision. */
static uint32_t source_of(const struct epoch_rebuild *plan, enum note_what what, uint32_t position)
{
    return what == WHAT_TABLES                     ? plan->tables
           : position >= plan->data + plan->parity ? EPOCH_NOBODY
           : what == WHAT_IMAGE                    ? plan->images[position]
           : what == WHAT_PARITY                   ? plan->parities[position]
                                                   : EPOCH_NOBODY;
}

/* ---- shares that this node gives ---- */

/* Where a block of an image, or of parity, belongs in the image that is made. */
static bool route_block(const void *context, uint64_t block, uint64_t *to_block, uint8_t *coefficient)
{
    const struct giving *giving = *(const struct giving *const *)context;
    const struct parity_code code = {giving->plan.data, giving->plan.parity};
    uint32_t size = code.data + code.parity, codeword;
    uint64_t row;
    if (giving->what == WHAT_IMAGE) {
        row = block / code.data;
        codeword = parity_codeword(code, giving->position, (uint32_t)(block % code.data));
    } else {
        row = block / code.parity;
        codeword = (giving->position + size - (uint32_t)(block % code.parity)) % size;
    }
    uint32_t column = parity_column(code, giving->plan.position, codeword);
    *coefficient = giving->coefficients[codeword];
    *to_block = row * code.data + column;
    return column < code.data && *coefficient != 0;
}

static uint32_t part_of(const struct rebuilder *rebuilder, const struct epoch_rebuild *plan,
                        enum note_what what, uint32_t position)
{
    uint32_t ranks = rebuilder->start->rank_count;
    return what == WHAT_TABLES  ? store_tables_part(ranks, plan->rank)
           : what == WHAT_IMAGE ? plan->ranks[position]
                                : store_parity_part(ranks, plan->slot);
}

/* Only of a position's own kind: of an image all blocks of data, of parity the others. */
static bool is_of_kind(const struct epoch_rebuild *plan, enum note_what what, uint32_t position,
                       uint32_t codeword)
{
    const struct parity_code code = {plan->data, plan->parity};
    return (parity_column(code, position, codeword) < code.data) == (what == WHAT_IMAGE);
}

/* Whether any block of it is needed. */
static bool find_coefficients(const struct epoch_rebuild *plan, enum note_what what, uint32_t position,
                              uint8_t *coefficients)
{
    bool is_any = false;
    for (uint32_t codeword = 0; codeword < plan->data + plan->parity; codeword++) {
        coefficients[codeword] =
            is_of_kind(plan, what, position, codeword) ? code_rebuild(plan, codeword, position) : 0;
        is_any |= coefficients[codeword] != 0;
    }
    return is_any;
}

static struct giving *giving_create(struct rebuilder *rebuilder, const struct epoch_rebuild *plan,
                                    enum note_what what, uint32_t position, struct belay_error *err)
{
    struct store *store = rebuilder->job->store;
    uint32_t part = part_of(rebuilder, plan, what, position);
    struct giving *giving = calloc(1, sizeof *giving);
    if (!giving) {
        belay_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    giving->rebuilder = rebuilder;
    giving->plan = *plan;
    giving->what = what;
    giving->position = position;
    if (store_image_line(store, part) != rebuilder->start->line) {
        free(giving);
        belay_error_set(err, ENODATA, "it is not held there");
        return NULL;
    }
    if (store_image_pin(store, part, PIN_FETCHED, &giving->pin, err) < 0) {
        free(giving);
        return NULL;
    }
    if (what == WHAT_TABLES)
        return giving;
    find_coefficients(plan, what, position, giving->coefficients);
    const struct giving *self = giving;
    struct share_pages *pages = share_pages_of_image(giving->pin.fd, err);
    giving->share = pages ? share_create(pages, route_block, &self, sizeof self) : NULL;
    share_pages_unref(pages);
    if (giving->share)
        return giving;
    belay_error_set(err, ENOMEM, "out of memory");
    store_image_unpin(store, &giving->pin);
    free(giving);
    return NULL;
}

static void giving_destroy(struct giving *giving)
{
    share_destroy(giving->share);
    free(giving);
}

static void end_giving(struct giving *giving, int error)
{
    struct rebuilder *rebuilder = giving->rebuilder;
    struct giving **at = rebuilder ? &rebuilder->givings : NULL;
    while (at && *at != giving)
        at = &(*at)->next;
    if (at)
        *at = giving->next;
    if (rebuilder && error)
        log_warning("job \"%s\": a share of rank %" PRIu32
                    " has not reached the node that makes its image: %s",
                    rebuilder->job->name, giving->plan.rank, strerror(error));
    if (rebuilder)
        store_image_unpin(rebuilder->job->store, &giving->pin);
    giving_destroy(giving);
}

static void on_given(void *context, int error)
{
    end_giving(share_owner(context), error);
}

static void on_tables_given(void *context, int error, const struct outgoing_figures *figures)
{
    (void)figures;
    end_giving(context, error);
}

/* Returns 0 or an errno. */
static int give(struct rebuilder *rebuilder, uint32_t node, const struct note *note)
{
    const struct epoch_start *start = rebuilder->start;
    const struct epoch_rebuild *plan = epoch_start_rebuild(start, note->rank);
    struct belay_error err = {.code = ENOMEM};
    struct note tag = *note;
    if (!plan || start->members[start->placement[note->rank]] != node ||
        source_of(plan, (enum note_what)note->what, note->position) != rebuilder->own)
        return EPERM;
    struct giving *giving = giving_create(rebuilder, plan, (enum note_what)note->what, note->position, &err);
    if (!giving)
        return err.code;
    tag.kind = NOTE_SHARE;
    fault_hit("agent.rebuild.give", (int)note->rank, note->line);
    int rc;
    if (giving->share) {
        share_set_owner(giving->share, giving);
        rc = remotes_push(rebuilder->remotes, REMOTES_SHARES, node, &tag, sizeof tag,
                          share_bound(giving->share), share_fill, on_given, giving->share);
    } else {
        tag.has_shared = store_image(rebuilder->job->store, start->rank_count + note->rank) >= 0;
        const struct outgoing_request request = {.loop = rebuilder->job->agent->loop,
                                                 .remotes = rebuilder->remotes,
                                                 .subject = REMOTES_SHARES,
                                                 .node = node,
                                                 .tag = &tag,
                                                 .tag_bytes = sizeof tag,
                                                 .part = giving->pin.fd,
                                                 .form = OUTGOING_AS_IT_IS,
                                                 .base = -1,
                                                 .is_tables = true,
                                                 .line = note->line,
                                                 .rank = note->rank,
                                                 .done = on_tables_given,
                                                 .context = giving};
        giving->outgoing = outgoing_start(&request, &err);
        rc = giving->outgoing ? 0 : -1;
    }
    if (rc < 0) {
        store_image_unpin(rebuilder->job->store, &giving->pin);
        giving_destroy(giving);
        return EHOSTUNREACH;
    }
    giving->next = rebuilder->givings;
    rebuilder->givings = giving;
    return 0;
}

/* ---- an image that is made here ---- */

static struct making *find_making(const struct rebuilder *rebuilder, uint32_t rank)
{
    struct making *making = rebuilder->makings;
    while (making && making->plan.rank != rank)
        making = making->next;
    return making;
}

int rebuilder_begin(struct rebuilder *rebuilder, uint32_t rank, struct belay_error *err)
{
    const struct epoch_rebuild *plan = epoch_start_rebuild(rebuilder->start, rank);
    const struct job *job = rebuilder->job;
    struct making *making = plan ? calloc(1, sizeof *making) : NULL;
    if (!making || incoming_begin(&making->incoming, err) < 0) {
        free(making);
        return belay_error_set(err, plan ? ENOMEM : ENODATA, "no memory for the image of rank %" PRIu32,
                               rank);
    }
    making->references = 1;
    making->rebuilder = rebuilder;
    making->plan = *plan;
    making->line = rebuilder->start->line;
    making->ranks = rebuilder->start->rank_count;
    making->rebuilt.fd = -1;
    share_sum_init(&making->sum, making->incoming.fd,
                   store_room(job->store, job->config->settings->memory_bytes) * plan->data);
    making->next = rebuilder->makings;
    rebuilder->makings = making;
    if (ask_all(making, err) == 0) {
        go_on(making);
        return 0;
    }
    rebuilder->makings = making->next;
    making->rebuilder = NULL;
    making_unref(making);
    return -1;
}

/* From this node, or another one. */
static int ask(struct making *making, enum note_what what, uint32_t position, struct belay_error *err)
{
    struct rebuilder *rebuilder = making->rebuilder;
    uint32_t member = source_of(&making->plan, what, position);
    if (member == rebuilder->own) {
        struct giving *own = giving_create(rebuilder, &making->plan, what, position, err);
        if (!own)
            return -1;
        own->next = making->own;
        making->own = own;
        return 0;
    }
    const struct note word = note_of(rebuilder, NOTE_WANT, what, making->plan.rank, position);
    uint32_t node = rebuilder->start->members[member];
    if (remotes_say(rebuilder->remotes, REMOTES_SHARES, node, &word, sizeof word) < 0)
        return belay_error_errno(err, "node %" PRIu32 " cannot be asked for its share", node);
    if (what == WHAT_TABLES)
        making->awaits_tables = true;
    else if (what == WHAT_IMAGE)
        making->images |= 1u << position;
    else
        making->parities |= 1u << position;
    return 0;
}

static int ask_all(struct making *making, struct belay_error *err)
{
    const struct epoch_rebuild *plan = &making->plan;
    uint8_t coefficients[PARITY_MEMBERS_MAX];
    if (ask(making, WHAT_TABLES, 0, err) < 0)
        return -1;
    if (!making->awaits_tables)
        making->has_shared = store_image(making->rebuilder->job->store, making->ranks + plan->rank) >= 0;
    for (uint32_t i = 0; i < plan->data + plan->parity; i++) {
        if (plan->images[i] != EPOCH_NOBODY && find_coefficients(plan, WHAT_IMAGE, i, coefficients) &&
            ask(making, WHAT_IMAGE, i, err) < 0)
            return -1;
        if (plan->parities[i] != EPOCH_NOBODY && find_coefficients(plan, WHAT_PARITY, i, coefficients) &&
            ask(making, WHAT_PARITY, i, err) < 0)
            return -1;
    }
    return 0;
}

/* What is here is added first; when all has come, the image is checked. In a thread. */
static void go_on(struct making *making)
{
    if (making->is_over || making->is_busy || !making->rebuilder)
        return;
    if (!making->own && (making->awaits_tables || making->images || making->parities))
        return;
    making->work = pool_start(making->rebuilder->job->agent->loop, 1, &pool_ops, making);
    if (!making->work) {
        fail(making, "there is no memory to check it");
        return;
    }
    making->is_busy = true;
    making->references++;
}

static int copy_range(int from, int to, uint64_t offset, uint64_t bytes)
{
    char *block = malloc(COPY_BYTES);
    int rc = block ? 0 : -1;
    for (uint64_t done = 0; rc == 0 && done < bytes;) {
        uint64_t want = bytes - done < COPY_BYTES ? bytes - done : COPY_BYTES;
        ssize_t got = pread(from, block, want, (off_t)(offset + done));
        if (got <= 0 || pwrite(to, block, (size_t)got, (off_t)(offset + done)) != got)
            rc = -1;
        else
            done += (uint64_t)got;
    }
    free(block);
    return rc;
}

static int copy_tables(int from, int to, struct belay_error *err)
{
    struct image_view view;
    if (image_load(from, &view, err) < 0)
        return -1;
    const struct image_header *header = view.header;
    int rc = copy_range(from, to, 0, sizeof *header);
    if (rc == 0)
        rc = copy_range(from, to, header->tables_offset, header->tables_bytes);
    for (uint64_t i = 0; rc == 0 && i < header->run_count; i++)
        rc = copy_range(from, to, sums_offset(view.runs[i].address), SUMS_OF_BYTES(view.runs[i].bytes));
    image_unload(&view);
    return rc < 0 ? belay_error_errno(err, "no memory for the tables of an image") : 0;
}

/* Shares of larger images have left pages of zeros behind it. */
static int give_back_rest(int fd, const struct image_view *view)
{
    struct run_set touched = {0}, kept = {0}, rest = {0};
    off_t start = (off_t)IMAGE_DATA_BASE, limit = (off_t)image_offset(LAYOUT_END);
    int rc = 0;
    while (rc == 0 && (start = lseek(fd, start, SEEK_DATA)) >= 0 && start < limit) {
        off_t end = lseek(fd, start, SEEK_HOLE);
        end = end < limit ? end : limit;
        rc = end < 0 ? -1 : runs_append(&touched, (uint64_t)start - IMAGE_DATA_BASE, (uint64_t)(end - start));
        start = end;
    }
    for (uint64_t i = 0; rc == 0 && i < view->header->run_count; i++)
        rc = runs_append(&kept, view->runs[i].address, view->runs[i].bytes);
    if (rc == 0)
        rc = runs_subtract(&touched, &kept, &rest);
    for (size_t i = 0; rc == 0 && i < rest.count; i++)
        rc = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       (off_t)image_offset(rest.runs[i].address), (off_t)rest.runs[i].bytes);
    runs_release(&touched);
    runs_release(&kept);
    runs_release(&rest);
    return rc;
}

static void check(struct making *making)
{
    struct belay_error *err = &making->err;
    struct image_view view;
    int fd = making->incoming.fd;
    if (image_load(fd, &view, err) < 0)
        return;
    if (fault_hit("agent.rebuild.made", (int)making->plan.rank, making->line))
        fault_flip(fd, image_first_data(&view));
    const struct image_header *header = view.header;
    making->rebuilt.bytes = header->total_bytes;
    if (header->line != making->line || header->base_line != 0 || header->rank != making->plan.rank ||
        header->ranks != making->ranks)
        belay_error_set(err, EBADMSG, "its tables are of another image");
    else if (give_back_rest(fd, &view) < 0)
        belay_error_errno(err, "pages cannot be given back");
    else if (sums_check(fd, &view, NULL, err) == 0 && root_of_image(fd, -1, &making->rebuilt.root, err) == 0)
        err->code = 0;
    image_unload(&view);
}

static void run(void *context, uint32_t part)
{
    struct making *making = context;
    (void)part;
    making->err.code = 0;
    if (!making->own) {
        check(making);
        return;
    }
    for (struct giving *own = making->own; own && making->err.code == 0; own = own->next)
        if (own->what == WHAT_TABLES)
            copy_tables(own->pin.fd, making->incoming.fd, &making->err);
        else if (share_add(own->share, &making->sum) < 0)
            belay_error_errno(&making->err, "a share cannot be added");
}

static void after(void *context, bool is_cancelled)
{
    struct making *making = context;
    struct rebuilder *rebuilder = making->rebuilder;
    bool had_own = making->own != NULL;
    (void)is_cancelled; /* never */
    making->is_busy = false;
    making->work = NULL;
    while (making->own) {
        struct giving *own = making->own;
        making->own = own->next;
        if (rebuilder)
            store_image_unpin(rebuilder->job->store, &own->pin);
        giving_destroy(own);
    }
    if (rebuilder && !making->is_over && making->err.code) {
        fail(making, making->err.text);
    } else if (rebuilder && !making->is_over && had_own) {
        go_on(making);
    } else if (rebuilder && !making->is_over) {
        making->is_over = true;
        making->rebuilt.fd = making->incoming.fd;
        making->rebuilt.has_shared = making->has_shared;
        making->incoming.fd = -1;
        rebuilder->done(rebuilder->context, making->plan.rank, &making->rebuilt, NULL);
    }
    making_unref(making);
}

static void fail(struct making *making, const char *why)
{
    struct rebuilder *rebuilder = making->rebuilder;
    struct belay_error err;
    if (making->is_over)
        return;
    making->is_over = true;
    belay_error_set(&err, EREMOTEIO,
                    "job \"%s\": the image of rank %" PRIu32 " cannot be made again from parity: %s",
                    rebuilder->job->name, making->plan.rank, why);
    rebuilder->done(rebuilder->context, making->plan.rank, NULL, &err);
}

static void making_unref(struct making *making)
{
    if (--making->references > 0)
        return;
    while (making->own) {
        struct giving *own = making->own;
        making->own = own->next;
        giving_destroy(own);
    }
    incoming_end(&making->incoming);
    share_sum_release(&making->sum);
    free(making);
}

/* ---- words and shares that come ---- */

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct rebuilder *rebuilder = context;
    struct note note;
    if (!read_note(rebuilder, bytes, count, &note))
        return;
    if (note.kind == NOTE_WANT) {
        int code = give(rebuilder, node, &note);
        if (code == 0)
            return;
        note.kind = NOTE_REFUSED;
        note.error = code;
        if (remotes_say(rebuilder->remotes, REMOTES_SHARES, node, &note, sizeof note) < 0)
            log_info("node %" PRIu32 " cannot be told that it gets no share", node); /* it hears of that */
        return;
    }
    struct making *making = note.kind == NOTE_REFUSED ? find_making(rebuilder, note.rank) : NULL;
    uint32_t source =
        making ? source_of(&making->plan, (enum note_what)note.what, note.position) : EPOCH_NOBODY;
    if (source != EPOCH_NOBODY && rebuilder->start->members[source] == node)
        fail(making, note.error == ENODATA ? "a share of it is not held any more" : strerror(note.error));
}

static void on_lost(void *context, uint32_t node)
{
    struct rebuilder *rebuilder = context;
    uint32_t index = epoch_start_index(rebuilder->start, node);
    for (struct making *making = rebuilder->makings; making; making = making->next) {
        bool is_source = making->awaits_tables && making->plan.tables == index;
        for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++)
            is_source |= (making->images & 1u << i && making->plan.images[i] == index) ||
                         (making->parities & 1u << i && making->plan.parities[i] == index);
        if (is_source && !making->is_over) {
            fail(making, "the link to a node that has a share is lost");
            return;
        }
    }
}

/* Is it awaited, and from this node? Marks it as coming. Returns 0 or an errno. */
static int note_coming(struct making *making, uint32_t node, const struct note *note)
{
    const struct rebuilder *rebuilder = making->rebuilder;
    uint32_t source = source_of(&making->plan, (enum note_what)note->what, note->position);
    uint32_t bit = 1u << note->position;
    if (source == EPOCH_NOBODY || rebuilder->start->members[source] != node)
        return EPERM;
    if (note->what == WHAT_TABLES && making->awaits_tables && making->incoming.got == 0)
        return 0;
    uint32_t *coming = note->what == WHAT_IMAGE ? &making->coming_images : &making->coming_parities;
    uint32_t awaited = note->what == WHAT_IMAGE ? making->images : making->parities;
    if (note->what == WHAT_TABLES || !(awaited & bit) || *coming & bit)
        return EALREADY;
    *coming |= bit;
    return 0;
}

static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct arrival *arrival = context;
    (void)offset;
    __atomic_fetch_add(&arrival->making->got, count, __ATOMIC_RELAXED);
    return arrival->note.what == WHAT_TABLES ? incoming_take(&arrival->making->incoming, bytes, count)
                                             : share_intake_take(&arrival->intake, bytes, count);
}

static void on_taken(void *context, int error)
{
    struct arrival *arrival = context;
    struct making *making = arrival->making;
    const struct note *note = &arrival->note;
    bool is_tables = note->what == WHAT_TABLES;
    bool is_whole = is_tables ? incoming_is_whole(&making->incoming) : share_intake_end(&arrival->intake);
    if (making->rebuilder && !making->is_over && (error || !is_whole)) {
        fail(making, error == ECONNRESET ? "the link to a node that has a share is lost"
                     : error             ? strerror(error)
                                         : "a share has not come as a whole");
    } else if (making->rebuilder && !making->is_over) {
        if (is_tables) {
            making->awaits_tables = false;
            making->has_shared = note->has_shared != 0;
        } else if (note->what == WHAT_IMAGE) {
            making->images &= ~(1u << note->position);
        } else {
            making->parities &= ~(1u << note->position);
        }
        go_on(making);
    }
    making_unref(making);
    free(arrival);
}

static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake)
{
    struct rebuilder *rebuilder = context;
    const struct job *job = rebuilder->job;
    struct note note;
    if (!read_note(rebuilder, tag, tag_bytes, &note) || note.kind != NOTE_SHARE)
        return EPROTO;
    struct making *making = find_making(rebuilder, note.rank);
    if (!making || making->is_over)
        return ECANCELED;
    int code = note_coming(making, node, &note);
    if (code)
        return code;
    if (bytes > store_room(job->store, job->config->settings->memory_bytes)) {
        fail(making, "there is not enough memory for it");
        return ENOMEM;
    }
    struct arrival *arrival = calloc(1, sizeof *arrival);
    if (!arrival)
        return ENOMEM;
    arrival->making = making;
    arrival->note = note;
    making->references++;
    share_intake_begin(&arrival->intake, &making->sum, NULL, NULL);
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = arrival};
    return 0;
}
