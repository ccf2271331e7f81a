/*
 * model.h - what checkpoints cost by the granularity at which changes are found and saved; pure.
 *
 * After AG-ckpt ("AG-ckpt", IEICE Trans. Inf. & Syst., 2013), theorems 1 to 3. B_1 is the block that the
 * hardware tells to be written, a page; B_g is the g-th part of it, and p(B_g) the share of memory that
 * changed, counted in blocks B_g. Of memory of `bytes` bytes:
 *
 *   1. conventional, each block B_g is tracked and saved as a whole:
 *          T(g) = bytes / (block / g) · detect + p(B_g) · bytes · save
 *   2. hybrid, pages are tracked, compared, and saved in blocks B_g:
 *          T(g) = bytes / block · detect + p(B_1) · bytes · compare + p(B_g) · bytes · (save + mask)
 *   3. half of a changed block is changed with the probability P, so
 *          p(B_g) = p(B_1) / g^a,  a = -log2 P
 *
 * P lies between 1/2 (one byte of a block: a = 1) and 1 (all of it: a = 0). Times are in seconds.
 */
#ifndef BELAY_NODE_AGENT_DELTA_MODEL_H
#define BELAY_NODE_AGENT_DELTA_MODEL_H

/* Constants of a machine. */
struct model_costs {
    double detect_s;  /* to detect whether one block was written, and to track it again */
    double compare_s; /* to compare a byte */
    double save_s;    /* to save a byte */
};

/* What is known of memory at a line. */
struct model_memory {
    double bytes;       /* of it */
    double block_bytes; /* of B_1 */
    double share;       /* p(B_1) */
    double exponent;    /* a */
};

/* Theorem 3: a from P (0 < P <= 1), and from two shares that were measured; 0 where nothing can be said. */
double model_exponent(double halving);
double model_exponent_of(double share_1, double share_g, double g);
/* p(B_g). */
double model_share(const struct model_memory *memory, double g);

/* Theorems 1 and 2. */
double model_conventional_s(const struct model_costs *costs, const struct model_memory *memory, double g);
double model_hybrid_s(const struct model_costs *costs, const struct model_memory *memory, double g);

/* The power of two from 1 to g_max for which theorem 2 gives the least time; 1: pages are not compared, which
 * is theorem 1 with g = 1. */
unsigned model_best(const struct model_costs *costs, const struct model_memory *memory, unsigned g_max);

#endif
