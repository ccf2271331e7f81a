/* page.c - see page.h. The rank may write anything to the page, at any time: a field is read once. */
#include "node-agent/rank/page.h"

#include <stddef.h>
#include <stdlib.h>

#define MAX_SLOTS_READ (4u << 20) /* before the rank is left alone: it will say when it is done */
#define MAX_SLOTS ((CONTROL_BYTES - offsetof(struct control, clocks)) / sizeof(struct control_clock))

static void order_target(struct control_clock *clock, const struct targets *targets);
static uint32_t slots_of(const struct control *control);
static int make_room(struct rank_report *report, uint32_t count);
static bool read_once(const struct control *page, struct rank_report *report);
static void read_clocks(const volatile struct control *control, uint32_t slots, struct rank_report *report);

void page_order(struct control *control, enum control_command command, uint64_t line)
{
    __atomic_store_n(&control->line, line, __ATOMIC_RELAXED);
    __atomic_store_n(&control->command, (uint32_t)command, __ATOMIC_RELEASE);
    page_bump(control);
}

void page_order_targets(struct control *control, uint64_t line, uint32_t version,
                        const struct targets *targets)
{
    uint32_t slots = slots_of(control);
    for (uint32_t i = 0; i < slots; i++)
        order_target(&control->clocks[i], targets);
    __atomic_store_n(&control->targets_line, line, __ATOMIC_RELEASE);
    __atomic_store_n(&control->targets_version, version, __ATOMIC_RELEASE);
    page_bump(control);
}

void page_order_drain(struct control *control, uint64_t line)
{
    __atomic_store_n(&control->drain_line, line, __ATOMIC_RELEASE);
}

void page_order_leave(struct control *control, uint64_t line)
{
    __atomic_store_n(&control->leave_line, line, __ATOMIC_RELEASE);
}

void page_bump(struct control *control)
{
    __atomic_add_fetch(&control->command_seq, 1, __ATOMIC_SEQ_CST);
}

bool page_read(const struct control *control, struct rank_report *report)
{
    uint32_t slots = slots_of(control);
    if (make_room(report, slots) < 0)
        return false;
    for (uint32_t attempt = 0; attempt < 64 && attempt * slots < MAX_SLOTS_READ; attempt++)
        if (read_once(control, report))
            return true;
    return false;
}

/* The text is cut, and nothing but text is passed on. */
bool page_failure(const struct control *control, uint64_t line, char text[CONTROL_FAILURE_BYTES])
{
    const volatile char *said = control->failure;
    size_t length = 0;
    if (__atomic_load_n(&control->failed_line, __ATOMIC_ACQUIRE) != line)
        return false;
    for (; length < CONTROL_FAILURE_BYTES - 1; length++) {
        char c = said[length];
        if (c == 0)
            break;
        text[length] = c >= ' ' && c <= '~' ? c : '?';
    }
    text[length] = 0;
    return true;
}

/* A rank that compares target_comm first never takes one communicator's target for another's. */
static void order_target(struct control_clock *clock, const struct targets *targets)
{
    uint64_t comm = __atomic_load_n(&clock->comm, __ATOMIC_RELAXED);
    uint64_t target = targets_find(targets, comm);
    if (__atomic_load_n(&clock->target_comm, __ATOMIC_RELAXED) != comm) {
        __atomic_store_n(&clock->target_comm, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&clock->target, target, __ATOMIC_RELEASE);
        __atomic_store_n(&clock->target_comm, comm, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&clock->target, target, __ATOMIC_RELEASE);
    }
}

static uint32_t slots_of(const struct control *control)
{
    uint32_t slots = __atomic_load_n(&control->slots, __ATOMIC_ACQUIRE);
    return slots <= MAX_SLOTS ? slots : (uint32_t)MAX_SLOTS;
}

static int make_room(struct rank_report *report, uint32_t count)
{
    if (count <= report->clock_room)
        return 0;
    uint32_t room = count * 2;
    void *larger = realloc(report->clocks, room * sizeof *report->clocks);
    if (!larger)
        return -1;
    report->clocks = larger;
    report->clock_room = room;
    return 0;
}

/* The rank may write at any moment: everything is copied once, and judged only if nothing moved. */
static bool read_once(const struct control *page, struct rank_report *report)
{
    const volatile struct control *control = page;
    uint32_t version = __atomic_load_n(&page->version, __ATOMIC_ACQUIRE);
    if (version & 1)
        return false;
    uint32_t slots = control->slots;
    if (slots > report->clock_room || slots > MAX_SLOTS)
        return false;
    report->state = (enum control_state)control->state;
    report->comm = control->comm;
    report->seq = control->seq;
    uint32_t peer_count = control->peer_count;
    report->peer_count = peer_count <= CONTROL_MAX_PEERS ? peer_count : 0; /* too many to name: anybody */
    for (uint32_t i = 0; i < report->peer_count; i++)
        report->peers[i] = control->peers[i];
    report->parked_line = control->parked_line;
    read_clocks(control, slots, report);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&page->version, __ATOMIC_RELAXED) == version;
}

/* A rank may write anything there. */
static uint32_t size_of(const volatile struct control_clock *clock)
{
    uint64_t size = clock->size;
    return size <= UINT32_MAX ? (uint32_t)size : 0;
}

static void read_clocks(const volatile struct control *control, uint32_t slots, struct rank_report *report)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < slots; i++) {
        uint64_t comm = control->clocks[i].comm;
        if (comm == 0)
            continue;
        report->clocks[count].comm = comm;
        report->clocks[count].seq = control->clocks[i].seq;
        report->clocks[count].target = control->clocks[i].target_comm == comm ? control->clocks[i].target : 0;
        report->clocks[count].size = size_of(&control->clocks[i]);
        count++;
    }
    report->clock_count = count;
}
