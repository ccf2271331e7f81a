/*
 * load.h - an image that comes from another node while its rank already runs on it (docs/restart.md).
 *
 * Header, tables and sums are here from the beginning; the pages are holes in the memfd, and come in ranges
 * of packed.h, those first that the rank waits for. A range is compared with its sums before any of it gets
 * into the memfd: so what is in the memfd is the image's. The rank waits at each page that is not there
 * (uffd.h), and goes on when it has come; nobody else reads the image before all of it is here.
 *
 * Where a range comes from is a matter of its source: the member that has the image (load_pages.h), or a set
 * that has its parity (rebuild_load.c).
 *
 * All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LOAD_H
#define BELAY_NODE_AGENT_MEMBER_LOAD_H

#include <uv.h>

#include "common/util/error.h"
#include "node-agent/member/packed.h"
#include "node-agent/rank/rank.h"

struct load;

/* A range of the image's pages, by packed.h, that a source is to bring. */
struct load_range {
    uint64_t offset, bytes;
    uint8_t *data; /* room for it, with any content at first; written to while it is held (load_hold()) */
    uint32_t way;  /* the source's: how it is got */
};

struct load_source {
    /*
     * Get this range: the source holds it when the first bytes are about to come, and calls load_came()
     * later, not from here. Returns 0 or -1 with errno.
     */
    int (*ask)(void *context, struct load *load, struct load_range *range);
    /* What has come of it differs from its sums: get it in another way. Returns 0, or -1: there is no other
     * way. NULL: there never is. */
    int (*ask_again)(void *context, struct load *load, struct load_range *range);
};

struct load_config {
    uv_loop_t *loop;
    uint32_t rank, node; /* from that node, or the one that had its tables */
    bool is_of_parity;
    uint64_t line;
    const struct load_source *source; /* borrowed */
    void *source_context;
    /*
     * All of it is here, and the rank, if it has been welcomed, has mapped it (err NULL); or it cannot be
     * had. Called once, from the loop, and may destroy the load.
     */
    void (*done)(void *context, struct load *load, const struct belay_error *err);
    void *context;
};

/* fd is the image without its pages; it is taken over if this succeeds. Begins to ask. NULL with err. */
struct load *load_create(const struct load_config *config, int fd, struct belay_error *err);
/* Ranges that are not held are forgotten; what is on its way is dropped as it comes. A rank that waits for a
 * page does so until it is killed. Accepts NULL. */
void load_destroy(struct load *load);

/* This process is about to be given load_fd(); ready() follows when load_look() finds that it has mapped it.
 */
void load_welcome(struct load *load, struct rank *rank);
/* The rank has published something. */
void load_look(struct load *load);

/* A range that has been asked for, and is not held; NULL: there is none, or nothing is wanted any more. */
struct load_range *load_find(const struct load *load, uint64_t offset, uint64_t bytes);
/* Its bytes are about to come: the range lives until load_came(). */
void load_hold(struct load_range *range);
/* No more of it comes: load_destroy() may forget it. */
void load_let_go(struct load_range *range);
/* It has come (error 0), or will not, for that reason: then the load ends. It is forgotten after that. */
void load_came(struct load_range *range, int error);
/* The load ends, for this reason. */
void load_fail(struct load *load, const char *why);
/* Where the bytes of its ranges lie. Borrowed; any thread may read it. */
const struct packed *load_packed(const struct load *load);

/* Pages at these addresses are expected to be touched soon: they are asked for first. Other addresses are
 * left alone. */
void load_prefer(struct load *load, uint64_t start, uint64_t end);
/* More may be asked for than before. */
void load_go_on(struct load *load);
/* Lives at least until it is given up by load_unref(), which may be after load_destroy(). */
struct load *load_ref(struct load *load);
void load_unref(struct load *load);
/* Once only: whether nobody has begun to tell what is expected to be touched. */
bool load_begin_touched(struct load *load);

int load_fd(const struct load *load);               /* borrowed */
uint64_t load_total_bytes(const struct load *load); /* of the image with its tables */
uint32_t load_rank(const struct load *load);
uint32_t load_node(const struct load *load);
/* NULL: it has not been welcomed. */
struct rank *load_process(const struct load *load);

struct load_figures {
    uint64_t bytes, here_bytes;  /* of its pages */
    uint64_t faults;             /* pages that the rank has waited for */
    uint64_t asks;               /* ranges that have been asked for */
    uint64_t touched_bytes;      /* of its units those that are expected to be touched soon ... */
    uint64_t touched_here_bytes; /* ... and have come */
    double elapsed_ms;           /* since the load began */
    double first_ms;             /* until the rank was ready, 0: it is not yet ... */
    uint64_t first_bytes;        /* ... and what was here by then */
    /* From the moment at which a range that the rank waits for is asked for until it is mapped: of half of
     * the newest of these at most, and of the fastest of all; 0: there was none. */
    uint64_t half_ns, fastest_ns;
};
struct load_figures load_figures(const struct load *load);

#endif
