#include "node-agent/host/measure.h"

#include <stdlib.h>

#include "common/util/clock.h"

struct host_measure_part {
    struct peer_measures of;
    bool has_recorded, has_resumed;
    bool has_root;
    struct digest root;
};

void measure_begin(struct host_measure *measure, uint64_t line, uint32_t member_count)
{
    measure_release(measure);
    measure->line = line;
    measure->begin_ns = clock_now_ns();
    measure->parts = calloc(member_count, sizeof *measure->parts);
    measure->count = member_count;
}

void measure_release(struct host_measure *measure)
{
    free(measure->parts);
    *measure = (struct host_measure){0};
}

uint64_t measure_age_ms(const struct host_measure *measure)
{
    return (clock_now_ns() - measure->begin_ns) / 1000000;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void take_guarded(struct peer_guarded *part, const struct peer_guarded *of)
{
    part->bytes = larger(part->bytes, of->bytes);
    part->faults = larger(part->faults, of->faults);
    part->longest_fault_ns = larger(part->longest_fault_ns, of->longest_fault_ns);
    part->pool_bytes = larger(part->pool_bytes, of->pool_bytes);
    part->pool_waits = larger(part->pool_waits, of->pool_waits);
    part->pool_wait_ns = larger(part->pool_wait_ns, of->pool_wait_ns);
}

static void take_copied(struct peer_copied *part, const struct peer_copied *of)
{
    part->ahead_bytes = larger(part->ahead_bytes, of->ahead_bytes);
    part->right_bytes = larger(part->right_bytes, of->right_bytes);
    part->pause_bytes = larger(part->pause_bytes, of->pause_bytes);
    part->pause_ns = larger(part->pause_ns, of->pause_ns);
    part->pause_model_ns = larger(part->pause_model_ns, of->pause_model_ns);
    part->copied_model_ns = larger(part->copied_model_ns, of->copied_model_ns);
    part->copy_ns_per_mib = larger(part->copy_ns_per_mib, of->copy_ns_per_mib);
    part->guard_ns_per_mib = larger(part->guard_ns_per_mib, of->guard_ns_per_mib);
    part->fault_ns_per_mib = larger(part->fault_ns_per_mib, of->fault_ns_per_mib);
    part->yield_ppm = larger(part->yield_ppm, of->yield_ppm);
}

/* None of them becomes less. */
void measure_take(struct host_measure *measure, uint32_t member, const struct peer_measures *of)
{
    if (!measure->parts || member >= measure->count)
        return;
    struct peer_measures *part = &measure->parts[member].of;
    part->drain_ns = larger(part->drain_ns, of->drain_ns);
    part->pause_ns = larger(part->pause_ns, of->pause_ns);
    part->felt_ns = larger(part->felt_ns, of->felt_ns);
    part->late_ns = larger(part->late_ns, of->late_ns);
    part->dirty_bytes = larger(part->dirty_bytes, of->dirty_bytes);
    part->captured_bytes = larger(part->captured_bytes, of->captured_bytes);
    part->image_bytes = larger(part->image_bytes, of->image_bytes);
    part->sent.bytes = larger(part->sent.bytes, of->sent.bytes);
    part->sent.page_bytes = larger(part->sent.page_bytes, of->sent.page_bytes);
    part->sent.compare_ns = larger(part->sent.compare_ns, of->sent.compare_ns);
    part->sent.send_ns = larger(part->sent.send_ns, of->sent.send_ns);
    part->sent.page_model_ns = larger(part->sent.page_model_ns, of->sent.page_model_ns);
    part->sent.line_model_ns = larger(part->sent.line_model_ns, of->sent.line_model_ns);
    part->sent.page_parts = larger(part->sent.page_parts, of->sent.page_parts);
    part->sent.line_parts = larger(part->sent.line_parts, of->sent.line_parts);
    take_guarded(&part->guarded, &of->guarded);
    take_copied(&part->copied, &of->copied);
}

/* Without memory for the parts nothing is known to be complete, and the line ends without measurements. */
bool measure_note_recorded(struct host_measure *measure, uint32_t member)
{
    if (!measure->parts || member >= measure->count || measure->parts[member].has_recorded)
        return false;
    measure->parts[member].has_recorded = true;
    return ++measure->recorded == measure->count;
}

bool measure_note_resumed(struct host_measure *measure, uint32_t member)
{
    if (!measure->parts || member >= measure->count || measure->parts[member].has_resumed)
        return false;
    measure->parts[member].has_resumed = true;
    return ++measure->resumed == measure->count;
}

bool measure_is_complete(const struct host_measure *measure)
{
    return measure->parts && measure->resumed == measure->count;
}

static void add_guarded(struct peer_guarded *all, const struct peer_guarded *of)
{
    all->bytes += of->bytes;
    all->faults += of->faults;
    all->longest_fault_ns = larger(all->longest_fault_ns, of->longest_fault_ns);
    all->pool_bytes = larger(all->pool_bytes, of->pool_bytes);
    all->pool_waits += of->pool_waits;
    all->pool_wait_ns += of->pool_wait_ns;
}

/* A member without a yield has no ranks. */
static void add_copied(struct peer_copied *all, const struct peer_copied *of)
{
    all->ahead_bytes += of->ahead_bytes;
    all->right_bytes += of->right_bytes;
    all->pause_bytes += of->pause_bytes;
    all->pause_ns = larger(all->pause_ns, of->pause_ns);
    all->pause_model_ns = larger(all->pause_model_ns, of->pause_model_ns);
    all->copied_model_ns = larger(all->copied_model_ns, of->copied_model_ns);
    all->copy_ns_per_mib = larger(all->copy_ns_per_mib, of->copy_ns_per_mib);
    all->guard_ns_per_mib = larger(all->guard_ns_per_mib, of->guard_ns_per_mib);
    all->fault_ns_per_mib = larger(all->fault_ns_per_mib, of->fault_ns_per_mib);
    if (all->yield_ppm == 0 || (of->yield_ppm > 0 && of->yield_ppm < all->yield_ppm))
        all->yield_ppm = of->yield_ppm;
}

struct peer_measures measure_merge(const struct host_measure *measure)
{
    struct peer_measures all = {0};
    for (uint32_t i = 0; measure->parts && i < measure->count; i++) {
        const struct peer_measures *of = &measure->parts[i].of;
        all.drain_ns = larger(all.drain_ns, of->drain_ns);
        all.pause_ns = larger(all.pause_ns, of->pause_ns);
        all.felt_ns = larger(all.felt_ns, of->felt_ns);
        all.late_ns = larger(all.late_ns, of->late_ns);
        all.dirty_bytes += of->dirty_bytes;
        all.captured_bytes += of->captured_bytes;
        all.image_bytes += of->image_bytes;
        all.sent.bytes += of->sent.bytes;
        all.sent.page_bytes += of->sent.page_bytes;
        all.sent.compare_ns += of->sent.compare_ns;
        all.sent.send_ns += of->sent.send_ns;
        all.sent.page_model_ns += of->sent.page_model_ns;
        all.sent.line_model_ns += of->sent.line_model_ns;
        all.sent.page_parts += of->sent.page_parts;
        all.sent.line_parts += of->sent.line_parts;
        add_guarded(&all.guarded, &of->guarded);
        add_copied(&all.copied, &of->copied);
    }
    return all;
}

void measure_take_root(struct host_measure *measure, uint32_t member, const struct peer_message *message)
{
    if (message->kind != PEER_PROTECTED || !measure->parts || member >= measure->count)
        return;
    measure->parts[member].has_root = message->has_root;
    measure->parts[member].root = message->root;
}

void measure_tell_root(const struct host_measure *measure, struct peer_message *message)
{
    struct digest sum = {{0}};
    message->has_root = measure->parts;
    for (uint32_t i = 0; measure->parts && i < measure->count; i++) {
        message->has_root &= measure->parts[i].has_root;
        sum = digest_sum(&sum, &measure->parts[i].root);
    }
    message->root = sum;
}

uint64_t measure_image_bytes(const struct host_measure *measure)
{
    return measure_merge(measure).image_bytes;
}

static uint64_t between(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns && to_ns > from_ns ? to_ns - from_ns : 0;
}

void measure_fill(const struct host_measure *measure, struct history_line *entry)
{
    struct peer_measures all = measure_merge(measure);
    entry->captured_bytes = all.captured_bytes;
    entry->dirty_bytes = all.dirty_bytes;
    entry->converge_ms = between(measure->strobe_ns, measure->converged_ns) / 1e6;
    entry->sent = all.sent;
    entry->guarded = all.guarded;
    entry->copied = all.copied;
    entry->protect_ms = between(measure->captured_ns, measure->end_ns) / 1e6;
    entry->drain_ms = all.drain_ns / 1e6;
    entry->pause_ms = all.pause_ns / 1e6;
    entry->felt_pause_ms = all.felt_ns / 1e6;
    entry->total_ms = (between(measure->begin_ns, measure->end_ns) + all.late_ns) / 1e6;
}
