#include "node-agent/member/lend.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/image/spoil.h"
#include "common/util/log.h"
#include "node-agent/job/membership.h"
#include "node-agent/member/lend_pages.h"
#include "node-agent/member/lend_touched.h"
#include "node-agent/member/outgoing.h"

#define SENDING_MAX 4u /* at a time */

/* An image that waits to be sent, or is being sent. */
struct loan {
    struct loan *next;
    struct lender *lender;
    uint32_t part, node;
    struct store_pin pin;
    struct outgoing *outgoing; /* NULL: it waits */
    bool is_spoiled;           /* by a fault, until it has been sent */
    bool is_loaded;            /* its pages are asked for one range after the other, until LOADED comes */
    struct lent *lent;         /* of one that is loaded; it does not wait any more */
    bool is_touched_told;      /* which parts of it were written lately */
};

struct lender {
    struct job *job;
    struct remotes *remotes;
    const struct epoch_start *start;
    struct loan *loans;     /* oldest first */
    uint32_t sending_count; /* of them those that do not wait */
    bool *are_told;         /* by rank, of images that are made from parity: what is known of them is told */
};

static int check_want(const struct lender *lender, uint32_t node, const struct fetch_note *note);
static int add_loan(struct lender *lender, uint32_t node, uint32_t part, bool is_loaded);
static void send_pages(struct lender *lender, uint32_t node, const struct fetch_note *note);
static void end_loaded(struct lender *lender, uint32_t node, uint32_t part);
static void lend(struct lender *lender, uint32_t node, const struct fetch_note *note);
static void send_touched(struct lender *lender, uint32_t node, const struct fetch_note *note);
static void send_next(struct lender *lender);
static int begin_sending(struct loan *loan, struct belay_error *err);
static void on_sent(void *context, int error, const struct outgoing_figures *figures);
static void drop(struct loan *loan);
static void refuse(const struct lender *lender, uint32_t node, uint32_t part, int error);
static struct fetch_note note_of(const struct lender *lender, enum fetch_note_kind kind, uint32_t part);

struct lender *lender_create(struct job *job, struct remotes *remotes, const struct epoch_start *start)
{
    struct lender *lender = calloc(1, sizeof *lender);
    if (!lender)
        return NULL;
    *lender = (struct lender){.job = job,
                              .remotes = remotes,
                              .start = start,
                              .are_told = calloc((size_t)start->rank_count + 1, sizeof *lender->are_told)};
    if (lender->are_told)
        return lender;
    free(lender);
    return NULL;
}

void lender_destroy(struct lender *lender)
{
    if (!lender)
        return;
    while (lender->loans) {
        if (lender->loans->outgoing)
            outgoing_cancel(lender->loans->outgoing);
        drop(lender->loans);
    }
    free(lender->are_told);
    free(lender);
}

void lender_take(struct lender *lender, uint32_t node, const struct fetch_note *note)
{
    if (note->kind == FETCH_NOTE_LOADED)
        end_loaded(lender, node, note->part);
    else if (note->kind == FETCH_NOTE_WANT_PAGES)
        send_pages(lender, node, note);
    else if (note->kind == FETCH_NOTE_WANT_TOUCHED)
        send_touched(lender, node, note);
    else
        lend(lender, node, note);
}

static void lend(struct lender *lender, uint32_t node, const struct fetch_note *note)
{
    for (const struct loan *loan = lender->loans; loan; loan = loan->next)
        if (loan->part == note->part)
            return;
    int code = check_want(lender, node, note);
    if (code == 0)
        code = add_loan(lender, node, note->part, note->kind == FETCH_NOTE_WANT_TABLES);
    if (code)
        refuse(lender, node, note->part, code);
    else
        send_next(lender);
}

/* Only to the member that runs the rank, and only if this is the one that it fetches from. 0 or an errno. */
static int check_want(const struct lender *lender, uint32_t node, const struct fetch_note *note)
{
    const struct epoch_start *start = lender->start;
    const struct job *job = lender->job;
    uint32_t own = epoch_start_index(start, job->config->node);
    uint32_t rank = note->part < start->rank_count ? note->part : note->part - start->rank_count;
    if (start->members[start->placement[rank]] != node || start->holder[rank] != own)
        return EPERM;
    return membership_may_lend(job->membership, node, note->line, rank,
                               store_image_line(job->store, note->part))
               ? 0
               : ENODATA;
}

static int add_loan(struct lender *lender, uint32_t node, uint32_t part, bool is_loaded)
{
    struct loan *loan = calloc(1, sizeof *loan), **last = &lender->loans;
    struct belay_error err;
    if (!loan || store_image_pin(lender->job->store, part, PIN_FETCHED, &loan->pin, &err) < 0) {
        int code = loan ? err.code : ENOMEM;
        free(loan);
        return code;
    }
    loan->lender = lender;
    loan->part = part;
    loan->node = node;
    loan->is_loaded = is_loaded;
    while (*last)
        last = &(*last)->next;
    *last = loan;
    return 0;
}

static struct loan *find_loaded(const struct lender *lender, uint32_t node, uint32_t part)
{
    for (struct loan *loan = lender->loans; loan; loan = loan->next)
        if (loan->part == part && loan->node == node && loan->lent)
            return loan;
    return NULL;
}

static void send_pages(struct lender *lender, uint32_t node, const struct fetch_note *note)
{
    const struct loan *loan = find_loaded(lender, node, note->part);
    struct fetch_note tag = note_of(lender, FETCH_NOTE_PAGES, note->part);
    tag.offset = note->offset;
    tag.bytes = note->bytes;
    int code = loan ? lent_send(loan->lent, node, &tag) : ENODATA;
    if (code)
        refuse(lender, node, note->part, code);
}

static void end_loaded(struct lender *lender, uint32_t node, uint32_t part)
{
    struct loan *loan = find_loaded(lender, node, part);
    if (loan)
        drop(loan);
}

/* Whether this node has the tables of an image that the node makes again. */
static bool has_tables_for(const struct lender *lender, uint32_t node, uint32_t rank)
{
    const struct epoch_start *start = lender->start;
    const struct epoch_rebuild *plan = rank < start->rank_count ? epoch_start_rebuild(start, rank) : NULL;
    return plan && start->members[start->placement[rank]] == node &&
           plan->tables == epoch_start_index(start, lender->job->config->node);
}

/* Once for each loan, or for each image that is made again. */
static void send_touched(struct lender *lender, uint32_t node, const struct fetch_note *note)
{
    struct loan *loan = find_loaded(lender, node, note->part);
    const struct fetch_note tag = note_of(lender, FETCH_NOTE_TOUCHED, note->part);
    bool *is_told = loan                                       ? &loan->is_touched_told
                    : has_tables_for(lender, node, note->part) ? &lender->are_told[note->part]
                                                               : NULL;
    if (!is_told || *is_told)
        return;
    *is_told = true;
    lend_touched(lender->job, lender->remotes, node, &tag, loan ? lent_bytes(loan->lent) : note->bytes);
}

/* The first that waits. */
static void send_next(struct lender *lender)
{
    struct belay_error err = {0};
    struct loan *loan = lender->loans;
    while (loan && (loan->outgoing || loan->lent))
        loan = loan->next;
    if (!loan || lender->sending_count >= SENDING_MAX)
        return;
    if (begin_sending(loan, &err) == 0)
        return;
    log_warning("job \"%s\": image %" PRIu32 " cannot be sent to node %" PRIu32 ": %s", lender->job->name,
                loan->part, loan->node, err.text);
    refuse(lender, loan->node, loan->part, err.code);
    drop(loan);
}

static int begin_sending(struct loan *loan, struct belay_error *err)
{
    struct lender *lender = loan->lender;
    struct fetch_note tag =
        note_of(lender, loan->is_loaded ? FETCH_NOTE_TABLES : FETCH_NOTE_IMAGE, loan->part);
    const struct outgoing_request request = {.loop = lender->job->agent->loop,
                                             .remotes = lender->remotes,
                                             .subject = REMOTES_IMAGES,
                                             .node = loan->node,
                                             .tag = &tag,
                                             .tag_bytes = sizeof tag,
                                             .part = loan->pin.fd,
                                             .form = OUTGOING_AS_IT_IS,
                                             .base = -1,
                                             .is_tables = loan->is_loaded,
                                             .line = tag.line,
                                             .rank = loan->part,
                                             .done = on_sent,
                                             .context = loan};
    tag.has_shared = loan->part < tag.ranks && store_image(lender->job->store, tag.ranks + loan->part) >= 0;
    tag.is_bound = loan->is_loaded && store_shares(lender->job->store, loan->part);
    if (fault_hit("agent.fetch.send", (int)loan->part, tag.line)) {
        image_spoil(loan->pin.fd);
        loan->is_spoiled = true;
    }
    if (loan->is_loaded && !(loan->lent = lent_create(lender->remotes, loan->pin.fd, err)))
        return -1;
    loan->outgoing = outgoing_start(&request, err);
    lender->sending_count += loan->outgoing != NULL;
    return loan->outgoing ? 0 : -1;
}

/* The node that wants it has refused it itself, or hears of the lost link. */
static void on_sent(void *context, int error, const struct outgoing_figures *figures)
{
    struct loan *loan = context;
    struct lender *lender = loan->lender;
    if (error)
        log_warning("job \"%s\": image %" PRIu32 " has not reached node %" PRIu32 ": %s", lender->job->name,
                    loan->part, loan->node, strerror(error));
    else
        log_debug("job \"%s\": image %" PRIu32 " has gone to node %" PRIu32 ", %" PRIu64 " bytes",
                  lender->job->name, loan->part, loan->node, figures->sent_bytes);
    if (error == 0 && loan->lent) { /* its pages are still to be asked for */
        loan->outgoing = NULL;
        lender->sending_count--;
    } else {
        drop(loan);
    }
    send_next(lender);
}

static void drop(struct loan *loan)
{
    struct lender *lender = loan->lender;
    struct loan **at = &lender->loans;
    while (*at != loan)
        at = &(*at)->next;
    *at = loan->next;
    lender->sending_count -= loan->outgoing != NULL;
    lent_destroy(loan->lent);
    if (loan->is_spoiled)
        image_spoil(loan->pin.fd); /* it is as it was */
    store_image_unpin(lender->job->store, &loan->pin);
    free(loan);
}

static void refuse(const struct lender *lender, uint32_t node, uint32_t part, int error)
{
    struct fetch_note word = note_of(lender, FETCH_NOTE_REFUSED, part);
    word.error = error;
    if (remotes_say(lender->remotes, REMOTES_IMAGES, node, &word, sizeof word) < 0) /* it hears of that */
        log_info("node %" PRIu32 " cannot be told that it does not get image %" PRIu32, node, part);
}

static struct fetch_note note_of(const struct lender *lender, enum fetch_note_kind kind, uint32_t part)
{
    return (struct fetch_note){.magic = FETCH_NOTE_MAGIC,
                               .kind = kind,
                               .epoch = lender->start->epoch,
                               .part = part,
                               .ranks = lender->start->rank_count,
                               .line = lender->start->line};
}
