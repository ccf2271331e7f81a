/*
 * protection.h - what the redundancy schemes cost a node in memory, bytes and time, and what they survive:
 * formulas, for `belay advise`.
 *
 * A set has N = k + m nodes, of which any m may be lost (Plank, "A tutorial on Reed-Solomon coding for
 * fault-tolerance in RAID-like systems", 1997): XOR:N is m = 1, PARTNER is k = m = 1, SINGLE is m = 0. Parity
 * rotates over the set, so that each node holds the parity of others as far as others hold its own. Per node,
 * with the images I of its ranks, the changes D that a line stages of them, and the bytes S that are sent of
 * these changes to one holder:
 *
 *     memory      I + D + m/k · I + m · S     own images and staging, copies or parity, what comes for them
 *     line        m · S                       each change goes once to each holder
 *     first line  m · I
 */
#ifndef BELAY_COORD_PROTECTION_H
#define BELAY_COORD_PROTECTION_H

#include <stdbool.h>
#include <stdint.h>

struct protection_scheme {
    char name[16];
    uint32_t data, parity; /* k and m; SINGLE: 1 and 0 */
};

/* The schemes that are compared, in the order of what they survive. */
#define PROTECTION_SCHEMES 6
extern const struct protection_scheme protection_schemes[PROTECTION_SCHEMES];

/* Of a job, per node. */
struct protection_load {
    double image_bytes, staged_bytes, sent_bytes; /* I, D, S */
    double send_s;                                /* until a byte is on another node; 0: not known */
};

struct protection_cost {
    double memory_bytes, line_bytes, first_bytes;
    double line_ms, first_ms; /* of sending; 0: not known */
};

/* Nodes of a set, and how many of them may be lost. */
uint32_t protection_nodes(const struct protection_scheme *scheme);
uint32_t protection_losses(const struct protection_scheme *scheme);
struct protection_cost protection_cost(const struct protection_scheme *scheme,
                                       const struct protection_load *load);

#endif
