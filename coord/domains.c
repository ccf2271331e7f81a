#include "coord/domains.h"

static bool is_survived(const uint32_t *nodes, uint32_t count, const uint32_t *domains,
                        struct parity_code code, uint32_t place);
static uint32_t count_losses(struct parity_code code, uint32_t count);
static uint32_t count_of(const uint32_t *nodes, uint32_t count, const uint32_t *domains, uint32_t domain);
static void sort_by_size(const uint32_t *nodes, uint32_t count, const uint32_t *domains, uint32_t *sorted);
static bool comes_before(const uint32_t *nodes, uint32_t count, const uint32_t *domains, uint32_t one,
                         uint32_t other);

bool domains_are_apart(const uint32_t *nodes, uint32_t count, const uint32_t *domains,
                       struct parity_code code)
{
    for (uint32_t i = 0; i < count; i++)
        if (code.parity > 0 ? !is_survived(nodes, count, domains, code, i)
                            : domains[nodes[i]] == domains[nodes[(i + 1) % count]])
            return false;
    return true;
}

uint32_t domains_find_large(const uint32_t *nodes, uint32_t count, const uint32_t *domains,
                            struct parity_code code, uint32_t *domain)
{
    uint32_t most = code.parity > 0 ? count_losses(code, count) : count / 2;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = count_of(nodes, count, domains, domains[nodes[i]]);

        if (size <= most)
            continue;
        *domain = domains[nodes[i]];
        return size;
    }
    return 0;
}

/*
 * For copies: the nodes of the largest domain first, on every other place; what does not fit there, on those
 * between. For parity: domain by domain, since neighbours are in different sets.
 */
void domains_arrange(const uint32_t *nodes, uint32_t count, const uint32_t *domains, struct parity_code code,
                     uint32_t *order, uint32_t *room)
{
    uint32_t large, even = (count + 1) / 2;

    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    if (domains_are_apart(nodes, count, domains, code) ||
        domains_find_large(nodes, count, domains, code, &large) > 0)
        return;
    sort_by_size(nodes, count, domains, room);
    for (uint32_t i = 0; i < count; i++)
        order[code.parity > 0 ? i : i < even ? 2 * i : 2 * (i - even) + 1] = room[i];
}

/* Whether the set of the node at a place survives the loss of the node's domain. */
static bool is_survived(const uint32_t *nodes, uint32_t count, const uint32_t *domains,
                        struct parity_code code, uint32_t place)
{
    struct parity_set set;
    uint32_t lost = 0;

    if (!parity_set_of(code, count, place, &set))
        return false;
    for (uint32_t position = 0; position < set.size; position++)
        lost += domains[nodes[parity_set_member(&set, position)]] == domains[nodes[place]];
    return lost <= set.code.parity;
}

/* The nodes that may be lost if each set loses as many as it can. */
static uint32_t count_losses(struct parity_code code, uint32_t count)
{
    struct parity_set set;
    uint32_t losses = 0;

    for (uint32_t i = 0; i < count && parity_set_of(code, count, i, &set) && i < set.count; i++)
        losses += set.code.parity;
    return losses;
}

static uint32_t count_of(const uint32_t *nodes, uint32_t count, const uint32_t *domains, uint32_t domain)
{
    uint32_t size = 0;

    for (uint32_t i = 0; i < count; i++)
        size += domains[nodes[i]] == domain;
    return size;
}

/* By insertion: there are few. Those of a domain stay together, in their order. */
static void sort_by_size(const uint32_t *nodes, uint32_t count, const uint32_t *domains, uint32_t *sorted)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;

        for (; at > 0 && comes_before(nodes, count, domains, i, sorted[at - 1]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = i;
    }
}

static bool comes_before(const uint32_t *nodes, uint32_t count, const uint32_t *domains, uint32_t one,
                         uint32_t other)
{
    uint32_t its = domains[nodes[one]], others = domains[nodes[other]];
    uint32_t size = count_of(nodes, count, domains, its),
             other_size = count_of(nodes, count, domains, others);

    return size != other_size ? size > other_size : its < others;
}
