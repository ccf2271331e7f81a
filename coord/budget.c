#include "coord/budget.h"

#include <errno.h>
#include <stdlib.h>

/* UINT64_MAX: no limit. */
struct account {
    uint64_t limit_left, machine_left; /* machine_left: of the first member of the machine */
    uint64_t machine;
    uint32_t first; /* index of the first member of the machine */
    bool is_known;
};

struct budget {
    uint32_t count;
    struct account accounts[];
};

static uint64_t less(uint64_t left, uint64_t bytes)
{
    if (left == UINT64_MAX)
        return left;
    return left > bytes ? left - bytes : 0;
}

static uint64_t sum(uint64_t one, uint64_t other)
{
    return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

struct budget *budget_create(uint32_t members)
{
    struct budget *budget = calloc(1, sizeof(*budget) + members * sizeof(*budget->accounts));

    if (!budget)
        return NULL;
    budget->count = members;
    for (uint32_t i = 0; i < members; i++)
        budget->accounts[i] =
            (struct account){.limit_left = UINT64_MAX, .machine_left = UINT64_MAX, .first = i};
    return budget;
}

void budget_destroy(struct budget *budget)
{
    int saved_errno = errno;

    free(budget);
    errno = saved_errno;
}

/* Of what the members of a machine tell of it, the least counts: one has asked later than the others. */
void budget_set(struct budget *budget, uint32_t member, const struct epoch_memory *memory)
{
    struct account *account = &budget->accounts[member], *first;

    if (!memory->is_known)
        return;
    account->is_known = true;
    account->limit_left = memory->limit_bytes;
    account->machine_left = memory->machine_bytes;
    account->machine = memory->machine;
    account->first = 0;
    while (account->first < member && !(budget->accounts[account->first].is_known &&
                                        budget->accounts[account->first].machine == memory->machine))
        account->first++;
    first = &budget->accounts[account->first];
    if (memory->machine_bytes < first->machine_left)
        first->machine_left = memory->machine_bytes;
}

bool budget_fits(const struct budget *budget, const struct burden *one, const struct burden *other)
{
    const struct burden *all[] = {one, other};

    for (int i = 0; i < 2; i++) {
        const struct burden *burden = all[i], *beside = all[1 - i];
        const struct account *account;
        uint64_t images = burden->image_bytes, bytes = sum(images, burden->memory_bytes);

        if (burden->member == EPOCH_NOBODY)
            continue;
        account = &budget->accounts[burden->member];
        if (beside->member == burden->member)
            images = sum(images, beside->image_bytes);
        if (beside->member != EPOCH_NOBODY && budget->accounts[beside->member].first == account->first)
            bytes = sum(bytes, sum(beside->image_bytes, beside->memory_bytes));
        if (images > account->limit_left || bytes > budget->accounts[account->first].machine_left)
            return false;
    }
    return true;
}

void budget_charge(struct budget *budget, const struct burden *burden)
{
    struct account *account, *first;

    if (burden->member == EPOCH_NOBODY)
        return;
    account = &budget->accounts[burden->member];
    first = &budget->accounts[account->first];
    account->limit_left = less(account->limit_left, burden->image_bytes);
    first->machine_left = less(first->machine_left, sum(burden->image_bytes, burden->memory_bytes));
}
