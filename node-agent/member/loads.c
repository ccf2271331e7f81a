#include "node-agent/member/loads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/uffd.h"
#include "node-agent/member/lend_touched.h"
#include "node-agent/member/load_pages.h"
#include "node-agent/member/load_touched.h"

/* One image. */
struct item {
    struct item *next;
    struct load *load;
    struct rebuild_source *source; /* of its pages; NULL: the node sends them */
    struct digest root;
    uint64_t bytes; /* of all of it */
};

struct loads {
    struct job *job;
    struct remotes *remotes;
    const struct epoch_start *start;
    loads_whole_f *whole;
    struct item *items;
};

static int ask(void *context, struct load *load, struct load_range *range);
static struct fetch_note note_of(const struct loads *loads, enum fetch_note_kind kind,
                                 const struct load *load);
static void on_done(void *context, struct load *load, const struct belay_error *err);
static int keep(const struct loads *loads, const struct item *item, struct belay_error *err);
static void drop(struct loads *loads, const struct load *load);

/* The member that has the image. */
static const struct load_source lender = {.ask = ask};

static bool works_here(void)
{
    static enum { UNKNOWN = 0, WORKS, FAILS } found;
    if (found == UNKNOWN)
        found = uffd_demand_works() ? WORKS : FAILS;
    return found == WORKS;
}

bool loads_are_wanted(struct job *job)
{
    const char *word = job->config->settings->restore;
    bool is_demand = !strcmp(word, "demand");
    if (!is_demand && strcmp(word, "auto"))
        return false;
    if (works_here())
        return true;
    if (is_demand)
        job_tell_text(job,
                      "this user may not catch page faults of the kernel (userfaultfd): ranks that move run "
                      "when their images are there, as with --restore eager");
    return false;
}

struct loads *loads_create(struct job *job, struct remotes *remotes, const struct epoch_start *start)
{
    struct loads *loads = calloc(1, sizeof *loads);
    if (loads)
        *loads = (struct loads){.job = job, .remotes = remotes, .start = start};
    return loads;
}

void loads_destroy(struct loads *loads)
{
    if (loads)
        loads_stop(loads);
    free(loads);
}

void loads_stop(struct loads *loads)
{
    while (loads->items)
        drop(loads, loads->items->load);
}

void loads_tell(struct loads *loads, loads_whole_f *whole)
{
    loads->whole = whole;
}

/* Which parts are expected to be touched. */
static void ask_touched(const struct loads *loads, struct load *load)
{
    struct fetch_note word = note_of(loads, FETCH_NOTE_WANT_TOUCHED, load);
    struct run_set set = {0};
    word.bytes = load_figures(load).bytes;
    if (touched_window_ms(loads->job) == 0)
        return;
    if (load_node(load) != loads->job->config->node) {
        remotes_say(loads->remotes, REMOTES_IMAGES, load_node(load), &word,
                    sizeof word); /* or it hears of the end */
        return;
    }
    if (load_begin_touched(load) && touched_choose(loads->job, load_rank(load), word.bytes, &set) == 0)
        for (size_t i = 0; i < set.count; i++)
            load_prefer(load, set.runs[i].address, set.runs[i].address + set.runs[i].bytes);
    runs_release(&set);
}

int loads_add(struct loads *loads, uint32_t rank, uint32_t node, struct rebuild_source *source, int fd,
              const struct digest *root, struct belay_error *err)
{
    const struct load_config config = {.loop = loads->job->agent->loop,
                                       .rank = rank,
                                       .node = node,
                                       .line = loads->start->line,
                                       .is_of_parity = source != NULL,
                                       .source = source ? &rebuild_load_source : &lender,
                                       .source_context = source ? (void *)source : loads,
                                       .done = on_done,
                                       .context = loads};
    struct item *item = calloc(1, sizeof *item);
    if (!item)
        return belay_error_set(err, ENOMEM, "out of memory");
    item->load = load_create(&config, fd, err);
    if (!item->load) {
        free(item);
        return -1;
    }
    item->source = source;
    item->root = *root;
    item->bytes = load_total_bytes(item->load);
    item->next = loads->items;
    loads->items = item;
    store_expect(loads->job->store, loads->start->line, item->bytes);
    ask_touched(loads, item->load);
    return 0;
}

struct load *loads_find(const struct loads *loads, uint32_t rank)
{
    for (const struct item *item = loads->items; item; item = item->next)
        if (load_rank(item->load) == rank)
            return item->load;
    return NULL;
}

uint64_t loads_line(const struct loads *loads)
{
    return loads->start->line;
}

uint32_t loads_count(const struct loads *loads)
{
    uint32_t count = 0;
    for (const struct item *item = loads->items; item; item = item->next)
        count++;
    return count;
}

/* ---- what is said ---- */

static struct fetch_note note_of(const struct loads *loads, enum fetch_note_kind kind,
                                 const struct load *load)
{
    return (struct fetch_note){.magic = FETCH_NOTE_MAGIC,
                               .kind = kind,
                               .epoch = loads->start->epoch,
                               .part = load_rank(load),
                               .ranks = loads->start->rank_count,
                               .line = loads->start->line};
}

static int ask(void *context, struct load *load, struct load_range *range)
{
    const struct loads *loads = context;
    struct fetch_note word = note_of(loads, FETCH_NOTE_WANT_PAGES, load);
    word.offset = range->offset;
    word.bytes = range->bytes;
    return remotes_say(loads->remotes, REMOTES_IMAGES, load_node(load), &word, sizeof word);
}

static struct load *find_of(const struct loads *loads, uint32_t node, const struct fetch_note *note)
{
    struct load *load = loads_find(loads, note->part);
    return load && load_node(load) == node ? load : NULL;
}

int loads_offered(const struct loads *loads, uint32_t node, const struct fetch_note *note, uint64_t bytes,
                  struct transfer_intake *intake)
{
    struct load *load = find_of(loads, node, note);
    if (load && note->kind == FETCH_NOTE_TOUCHED)
        return load_touched_offered(load, bytes, intake);
    return load ? load_pages_offered(load, note->offset, note->bytes, bytes, intake) : EPERM;
}

void loads_refused(const struct loads *loads, uint32_t node, const struct fetch_note *note)
{
    struct load *load = find_of(loads, node, note);
    if (load)
        load_fail(load, note->error == ENODATA ? "it is not held there" : strerror(note->error));
}

void loads_lost(const struct loads *loads, uint32_t node)
{
    for (const struct item *item = loads->items; item; item = item->next)
        if (item->source ? rebuild_source_is_of(item->source, node) : load_node(item->load) == node)
            load_fail(item->load, "the link to it is lost");
}

/* ---- the end of one ---- */

static void drop(struct loads *loads, const struct load *load)
{
    struct item **at = &loads->items, *item;
    while ((*at)->load != load)
        at = &(*at)->next;
    item = *at;
    *at = item->next;
    store_expect_no_more(loads->job->store, item->bytes);
    rebuild_source_destroy(item->source);
    load_destroy(item->load);
    free(item);
}

/* One that has failed stays: its rank is not to run, and no line is to begin. */
static void on_done(void *context, struct load *load, const struct belay_error *err)
{
    struct loads *loads = context;
    struct job *job = loads->job;
    const struct fetch_note word = note_of(loads, FETCH_NOTE_LOADED, load);
    const struct load_figures figures = load_figures(load);
    struct belay_error failure;
    const struct item *item = loads->items;
    uint32_t rank = load_rank(load);
    while (item->load != load)
        item = item->next;
    if (!err && keep(loads, item, &failure) < 0) {
        err = &failure;
        if (load_process(load))
            rank_lose(load_process(load));
    }
    if (err) {
        log_warning("job \"%s\": %s", job->name, err->text);
        job_tell_text(job, err->text);
        return;
    }
    if (!item->source) /* a set is told when the source ends */
        remotes_say(loads->remotes, REMOTES_IMAGES, load_node(load), &word,
                    sizeof word); /* or it hears of the end */
    log_info("job \"%s\": the image of rank %" PRIu32 " of line %" PRIu64 " has come in %.1f ms, %" PRIu64
             " bytes in %" PRIu64 " ranges; the rank was there after %.1f ms with %" PRIu64
             " bytes and has waited for %" PRIu64 " pages; %" PRIu64
             " bytes were expected to be touched; of ranges "
             "that were waited for half came within %.3f ms, the fastest within %.3f ms",
             job->name, rank, loads->start->line, figures.elapsed_ms, figures.bytes, figures.asks,
             figures.first_ms, figures.first_bytes, figures.faults, figures.touched_bytes,
             (double)figures.half_ns / 1e6, (double)figures.fastest_ns / 1e6);
    drop(loads, load);
    if (loads->whole)
        loads->whole(job, rank);
}

/* The memfd itself: it is what the rank has mapped. */
static int keep(const struct loads *loads, const struct item *item, struct belay_error *err)
{
    struct store_fetched fetched = {.rank = load_rank(item->load), .root = item->root, .bytes = item->bytes};
    fetched.fd = fcntl(load_fd(item->load), F_DUPFD_CLOEXEC, 3);
    if (fetched.fd < 0)
        return belay_error_errno(err, "no descriptor for the image of rank %" PRIu32, fetched.rank);
    if (store_take_images(loads->job->store, loads->start->line, loads->start->rank_count, &fetched, 1,
                          err) == 0)
        return 0;
    close(fetched.fd);
    return -1;
}
