#include "node-agent/member/fetch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/fault/fault.h"
#include "common/image/root.h"
#include "common/image/sums.h"
#include "common/util/log.h"
#include "coord/epoch.h"
#include "node-agent/job/membership.h"
#include "node-agent/loop/pool.h"
#include "node-agent/loop/timer.h"
#include "node-agent/member/fetch_note.h"
#include "node-agent/member/incoming.h"
#include "node-agent/member/lend.h"
#include "node-agent/member/loads.h"
#include "node-agent/member/rebuild.h"

#define LOOK_MS 5000   /* the arbiter hears so often that the agent is at work */
#define STALL_MS 30000 /* without a byte: a holder has not joined, or has lost its way */

/* An image on its way here. */
struct arrival {
    struct fetch *fetch; /* NULL: nobody waits for it any more */
    uint32_t want;       /* its number */
    struct fetch_note note;
    struct incoming incoming;
    uint64_t got; /* atomic: bytes that have come */
    uint64_t bytes;
    bool is_checking;       /* all of it has come */
    struct digest wanted;   /* the root of all that is held of its rank; none: not known */
    struct digest other;    /* of it: the root of what has come before */
    bool is_last;           /* of what is held of its rank */
    struct digest root;     /* as it has come */
    bool is_refuted;        /* it is whole, and another one */
    struct belay_error err; /* code 0: it is what it should be */
};

/* An image that is wanted. */
struct want {
    uint32_t part, node;
    struct arrival *arrival; /* NULL: it has not begun to come, or is here */
    int fd;                  /* whole and checked; -1: not yet */
    uint64_t bytes;
    struct digest root;
    uint32_t follows; /* of what a group shares: the number of its rank's want */
    bool is_loaded;   /* it is asked for without its pages, which come while the rank runs */
    bool is_here;     /* that has come */
};

struct fetch {
    struct job *job;
    struct remotes *remotes;
    struct epoch_start *start;
    struct lender *lender;
    struct rebuilder *rebuilder;
    struct loads *loads;
    fetch_done_f *done; /* NULL: nothing is fetched (any more) */
    void *context;
    struct want *wants; /* room for twice as many as there are ranks among them */
    uint32_t want_count, here;
    uint64_t begun_ns, moved_ns, moved_bytes; /* the last bytes that have come */
    struct timer *look;
    struct timer *end; /* tells the end in a round of its own */
    struct belay_error err;
};

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake);
static void on_lost(void *context, uint32_t node);
static int ask(struct fetch *fetch, const struct want *want);
static bool read_note(const struct fetch *fetch, const void *bytes, size_t count, struct fetch_note *note);
static struct want *find_want(struct fetch *fetch, uint32_t node, const struct fetch_note *note);
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count);
static void on_taken(void *context, int error);
static void check_arrival(void *context, uint32_t part);
static int check_root(struct arrival *arrival);
static void after_check(void *context, bool is_cancelled);
static void on_rebuilt(void *context, uint32_t rank, const struct rebuilt *rebuilt,
                       const struct belay_error *err);
static int check_rebuilt(const struct fetch *fetch, const struct want *want, bool has_shared_here);
static void keep_if_all(struct fetch *fetch);
static void want_shared(struct fetch *fetch, uint32_t follows);
static void keep_all(struct fetch *fetch);
static void fail(struct fetch *fetch, const struct want *want, const char *why);
static void stop(struct fetch *fetch);
static void on_look(void *context);
static void on_end(void *context);
static void forget(struct arrival *arrival);
static uint64_t count_bytes(const struct fetch *fetch);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = on_offered, .lost = on_lost};
static const struct pool_ops check_ops = {.run = check_arrival, .done = after_check};

struct fetch *fetch_create(struct job *job, struct remotes *remotes, const struct epoch_start *start,
                           struct belay_error *err)
{
    struct fetch *fetch = calloc(1, sizeof *fetch);
    if (fetch) {
        fetch->job = job;
        fetch->remotes = remotes;
        fetch->start = epoch_start_copy(start);
        fetch->look = timer_new(job->agent->loop, on_look, fetch);
        fetch->end = timer_new(job->agent->loop, on_end, fetch);
        fetch->lender = fetch->start ? lender_create(job, remotes, fetch->start) : NULL;
        fetch->loads = fetch->start ? loads_create(job, remotes, fetch->start) : NULL;
        fetch->rebuilder =
            fetch->start ? rebuilder_create(job, remotes, fetch->start, on_rebuilt, fetch) : NULL;
    }
    if (!fetch || !fetch->lender || !fetch->loads || !fetch->rebuilder || !fetch->look || !fetch->end) {
        fetch_destroy(fetch);
        belay_error_set(err, ENOMEM, "no memory to fetch images");
        return NULL;
    }
    remotes_hear(remotes, REMOTES_IMAGES, &remotes_ops, fetch);
    return fetch;
}

void fetch_destroy(struct fetch *fetch)
{
    if (!fetch)
        return;
    stop(fetch);
    loads_destroy(fetch->loads); /* its sources are the rebuilder's */
    rebuilder_destroy(fetch->rebuilder);
    lender_destroy(fetch->lender);
    if (fetch->lender)
        remotes_hear(fetch->remotes, REMOTES_IMAGES, NULL, NULL);
    timer_destroy(fetch->look);
    timer_destroy(fetch->end);
    free(fetch->start);
    free(fetch);
}

struct loads *fetch_loads(const struct fetch *fetch)
{
    return fetch->loads;
}

int fetch_start(struct fetch *fetch, fetch_done_f *done, void *context, struct belay_error *err)
{
    const struct membership_want *wants;
    bool is_loaded = loads_are_wanted(fetch->job);
    uint32_t count = membership_wants(fetch->job->membership, &wants);
    fetch->wants = calloc(2 * (size_t)count + 1, sizeof *fetch->wants);
    if (!fetch->wants)
        return belay_error_set(err, ENOMEM, "no memory to fetch images");
    for (uint32_t i = 0; i < count; i++)
        fetch->wants[i] =
            (struct want){.part = wants[i].rank, .node = wants[i].node, .fd = -1, .is_loaded = is_loaded};
    fetch->want_count = count;
    fetch->done = done;
    fetch->context = context;
    fetch->begun_ns = fetch->moved_ns = uv_hrtime();
    timer_start(fetch->look, LOOK_MS, LOOK_MS);
    fault_hit("agent.fetch.ask", -1, fetch->start->line);
    for (uint32_t i = 0; i < count && fetch->err.code == 0; i++) {
        if (epoch_start_rebuild(fetch->start, wants[i].rank)) {
            if (rebuilder_begin(fetch->rebuilder, wants[i].rank, is_loaded, &fetch->err) < 0)
                timer_start(fetch->end, 0, 0);
        } else if (ask(fetch, &fetch->wants[i]) < 0) {
            fail(fetch, &fetch->wants[i], strerror(errno));
        }
    }
    log_info("job \"%s\": %" PRIu32 " images of line %" PRIu64 " are fetched from other nodes",
             fetch->job->name, count, fetch->start->line);
    return 0;
}

static int ask(struct fetch *fetch, const struct want *want)
{
    const struct fetch_note word = {.magic = FETCH_NOTE_MAGIC,
                                    .kind = want->is_loaded ? FETCH_NOTE_WANT_TABLES : FETCH_NOTE_WANT,
                                    .epoch = fetch->start->epoch,
                                    .part = want->part,
                                    .ranks = fetch->start->rank_count,
                                    .line = fetch->start->line};
    return remotes_say(fetch->remotes, REMOTES_IMAGES, want->node, &word, sizeof word);
}

static bool read_note(const struct fetch *fetch, const void *bytes, size_t count, struct fetch_note *note)
{
    if (count != sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == FETCH_NOTE_MAGIC && note->epoch == fetch->start->epoch &&
           note->ranks == fetch->start->rank_count && note->part / 2 < note->ranks && note->line > 0 &&
           note->line == fetch->start->line;
}

static const char *words_of(int error)
{
    return error == ENODATA ? "it is not held there" : strerror(error);
}

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct fetch *fetch = context;
    struct fetch_note note;
    if (!read_note(fetch, bytes, count, &note))
        return;
    if (note.kind == FETCH_NOTE_WANT || note.kind == FETCH_NOTE_WANT_TABLES ||
        note.kind == FETCH_NOTE_WANT_PAGES || note.kind == FETCH_NOTE_LOADED ||
        note.kind == FETCH_NOTE_WANT_TOUCHED)
        lender_take(fetch->lender, node, &note);
    else if (note.kind == FETCH_NOTE_REFUSED)
        loads_refused(fetch->loads, node, &note);
    const struct want *want = note.kind == FETCH_NOTE_REFUSED ? find_want(fetch, node, &note) : NULL;
    if (want)
        fail(fetch, want, words_of(note.error));
}

/* Of a part: what a group shares goes with the rank of its number. */
static uint32_t rank_of(const struct fetch *fetch, uint32_t part)
{
    return part < fetch->start->rank_count ? part : part - fetch->start->rank_count;
}

static bool is_to_come(const struct want *want)
{
    return want->fd < 0 && !want->is_here;
}

/* That is still to come. NULL: none. */
static struct want *find_want(struct fetch *fetch, uint32_t node, const struct fetch_note *note)
{
    for (uint32_t i = 0; i < fetch->want_count; i++) {
        struct want *want = &fetch->wants[i];
        if (want->part == note->part && want->node == node && is_to_come(want))
            return want;
    }
    return NULL;
}

static void on_lost(void *context, uint32_t node)
{
    struct fetch *fetch = context;
    loads_lost(fetch->loads, node);
    for (uint32_t i = 0; i < fetch->want_count; i++)
        if (fetch->wants[i].node == node && is_to_come(&fetch->wants[i])) {
            fail(fetch, &fetch->wants[i], "the link to it is lost");
            return;
        }
}

/* ---- what comes ---- */

/* Until all of it is kept, it is not counted by the store. */
static uint64_t room_of(const struct fetch *fetch)
{
    const struct job *job = fetch->job;
    uint64_t room = store_room(job->store, job->config->settings->memory_bytes), bytes = 0;
    for (uint32_t i = 0; i < fetch->want_count; i++)
        bytes += fetch->wants[i].arrival ? fetch->wants[i].arrival->bytes : fetch->wants[i].bytes;
    return bytes < room ? room - bytes : 0;
}

static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake)
{
    struct fetch *fetch = context;
    struct fetch_note note;
    struct belay_error err;
    if (!read_note(fetch, tag, tag_bytes, &note))
        return EPROTO;
    if (note.kind == FETCH_NOTE_PAGES || note.kind == FETCH_NOTE_TOUCHED)
        return loads_offered(fetch->loads, node, &note, bytes, intake);
    if (note.kind != FETCH_NOTE_IMAGE && note.kind != FETCH_NOTE_TABLES)
        return EPROTO;
    struct want *want = find_want(fetch, node, &note);
    if (!want || want->arrival || want->is_loaded != (note.kind == FETCH_NOTE_TABLES))
        return want ? EALREADY : EPERM;
    struct arrival *arrival = bytes <= room_of(fetch) ? calloc(1, sizeof *arrival) : NULL;
    if (!arrival || incoming_begin(&arrival->incoming, &err) < 0) {
        free(arrival);
        fail(fetch, want, "there is not enough memory for it");
        return ENOMEM;
    }
    arrival->fetch = fetch;
    arrival->want = (uint32_t)(want - fetch->wants);
    arrival->note = note;
    arrival->bytes = bytes;
    arrival->wanted = fetch->start->roots[rank_of(fetch, note.part)];
    arrival->other = note.part < note.ranks ? (struct digest){{0}} : fetch->wants[want->follows].root;
    arrival->is_last = note.part >= note.ranks || !note.has_shared;
    want->arrival = arrival;
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = arrival};
    return 0;
}

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct arrival *arrival = context;
    (void)offset;
    __atomic_fetch_add(&arrival->got, count, __ATOMIC_RELAXED);
    return incoming_take(&arrival->incoming, bytes, count);
}

static void on_taken(void *context, int error)
{
    struct arrival *arrival = context;
    struct fetch *fetch = arrival->fetch;
    const struct want *want = fetch ? &fetch->wants[arrival->want] : NULL;
    bool is_whole = error == 0 && incoming_is_whole(&arrival->incoming);
    arrival->is_checking = is_whole;
    if (is_whole && fetch && pool_start(fetch->job->agent->loop, 1, &check_ops, arrival))
        return;
    if (fetch)
        fail(fetch, want,
             is_whole              ? "there is no memory to check it"
             : error == ECONNRESET ? "the link to it is lost"
             : error == 0          ? "it has not come as a whole"
                                   : strerror(error));
    forget(arrival);
}

/* In a pool thread: against its sums, page by page. */
static void check_arrival(void *context, uint32_t part)
{
    struct arrival *arrival = context;
    const struct fetch_note *note = &arrival->note;
    struct image_view view;
    bool is_loaded = note->kind == FETCH_NOTE_TABLES; /* its pages are holes */
    (void)part;
    if (image_load(arrival->incoming.fd, &view, &arrival->err) < 0)
        return;
    if (!is_loaded && fault_hit("agent.fetch.taken", (int)note->part, note->line))
        fault_flip(arrival->incoming.fd, image_first_data(&view));
    const struct image_header *header = view.header;
    arrival->bytes = header->total_bytes;
    if (header->line != note->line || header->base_line != 0 || header->rank != note->part ||
        header->ranks != (note->part < note->ranks ? note->ranks : 2 * note->ranks))
        belay_error_set(&arrival->err, EBADMSG, "what has come is another image");
    else if ((is_loaded ? sums_check_tables(&view, &arrival->err)
                        : sums_check(arrival->incoming.fd, &view, NULL, &arrival->err)) == 0 &&
             check_root(arrival) == 0)
        arrival->err.code = 0;
    image_unload(&view);
}

/* The sums fit the pages; do both fit what was committed? All of a rank has one root. */
static int check_root(struct arrival *arrival)
{
    int rc = arrival->note.kind == FETCH_NOTE_TABLES
                 ? root_of_tables(arrival->incoming.fd, -1, &arrival->root, &arrival->err)
                 : root_of_image(arrival->incoming.fd, -1, &arrival->root, &arrival->err);
    if (rc < 0)
        return -1;
    const struct digest all = digest_sum(&arrival->other, &arrival->root);
    arrival->is_refuted =
        arrival->is_last && digest_is_known(&arrival->wanted) && !digest_is_equal(&all, &arrival->wanted);
    return arrival->is_refuted
               ? belay_error_set(&arrival->err, EBADMSG,
                                 "what has come is another image than the one that was committed")
               : 0;
}

/* What its group shares has to be there before it runs: then all of it is fetched first. */
static void fetch_whole(struct fetch *fetch, struct want *want)
{
    const struct fetch_note word = {.magic = FETCH_NOTE_MAGIC,
                                    .kind = FETCH_NOTE_LOADED,
                                    .epoch = fetch->start->epoch,
                                    .part = want->part,
                                    .ranks = fetch->start->rank_count,
                                    .line = fetch->start->line};
    want->is_loaded = false;
    want->arrival = NULL;
    if (remotes_say(fetch->remotes, REMOTES_IMAGES, want->node, &word, sizeof word) < 0 ||
        ask(fetch, want) < 0)
        fail(fetch, want, strerror(errno));
}

/* All but the pages has come, and is what was committed. */
static void begin_load(struct fetch *fetch, struct want *want, struct arrival *arrival)
{
    struct belay_error err;
    if (!arrival->is_last || arrival->note.is_bound) {
        fetch_whole(fetch, want);
        arrival->fetch = NULL;
    } else if (arrival->bytes > room_of(fetch)) {
        fail(fetch, want, "there is not enough memory for it");
    } else if (loads_add(fetch->loads, want->part, want->node, NULL, arrival->incoming.fd, &arrival->root,
                         &err) < 0) {
        fail(fetch, want, err.text);
    } else {
        arrival->incoming.fd = -1;
        want->is_here = true; /* the store expects its bytes */
        fetch->here++;
    }
}

static void after_check(void *context, bool is_cancelled)
{
    struct arrival *arrival = context;
    struct fetch *fetch = arrival->fetch;
    struct want *want = fetch ? &fetch->wants[arrival->want] : NULL;
    (void)is_cancelled; /* never */
    if (want && arrival->is_refuted)
        membership_refute(fetch->job->membership, want->node, rank_of(fetch, want->part), arrival->note.line);
    if (want && arrival->err.code) {
        fail(fetch, want, arrival->err.text);
    } else if (want && want->is_loaded) {
        begin_load(fetch, want, arrival);
    } else if (want) {
        want->fd = arrival->incoming.fd;
        want->bytes = arrival->bytes;
        want->root = arrival->root;
        arrival->incoming.fd = -1;
        fetch->here++;
        if (!arrival->is_last)
            want_shared(fetch, arrival->want);
    }
    forget(arrival);
    if (want)
        keep_if_all(fetch);
}

static void keep_if_all(struct fetch *fetch)
{
    if (fetch->done && fetch->err.code == 0 && fetch->here == fetch->want_count)
        keep_all(fetch);
}

/* All but the pages is here: they are made from parity while the rank runs. */
static void begin_remaking(struct fetch *fetch, struct want *want, const struct rebuilt *rebuilt)
{
    struct belay_error err = {.text = "out of memory"};
    struct rebuild_source *source = NULL;
    if (rebuilt->bytes > room_of(fetch))
        belay_error_set(&err, ENOMEM, "there is not enough memory for it");
    else
        source = rebuild_source_create(fetch->rebuilder, want->part);
    if (source &&
        loads_add(fetch->loads, want->part, want->node, source, rebuilt->fd, &rebuilt->root, &err) == 0) {
        want->is_here = true;
        fetch->here++;
        return;
    }
    rebuild_source_destroy(source);
    close(rebuilt->fd);
    fail(fetch, want, err.text);
}

/* Of a rank, or the reason why it cannot be. */
static void on_rebuilt(void *context, uint32_t rank, const struct rebuilt *rebuilt,
                       const struct belay_error *err)
{
    struct fetch *fetch = context;
    struct want *want = fetch->wants;
    if (err) {
        if (fetch->done && fetch->err.code == 0) {
            fetch->err = *err;
            log_warning("%s", err->text);
            timer_start(fetch->end, 0, 0);
        }
        return;
    }
    while (want < fetch->wants + fetch->want_count && want->part != rank)
        want++;
    if (want == fetch->wants + fetch->want_count || !is_to_come(want)) { /* nobody waits for it any more */
        close(rebuilt->fd);
        return;
    }
    if (rebuilt->is_hollow) {
        begin_remaking(fetch, want, rebuilt);
        keep_if_all(fetch);
        return;
    }
    want->fd = rebuilt->fd;
    want->bytes = rebuilt->bytes;
    want->root = rebuilt->root;
    fetch->here++;
    bool is_shared_here = rebuilt->has_shared && want->node == fetch->job->config->node;
    if (rebuilt->has_shared && !is_shared_here)
        want_shared(fetch, (uint32_t)(want - fetch->wants));
    else if (check_rebuilt(fetch, want, is_shared_here) < 0)
        fail(fetch, want, "what was made from parity is another image than the one that was committed");
    keep_if_all(fetch);
}

/* What the group shares may be here already. */
static int check_rebuilt(const struct fetch *fetch, const struct want *want, bool has_shared_here)
{
    const struct digest *wanted = &fetch->start->roots[want->part];
    const struct digest shared =
        has_shared_here ? store_part_root(fetch->job->store, fetch->start->rank_count + want->part)
                        : (struct digest){{0}};
    const struct digest all = digest_sum(&shared, &want->root);
    return !digest_is_known(wanted) || digest_is_equal(&all, wanted) ? 0 : -1;
}

/* The image of the rank is here: what its group shares is to come from the same node. */
static void want_shared(struct fetch *fetch, uint32_t follows)
{
    const struct want *first = &fetch->wants[follows];
    struct want *want = &fetch->wants[fetch->want_count++];
    *want = (struct want){
        .part = fetch->start->rank_count + first->part, .node = first->node, .fd = -1, .follows = follows};
    if (ask(fetch, want) < 0)
        fail(fetch, want, strerror(errno));
}

static void forget(struct arrival *arrival)
{
    if (arrival->fetch)
        arrival->fetch->wants[arrival->want].arrival = NULL;
    incoming_end(&arrival->incoming);
    free(arrival);
}

/* ---- the end ---- */

static void keep_all(struct fetch *fetch)
{
    struct job *job = fetch->job;
    const struct epoch_start *start = fetch->start;
    struct store_fetched *fetched = calloc(fetch->want_count, sizeof *fetched);
    struct belay_error err = {.code = ENOMEM, .text = "out of memory"};
    uint32_t count = 0;
    for (uint32_t i = 0; fetched && i < fetch->want_count; i++)
        if (fetch->wants[i].fd >= 0)
            fetched[count++] = (struct store_fetched){fetch->wants[i].part, fetch->wants[i].fd,
                                                      fetch->wants[i].bytes, fetch->wants[i].root};
    int rc = !fetched ? -1
             : count == 0
                 ? 0
                 : store_take_images(job->store, start->line, start->rank_count, fetched, count, &err);
    free(fetched);
    if (rc < 0) {
        fail(fetch, &fetch->wants[0], err.text);
        return;
    }
    fault_hit("agent.fetch.kept", -1, start->line);
    for (uint32_t i = 0; i < fetch->want_count; i++) {
        fetch->wants[i].fd = -1; /* the store's */
        if (fetch->wants[i].part < start->rank_count)
            membership_image(job->membership, start->line, fetch->wants[i].part);
    }
    job->fetch_ms = (double)(uv_hrtime() - fetch->begun_ns) / 1e6;
    log_info("job \"%s\": %" PRIu32 " images of line %" PRIu64 " have come in %.1f ms; %" PRIu32
             " of them come while their ranks run",
             job->name, fetch->want_count, start->line, job->fetch_ms, fetch->want_count - count);
    timer_start(fetch->end, 0, 0);
}

/* The first reason counts. */
static void fail(struct fetch *fetch, const struct want *want, const char *why)
{
    if (!fetch->done || fetch->err.code)
        return;
    belay_error_set(&fetch->err, EREMOTEIO,
                    "job \"%s\": the image of rank %" PRIu32 "%s cannot be fetched from node %" PRIu32 ": %s",
                    fetch->job->name, rank_of(fetch, want->part),
                    want->part < fetch->start->rank_count ? "" : ", of what it shares,", want->node, why);
    log_warning("%s", fetch->err.text);
    timer_start(fetch->end, 0, 0);
}

/* Nothing is wanted any more; what is on its way is dropped as it comes. */
static void stop(struct fetch *fetch)
{
    fetch->done = NULL;
    if (fetch->rebuilder)
        rebuilder_stop(fetch->rebuilder);
    if (fetch->look)
        timer_stop(fetch->look);
    if (fetch->end)
        timer_stop(fetch->end);
    for (uint32_t i = 0; i < fetch->want_count; i++) {
        if (fetch->wants[i].arrival)
            fetch->wants[i].arrival->fetch = NULL;
        if (fetch->wants[i].fd >= 0)
            close(fetch->wants[i].fd);
    }
    free(fetch->wants);
    fetch->wants = NULL;
    fetch->want_count = fetch->here = 0;
}

static void on_end(void *context)
{
    struct fetch *fetch = context;
    fetch_done_f *done = fetch->done;
    const struct belay_error err = fetch->err;
    void *its = fetch->context;
    struct job *job = fetch->job;
    stop(fetch);
    if (done)
        done(job, its, err.code ? &err : NULL);
}

static uint64_t count_bytes(const struct fetch *fetch)
{
    uint64_t bytes = rebuilder_bytes(fetch->rebuilder);
    for (uint32_t i = 0; i < fetch->want_count; i++)
        if (fetch->wants[i].arrival)
            bytes += __atomic_load_n(&fetch->wants[i].arrival->got, __ATOMIC_RELAXED);
    return bytes;
}

/* The arbiter takes a silent agent for a lost one. */
static void on_look(void *context)
{
    struct fetch *fetch = context;
    uint64_t bytes = count_bytes(fetch), now_ns = uv_hrtime();
    uint32_t first = 0;
    bool is_checking = rebuilder_is_busy(fetch->rebuilder);
    char text[128];
    while (first < fetch->want_count && !is_to_come(&fetch->wants[first]))
        first++;
    for (uint32_t i = 0; i < fetch->want_count; i++)
        is_checking |= fetch->wants[i].arrival && fetch->wants[i].arrival->is_checking;
    if (is_checking || bytes != fetch->moved_bytes)
        fetch->moved_ns = now_ns;
    fetch->moved_bytes = bytes;
    if (first == fetch->want_count)
        return;
    if (now_ns - fetch->moved_ns >= STALL_MS * UINT64_C(1000000)) {
        snprintf(text, sizeof text, "nothing has come for %d s", STALL_MS / 1000);
        fail(fetch, &fetch->wants[first], text);
        return;
    }
    snprintf(text, sizeof text, "fetching images: %" PRIu32 " of %" PRIu32 " have come", fetch->here,
             fetch->want_count);
    job_tell_text(fetch->job, text);
}
