/* rebuild_make.c - an image that is made here of the shares of a set. */
#include "node-agent/member/rebuild_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/root.h"
#include "common/image/sums.h"
#include "common/util/log.h"

#define COPY_BYTES (UINT64_C(1) << 20)

static int ask_tables(struct making *making, struct belay_error *err);
static int ask_shares(struct making *making, struct belay_error *err);
static bool try_again(struct making *making);
static void run(void *context, uint32_t part);
static void after(void *context, bool is_cancelled);

static const struct pool_ops pool_ops = {.run = run, .done = after};

struct making *making_find(const struct rebuilder *rebuilder, uint32_t rank)
{
    struct making *making = rebuilder->makings;
    while (making && making->plan.rank != rank)
        making = making->next;
    return making;
}

int rebuilder_begin(struct rebuilder *rebuilder, uint32_t rank, bool is_loaded, struct belay_error *err)
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
    making->is_loaded = is_loaded;
    making->rebuilt.fd = -1;
    if (rebuilder->start->roots)
        making->wanted = rebuilder->start->roots[rank];
    share_sum_init(&making->sum, making->incoming.fd,
                   store_room(job->store, job->config->settings->memory_bytes) * plan->data);
    making->next = rebuilder->makings;
    rebuilder->makings = making;
    if (ask_tables(making, err) == 0 && (is_loaded || ask_shares(making, err) == 0)) {
        making_go_on(making);
        return 0;
    }
    rebuilder->makings = making->next;
    making->rebuilder = NULL;
    making_unref(making);
    return -1;
}

/* From this node, or another one. */
static int ask(struct making *making, enum rebuild_what what, uint32_t position, struct belay_error *err)
{
    struct rebuilder *rebuilder = making->rebuilder;
    uint32_t member = rebuild_source_of(&making->plan, what, position);
    if (member == rebuilder->own) {
        struct giving *own = giving_create(rebuilder, &making->plan, what, position, err);
        if (!own)
            return -1;
        own->next = making->own;
        making->own = own;
        return 0;
    }
    struct rebuild_note word = rebuild_note_of(rebuilder, REBUILD_WANT, what, making->plan.rank, position);
    word.without = making->without;
    uint32_t node = rebuilder->start->members[member];
    if (remotes_say(rebuilder->remotes, REMOTES_SHARES, node, &word, sizeof word) < 0)
        return belay_error_errno(err, "node %" PRIu32 " cannot be asked for its share", node);
    if (what == REBUILD_TABLES)
        making->awaits_tables = true;
    else if (what == REBUILD_IMAGE)
        making->images |= 1u << position;
    else
        making->parities |= 1u << position;
    return 0;
}

static int ask_tables(struct making *making, struct belay_error *err)
{
    const struct store *store = making->rebuilder->job->store;
    if (ask(making, REBUILD_TABLES, 0, err) < 0)
        return -1;
    if (!making->awaits_tables) {
        making->has_shared = store_image(store, making->ranks + making->plan.rank) >= 0;
        making->is_bound = store_tables_share(store, making->plan.rank);
    }
    return 0;
}

static int ask_shares(struct making *making, struct belay_error *err)
{
    const struct epoch_rebuild *plan = &making->plan;
    uint8_t coefficients[PARITY_MEMBERS_MAX];
    for (uint32_t i = 0; i < plan->data + plan->parity; i++) {
        if (plan->images[i] != EPOCH_NOBODY && rebuild_coefficients(plan, REBUILD_IMAGE, i, coefficients) &&
            ask(making, REBUILD_IMAGE, i, err) < 0)
            return -1;
        if (plan->parities[i] != EPOCH_NOBODY &&
            rebuild_coefficients(plan, REBUILD_PARITY, i, coefficients) &&
            ask(making, REBUILD_PARITY, i, err) < 0)
            return -1;
    }
    return 0;
}

/* What is here is added first; when all has come, the image is checked. In a thread. */
void making_go_on(struct making *making)
{
    if (making->is_over || making->is_busy || !making->rebuilder)
        return;
    if (!making->own && (making->awaits_tables || making->images || making->parities))
        return;
    making->work = pool_start(making->rebuilder->job->agent->loop, 1, &pool_ops, making);
    if (!making->work) {
        making_fail(making, "there is no memory to check it");
        return;
    }
    making->is_busy = true;
    making->references++;
}

/* Whether it is any use to leave the position out. */
static bool can_do_without(const struct epoch_rebuild *decided, uint32_t position)
{
    const struct epoch_rebuild plan = rebuild_plan_without(decided, position + 1);
    return (decided->images[position] != EPOCH_NOBODY || decided->parities[position] != EPOCH_NOBODY) &&
           epoch_rebuild_is_enough(&plan);
}

uint32_t rebuild_next_without(const struct epoch_rebuild *decided, uint32_t without)
{
    uint32_t next = without;
    while (next < decided->data + decided->parity && !can_do_without(decided, next))
        next++;
    return next < decided->data + decided->parity ? next + 1 : 0;
}

void rebuild_tell_without(const struct rebuilder *rebuilder, uint32_t rank, uint32_t without, const char *why)
{
    char text[BELAY_ERROR_TEXT_BYTES + 160];
    snprintf(text, sizeof text,
             "the image of rank %" PRIu32
             ", made again from parity, is not the committed one (%s); it is made without what "
             "position %" PRIu32 " of the set has",
             rank, why, without - 1);
    log_warning("job \"%s\": %s", rebuilder->job->name, text);
    job_tell_text(rebuilder->job, text);
}

/* One of the shares was another one than it had to be, nobody knows which: the next position is left out. */
static bool try_again(struct making *making)
{
    const struct rebuilder *rebuilder = making->rebuilder;
    const struct epoch_rebuild *decided = epoch_start_rebuild(rebuilder->start, making->plan.rank);
    struct belay_error err;
    uint32_t next = rebuild_next_without(decided, making->without);
    if (next == 0)
        return false;
    rebuild_tell_without(rebuilder, making->plan.rank, next, making->err.text);
    incoming_end(&making->incoming);
    if (incoming_begin(&making->incoming, &err) < 0)
        return false;
    share_sum_release(&making->sum);
    share_sum_init(&making->sum, making->incoming.fd, making->sum.pages_max * IMAGE_PAGE_BYTES);
    making->without = next;
    making->plan = rebuild_plan_without(decided, making->without);
    making->images = making->parities = making->coming_images = making->coming_parities = 0;
    making->awaits_tables = false;
    if (ask_tables(making, &err) < 0 || ask_shares(making, &err) < 0)
        return false;
    making_go_on(making);
    return true;
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

/* What its group shares has a part in the root, and comes later. */
static void check_root(struct making *making)
{
    making->err.code = 0;
    if (!making->has_shared && digest_is_known(&making->wanted) &&
        !digest_is_equal(&making->wanted, &making->rebuilt.root))
        belay_error_set(&making->err, EBADMSG, "it is another image than the one that was committed");
}

static int check_header(struct making *making, const struct image_view *view)
{
    const struct image_header *header = view->header;
    making->rebuilt.bytes = header->total_bytes;
    return header->line == making->line && header->base_line == 0 && header->rank == making->plan.rank &&
                   header->ranks == making->ranks
               ? 0
               : belay_error_set(&making->err, EBADMSG, "its tables are of another image");
}

/* All but the pages is here. */
static void check_tables(struct making *making)
{
    struct belay_error *err = &making->err;
    struct image_view view;
    if (image_load(making->incoming.fd, &view, err) < 0)
        return;
    if (check_header(making, &view) == 0 && sums_check_tables(&view, err) == 0 &&
        root_of_tables(making->incoming.fd, -1, &making->rebuilt.root, err) == 0)
        check_root(making);
    image_unload(&view);
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
    int rc = check_header(making, &view);
    if (rc == 0 && give_back_rest(fd, &view) < 0)
        rc = belay_error_errno(err, "pages cannot be given back");
    if (rc == 0 && sums_check(fd, &view, NULL, err) == 0 &&
        root_of_image(fd, -1, &making->rebuilt.root, err) == 0)
        check_root(making);
    image_unload(&view);
}

static void run(void *context, uint32_t part)
{
    struct making *making = context;
    (void)part;
    making->err.code = 0;
    if (!making->own && making->is_loaded) {
        check_tables(making);
        return;
    }
    if (!making->own) {
        check(making);
        return;
    }
    for (struct giving *own = making->own; own && making->err.code == 0; own = own->next)
        if (own->what == REBUILD_TABLES)
            copy_tables(own->pin.fd, making->incoming.fd, &making->err);
        else if (share_add(own->share, &making->sum) < 0)
            belay_error_errno(&making->err, "a share cannot be added");
}

/* What its group shares has to be there before it runs: then its pages are made first. */
static bool go_on_eagerly(struct making *making)
{
    if (!making->is_loaded || !(making->has_shared || making->is_bound))
        return false;
    making->is_loaded = false;
    if (ask_shares(making, &making->err) < 0)
        making_fail(making, making->err.text);
    else
        making_go_on(making);
    return true;
}

static void give_to_owner(struct making *making)
{
    struct rebuilder *rebuilder = making->rebuilder;
    making->is_over = true;
    making->rebuilt.fd = making->incoming.fd;
    making->rebuilt.has_shared = making->has_shared;
    making->rebuilt.is_hollow = making->is_loaded;
    making->incoming.fd = -1;
    rebuilder->done(rebuilder->context, making->plan.rank, &making->rebuilt, NULL);
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
        if (making->err.code != EBADMSG || making->is_loaded || !try_again(making))
            making_fail(making, making->err.text);
    } else if (rebuilder && !making->is_over && had_own) {
        making_go_on(making);
    } else if (rebuilder && !making->is_over && !go_on_eagerly(making)) {
        give_to_owner(making);
    }
    making_unref(making);
}

void making_fail(struct making *making, const char *why)
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

void making_unref(struct making *making)
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
