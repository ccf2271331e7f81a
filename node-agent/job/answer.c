#include "node-agent/job/answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A nanosecond for a MiB is 1.024 us for a GiB. */
static double ms_per_gib(uint64_t ns_per_mib)
{
    return (double)ns_per_mib * 1024 / 1e6;
}

static void fill_copied(const struct peer_copied *copied, Belay__Wire__LineStatus *status)
{
    status->ahead_bytes = copied->ahead_bytes;
    status->right_bytes = copied->right_bytes;
    status->pause_bytes = copied->pause_bytes;
    status->pause_copy_ms = (double)copied->pause_ns / 1e6;
    status->pause_model_ms = (double)copied->pause_model_ns / 1e6;
    status->copied_model_ms = (double)copied->copied_model_ns / 1e6;
    status->copy_ms_per_gib = ms_per_gib(copied->copy_ns_per_mib);
    status->guard_ms_per_gib = ms_per_gib(copied->guard_ns_per_mib);
    status->fault_ms_per_gib = ms_per_gib(copied->fault_ns_per_mib);
    status->yield = (double)copied->yield_ppm / 1e6;
}

void answer_fill_line(const struct history_line *entry, Belay__Wire__LineStatus *status)
{
    status->line = entry->line;
    status->state = (char *)line_state_name(entry->state);
    status->line_state = (Belay__Wire__LineState)entry->state;
    status->image_bytes = entry->image_bytes;
    status->dirty_bytes = entry->dirty_bytes;
    status->captured_bytes = entry->captured_bytes;
    status->sent_bytes = entry->sent.bytes;
    status->sent_page_bytes = entry->sent.page_bytes;
    status->compare_ms = (double)entry->sent.compare_ns / 1e6;
    status->send_ms = (double)entry->sent.send_ns / 1e6;
    status->page_model_ms = (double)entry->sent.page_model_ns / 1e6;
    status->line_model_ms = (double)entry->sent.line_model_ns / 1e6;
    status->page_parts = entry->sent.page_parts;
    status->line_parts = entry->sent.line_parts;
    status->guarded_bytes = entry->guarded.bytes;
    status->guard_faults = entry->guarded.faults;
    status->longest_fault_ms = (double)entry->guarded.longest_fault_ns / 1e6;
    status->pool_bytes = entry->guarded.pool_bytes;
    status->pool_waits = entry->guarded.pool_waits;
    status->pool_wait_ms = (double)entry->guarded.pool_wait_ns / 1e6;
    fill_copied(&entry->copied, status);
    status->converge_ms = entry->converge_ms;
    status->drain_ms = entry->drain_ms;
    status->pause_ms = entry->pause_ms;
    status->felt_pause_ms = entry->felt_pause_ms;
    status->protect_ms = entry->protect_ms;
    status->begun_at_ms = entry->begun_at_ms;
    status->total_ms = entry->total_ms;
    status->reason = (char *)entry->reason;
}

void answer_done(struct connection *connection, uint32_t count, const char *text)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__Done done = BELAY__WIRE__DONE__INIT;
    done.count = count;
    done.text = (char *)text;
    reply.body_case = BELAY__WIRE__REPLY__BODY_DONE;
    reply.done = &done;
    connection_reply(connection, &reply, NULL, 0);
}

void answer_line_done(struct connection *connection, struct job *job, uint64_t line, const char *reason)
{
    char text[HISTORY_REASON_BYTES + 64];
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__LineDone done = BELAY__WIRE__LINE_DONE__INIT;
    Belay__Wire__LineStatus status = BELAY__WIRE__LINE_STATUS__INIT;
    const struct history_line *entry = history_line(&job->history, line);
    if (entry)
        answer_fill_line(entry, &status);
    status.line = line;
    if (reason && line)
        snprintf(text, sizeof text, "line %llu was aborted: %s", (unsigned long long)line, reason);
    else if (reason)
        snprintf(text, sizeof text, "no line was taken: %s", reason);
    if (reason) {
        reply.error = text;
        reply.error_code = ECANCELED;
    }
    done.line = &status;
    done.job = job->name;
    reply.body_case = BELAY__WIRE__REPLY__BODY_LINE_DONE;
    reply.line_done = &done;
    connection_reply(connection, &reply, NULL, 0);
}

void answer_waiters(struct job *job)
{
    while (job->waiters) {
        struct job_waiter *waiter = job->waiters;
        job->waiters = waiter->next;
        answer_done(waiter->connection, 1, job->message);
        free(waiter);
    }
}
