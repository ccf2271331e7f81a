#include "tests/sim/refill_stand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/image/image.h"
#include "common/image/root.h"
#include "common/image/spoil.h"
#include "common/image/sums.h"
#include "common/util/log.h"
#include "node-agent/job/membership.h"
#include "node-agent/member/refill_state.h"

#define TASKS 64u

_Static_assert(sizeof(struct refill_note) == REFILL_NOTE_BYTES, "a note has room in a message");

/* What is to happen later; kind NONE: it was called off, or is over. */
struct task {
    enum { TASK_NONE = 0, TASK_POOL, TASK_TAKEN, TASK_SENT } kind;
    uint64_t number;
    const struct pool_ops *pool;
    struct transfer_intake intake;
    struct outgoing_request sent;
    void *context;
};

struct refill_stand {
    struct refill_host *host;
    struct job job;
    struct agent agent;
    Belay__Wire__JobOpen config;
    Belay__Wire__JobSettings settings;
    struct refill *refill;
    const struct remotes_ops *ops;
    void *ops_context;
    timer_f fire;
    void *fire_context;
    uint64_t fire_number; /* of the timer, when it is set; 0: it is not */
    uint64_t numbers;     /* given */
    struct task tasks[TASKS];
    gathered_f *gathered;
    void *gathered_context;
};

/* Whose calls these are: one at a time. */
static struct refill_stand *now;

static void on_done(void *context, uint64_t line)
{
    struct refill_stand *stand = context;
    refill_host_done(stand->host, line);
}

struct refill_stand *refill_stand_open(struct refill_host *host, const struct refill_stand_epoch *epoch)
{
    struct refill_stand *stand = calloc(1, sizeof *stand);
    if (!stand) {
        perror("sim: refill");
        exit(2);
    }
    now = stand;
    stand->host = host;
    stand->config.settings = &stand->settings;
    stand->job.config = &stand->config;
    stand->job.agent = &stand->agent;
    const struct mirror_epoch of = {.job = &stand->job,
                                    .number = epoch->number,
                                    .node = epoch->node,
                                    .world = epoch->world,
                                    .member_count = epoch->member_count,
                                    .members = epoch->members,
                                    .placement = epoch->placement,
                                    .scheme = epoch->scheme,
                                    .code = epoch->code};
    struct gatherer *gatherer = epoch->scheme == SCHEME_PARITY ? (struct gatherer *)stand : NULL;
    stand->refill = refill_create(&of, gatherer, on_done, stand);
    if (!stand->refill) {
        perror("sim: refill");
        exit(2);
    }
    return stand;
}

/* As in an agent that ends its loop: what others still run is told that nobody waits for it. */
void refill_stand_close(struct refill_stand *stand)
{
    struct refill_stand *former = now; /* another node is lost amid a step of this one */
    if (!stand)
        return;
    now = stand;
    refill_destroy(stand->refill);
    for (uint32_t i = 0; i < TASKS; i++) {
        struct task task = stand->tasks[i];
        stand->tasks[i].kind = TASK_NONE;
        if (task.kind == TASK_POOL)
            task.pool->done(task.context, false);
        else if (task.kind == TASK_TAKEN)
            task.intake.done(task.intake.context, ECANCELED);
    }
    now = former == stand ? NULL : former;
    free(stand);
}

void refill_stand_go_on(struct refill_stand *stand)
{
    now = stand;
    refill_go_on(stand ? stand->refill : NULL);
}

void refill_stand_rest(struct refill_stand *stand)
{
    now = stand;
    refill_rest(stand ? stand->refill : NULL);
}

void refill_stand_hear(struct refill_stand *stand, uint32_t node, const void *note)
{
    now = stand;
    stand->ops->word(stand->ops_context, node, note, REFILL_NOTE_BYTES);
}

bool refill_stand_answer_for(const void *note, void *made, void *taken)
{
    struct refill_note answer;
    memcpy(&answer, note, sizeof answer);
    if (answer.kind != REFILL_NOTE_MADE || answer.is_answer)
        return false;
    answer.is_answer = true;
    memcpy(made, &answer, sizeof answer);
    answer.kind = REFILL_NOTE_TAKEN;
    memcpy(taken, &answer, sizeof answer);
    return true;
}

static struct task *add_task(uint32_t longest_us)
{
    struct task *task;
    do
        task = &now->tasks[++now->numbers % TASKS];
    while (task->kind != TASK_NONE);
    task->number = now->numbers;
    refill_host_push(now->host, task->number, longest_us);
    return task;
}

/* The bytes of an image do not matter. */
void refill_stand_offer(struct refill_stand *stand, uint32_t node, const void *tag, int part)
{
    struct transfer_intake intake;
    now = stand;
    if (stand->ops->offered(stand->ops_context, node, tag, REFILL_NOTE_BYTES, 1, &intake) != 0)
        return;
    struct refill_arrival *arrival = intake.context;
    arrival->incoming.fd = part;
    struct task *task = add_task(400);
    task->kind = TASK_TAKEN;
    task->intake = intake;
}

void refill_stand_gathered(struct refill_stand *stand, int part)
{
    struct belay_error err = {.code = ESTALE};
    gathered_f *gathered = stand->gathered;
    now = stand;
    stand->gathered = NULL;
    if (gathered)
        gathered(stand->gathered_context, part, &err);
}

void refill_stand_do(struct refill_stand *stand, uint64_t number)
{
    struct task *at = &stand->tasks[number % TASKS], task = *at;
    const struct outgoing_figures none = {0};
    now = stand;
    if (number == stand->fire_number) {
        stand->fire_number = 0;
        stand->fire(stand->fire_context);
        return;
    }
    if (task.number != number)
        return;
    at->kind = TASK_NONE;
    if (task.kind == TASK_POOL)
        task.pool->done(task.context, false);
    else if (task.kind == TASK_TAKEN)
        task.intake.done(task.intake.context,
                         task.intake.take(task.intake.context, 0, (const uint8_t *)"", 1) < 0 ? ECANCELED
                                                                                              : 0);
    else if (task.kind == TASK_SENT)
        task.sent.done(task.sent.context, 0, &none);
}

/* ---- node-agent/loop ---- */

struct timer *timer_new(uv_loop_t *loop, timer_f fire, void *context)
{
    (void)loop;
    now->fire = fire;
    now->fire_context = context;
    return (struct timer *)now;
}

void timer_destroy(struct timer *timer)
{
    (void)timer;
}

/* A second is ten milliseconds here. */
void timer_start(struct timer *timer, uint64_t delay_ms, uint64_t repeat_ms)
{
    struct refill_stand *stand = (struct refill_stand *)timer;
    (void)repeat_ms;
    stand->fire_number = ++stand->numbers;
    refill_host_push(stand->host, stand->fire_number, (uint32_t)delay_ms * 10);
}

void timer_stop(struct timer *timer)
{
    ((struct refill_stand *)timer)->fire_number = 0;
}

struct pool_work *pool_start(uv_loop_t *loop, uint32_t count, const struct pool_ops *ops, void *context)
{
    (void)loop;
    for (uint32_t i = 0; i < count; i++)
        ops->run(context, i);
    struct task *task = add_task(300);
    task->kind = TASK_POOL;
    task->pool = ops;
    task->context = context;
    return (struct pool_work *)task;
}

/* ---- links ---- */

void remotes_hear(struct remotes *remotes, enum remotes_subject subject, const struct remotes_ops *ops,
                  void *context)
{
    (void)remotes;
    (void)subject;
    now->ops = ops;
    now->ops_context = context;
}

int remotes_say(struct remotes *remotes, enum remotes_subject subject, uint32_t node, const void *bytes,
                size_t count)
{
    (void)remotes;
    (void)subject;
    (void)count;
    refill_host_say(now->host, node, bytes);
    return 0;
}

struct outgoing *outgoing_start(const struct outgoing_request *request, struct belay_error *err)
{
    (void)err;
    int part = request->is_tables ? refill_host_pin_tables(now->host, request->rank) : request->part;
    refill_host_send(now->host, request->node, request->tag, part);
    struct task *task = add_task(400);
    task->kind = TASK_SENT;
    task->sent = *request;
    return (struct outgoing *)task;
}

void outgoing_cancel(struct outgoing *outgoing)
{
    ((struct task *)outgoing)->kind = TASK_NONE;
}

int incoming_begin(struct incoming *incoming, struct belay_error *err)
{
    (void)err;
    incoming->fd = -1;
    return 0;
}

int incoming_take(struct incoming *incoming, const uint8_t *bytes, size_t count)
{
    (void)bytes;
    incoming->got += count;
    return 0;
}

bool incoming_is_whole(const struct incoming *incoming)
{
    return incoming->got > 0;
}

void incoming_end(struct incoming *incoming)
{
    incoming->fd = -1;
}

/* ---- gather.h ---- */

bool gatherer_expects(const struct gatherer *gatherer, uint32_t slot)
{
    (void)gatherer;
    return refill_host_expects(now->host, slot);
}

struct gathering *gather(struct gatherer *gatherer, uint32_t slot, uint64_t line, gathered_f *done,
                         void *context, struct belay_error *err)
{
    (void)err;
    now->gathered = done;
    now->gathered_context = context;
    refill_host_gather(now->host, slot, line);
    return (struct gathering *)gatherer;
}

void gather_again(struct gathering *gathering)
{
    (void)gathering;
    refill_host_gather_again(now->host);
}

void gather_cancel(struct gathering *gathering)
{
    if (!gathering)
        return;
    now->gathered = NULL;
    refill_host_gather_cancel(now->host);
}

/* ---- images: a part is what it says that it is ---- */

/* The caller compares the header with what it has asked for. */
int image_load(int fd, struct image_view *view, struct belay_error *err)
{
    static struct image_header header;
    const struct refill_note *note = &now->refill->arrival->note;
    (void)fd;
    (void)err;
    header = (struct image_header){
        .line = note->line, .rank = note->part % note->ranks, .ranks = note->ranks, .total_bytes = 1};
    *view = (struct image_view){.header = &header};
    return 0;
}

void image_unload(struct image_view *view)
{
    (void)view;
}

uint64_t image_tables_bytes(const struct image_view *view)
{
    (void)view;
    return 1;
}

void image_spoil(int fd)
{
    (void)fd;
}

int sums_check_tables(const struct image_view *view, struct belay_error *err)
{
    (void)view;
    (void)err;
    return 0;
}

int sums_check(int fd, const struct image_view *view, const bool *is_stopped, struct belay_error *err)
{
    (void)fd;
    (void)is_stopped;
    return sums_check_tables(view, err);
}

int root_of_image(int part, int base, struct digest *root, struct belay_error *err)
{
    (void)base;
    (void)err;
    const struct refill_note *note = &now->refill->arrival->note;
    *root = refill_host_root(now->host, note->part % note->ranks, part);
    return 0;
}

int root_of_tables(int part, int base, struct digest *root, struct belay_error *err)
{
    return root_of_image(part, base, root, err);
}

const struct epoch_start *membership_record(const struct membership *membership)
{
    (void)membership;
    return refill_host_record(now->host);
}

/* ---- store.h; no group shares anything ---- */

uint64_t store_committed_line(const struct store *store)
{
    (void)store;
    return refill_host_line(now->host);
}

uint64_t store_image_line(const struct store *store, uint32_t part)
{
    (void)store;
    return refill_host_part_line(now->host, part);
}

int store_image(const struct store *store, uint32_t part)
{
    (void)store;
    (void)part;
    return -1;
}

bool store_has_deltas(const struct store *store)
{
    (void)store;
    return refill_host_has_deltas(now->host);
}

uint64_t store_room(const struct store *store, uint64_t limit_bytes)
{
    (void)store;
    (void)limit_bytes;
    return UINT64_MAX;
}

struct digest store_part_root(const struct store *store, uint32_t part)
{
    (void)store;
    (void)part;
    return (struct digest){{0}};
}

int store_image_pin(struct store *store, uint32_t rank, enum pin_reason reason, struct store_pin *pin,
                    struct belay_error *err)
{
    (void)store;
    (void)reason;
    (void)err;
    pin->fd = refill_host_pin(now->host, rank);
    return 0;
}

void store_image_unpin(struct store *store, struct store_pin *pin)
{
    (void)store;
    pin->fd = -1;
}

int store_take_images(struct store *store, uint64_t line, uint32_t ranks, const struct store_fetched *fetched,
                      uint32_t count, struct belay_error *err)
{
    if (store_has_deltas(store) || line != refill_host_line(now->host))
        return belay_error_set(err, EINVAL, "images cannot be taken beside those that are here");
    for (uint32_t i = 0; i < count; i++)
        refill_host_take(now->host, fetched[i].rank % ranks, fetched[i].rank >= ranks, fetched[i].fd);
    return 0;
}

int store_find_parity(const struct store *store, const struct parity_holding *holding)
{
    (void)store;
    return refill_host_find_parity(now->host, holding);
}

int store_spare(const struct store *store, uint32_t slot)
{
    (void)store;
    return refill_host_spare(now->host, slot);
}

int store_spare_parity(struct store *store, uint32_t slot, int fd, struct belay_error *err)
{
    (void)store;
    (void)err;
    refill_host_keep_spare(now->host, slot, fd);
    return 0;
}

int store_swap_parity(struct store *store, uint32_t slot, uint32_t ranks, struct belay_error *err)
{
    (void)store;
    (void)ranks;
    (void)err;
    refill_host_swap(now->host, slot);
    return 0;
}

void store_drop_spares(struct store *store)
{
    (void)store;
    refill_host_drop_spares(now->host);
}

int parity_part_make(const struct parity_part_request *request, struct belay_error *err)
{
    (void)err;
    return refill_host_make_parity(now->host, (uint32_t)request->holding.slot, request->line, request->sum);
}

void log_write(enum log_level level, const char *format, ...)
{
    (void)level;
    (void)format;
}
