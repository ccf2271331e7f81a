/*
 * refill_stand.h - what stands in for an agent around node-agent/member/refill_*.c: its store, timer, pool,
 * gatherer, and links to other agents. Numbers stand for descriptors of memory files; what they are of, the
 * host knows (refill_host.c).
 */
#ifndef BELAY_TESTS_SIM_REFILL_STAND_H
#define BELAY_TESTS_SIM_REFILL_STAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/digest.h"
#include "coord/epoch.h"

#define REFILL_NOTE_BYTES 40u

struct refill_host;
struct refill_stand;

struct refill_stand_epoch {
    uint32_t number, node, world, member_count;
    const uint32_t *members, *placement;
    enum scheme scheme;
    struct parity_code code;
};

/* Ends the program when there is no memory. */
struct refill_stand *refill_stand_open(struct refill_host *host, const struct refill_stand_epoch *epoch);
/* What was under way is given up. Accepts NULL. */
void refill_stand_close(struct refill_stand *stand);
void refill_stand_go_on(struct refill_stand *stand);
void refill_stand_rest(struct refill_stand *stand);
void refill_stand_hear(struct refill_stand *stand, uint32_t node, const void *note);
/* For a mutant. Whether a node says with this that it has made all; then what one says that has made, and
 * taken, all. */
bool refill_stand_answer_for(const void *note, void *made, void *taken);
/* A part has come, with a tag. */
void refill_stand_offer(struct refill_stand *stand, uint32_t node, const void *tag, int part);
/* What was gathered; part -1: it cannot be had now. */
void refill_stand_gathered(struct refill_stand *stand, int part);
/* refill_host_push() was called with this number: its time has come. */
void refill_stand_do(struct refill_stand *stand, uint64_t number);

/* ---- refill_host.c ---- */

uint64_t refill_host_line(const struct refill_host *host);
uint64_t refill_host_part_line(const struct refill_host *host, uint32_t part);
bool refill_host_has_deltas(const struct refill_host *host);
/* A copy of what is held of a rank; another number for its tables alone. */
int refill_host_pin(struct refill_host *host, uint32_t rank);
int refill_host_pin_tables(struct refill_host *host, uint32_t rank);
void refill_host_say(struct refill_host *host, uint32_t node, const void *note);
void refill_host_send(struct refill_host *host, uint32_t node, const void *tag, int part);
void refill_host_push(struct refill_host *host, uint64_t number, uint32_t longest_us);
struct digest refill_host_root(struct refill_host *host, uint32_t rank, int part);
void refill_host_take(struct refill_host *host, uint32_t rank, bool is_tables, int part);
const struct epoch_start *refill_host_record(struct refill_host *host);
/* Parity: of a slot, or the spare of it; -1: none, or another one than this. */
int refill_host_find_parity(const struct refill_host *host, const struct parity_holding *holding);
int refill_host_spare(const struct refill_host *host, uint32_t slot);
int refill_host_make_parity(struct refill_host *host, uint32_t slot, uint64_t line, int sum);
void refill_host_keep_spare(struct refill_host *host, uint32_t slot, int part);
void refill_host_swap(struct refill_host *host, uint32_t slot);
void refill_host_drop_spares(struct refill_host *host);
bool refill_host_expects(const struct refill_host *host, uint32_t slot);
void refill_host_gather(struct refill_host *host, uint32_t slot, uint64_t line);
void refill_host_gather_again(struct refill_host *host);
void refill_host_gather_cancel(struct refill_host *host);
void refill_host_done(struct refill_host *host, uint64_t line);

#endif
