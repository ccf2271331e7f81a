/*
 * vocabulary.c - all kinds, in the order in which they begin, are observed and end.
 */
#include <stddef.h>

#include "tests/histories/core/kind.h"

extern const struct kind kind_children, kind_code, kind_communicators, kind_crowd, kind_descriptors,
    kind_endpoints, kind_events, kind_files, kind_heap, kind_ipc, kind_limits, kind_locks, kind_memory,
    kind_messages, kind_names, kind_pipes, kind_process, kind_programs, kind_raw, kind_shared, kind_signals,
    kind_stack, kind_stamps, kind_start, kind_streams, kind_threads, kind_timers, kind_views, kind_waits;

/* The last one, since its absence ends the list: only history_nested has it. */
extern const struct kind kind_nested __attribute__((weak));

const struct kind *const vocabulary[] = {
    &kind_names,   &kind_files,    &kind_descriptors,   &kind_memory, &kind_heap,      &kind_stack,
    &kind_code,    &kind_signals,  &kind_timers,        &kind_pipes,  &kind_endpoints, &kind_events,
    &kind_streams, &kind_views,    &kind_locks,         &kind_limits, &kind_process,   &kind_threads,
    &kind_waits,   &kind_children, &kind_programs,      &kind_ipc,    &kind_raw,       &kind_crowd,
    &kind_shared,  &kind_messages, &kind_communicators, &kind_start,  &kind_stamps,    &kind_nested,
    NULL,
};
