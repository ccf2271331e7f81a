/*
 * coord_report.h - what the coordinator is told of one rank while a line converges.
 */
#ifndef BELAY_COORD_COORD_REPORT_H
#define BELAY_COORD_COORD_REPORT_H

#include <stdbool.h>
#include <stdint.h>

enum coord_rank_state {
    COORD_RANK_NONE = 0,
    COORD_RANK_RUNNING, /* computing, or in a call that needs nobody */
    COORD_RANK_INSIDE,  /* in a collective (comm, seq) */
    COORD_RANK_HELD,    /* at the entry of (comm, seq) */
    COORD_RANK_WAITING, /* for peers; peer_count 0: for anybody */
};

/* What an agent reports of one of its ranks, judged against the targets of targets_version. */
struct coord_report {
    uint32_t rank;
    enum coord_rank_state state;
    bool is_below; /* below target on at least one of its communicators */
    uint64_t comm, seq;
    uint32_t peer_count;
    const int32_t *peers;     /* world ranks; borrowed for the call */
    uint32_t targets_version; /* 0: before any targets of this line */
};

#endif
