#include "coord/fold.h"

void fold_begin(struct fold *fold, uint32_t expected, uint64_t base_line)
{
    *fold = (struct fold){.expected = expected, .base_line = base_line};
}

bool fold_turns(const struct fold *fold, uint64_t base_line)
{
    return base_line == 0 && fold->base_line != 0;
}

uint32_t fold_turn_whole(struct fold *fold)
{
    uint32_t again = fold->arrived | fold->coming;

    fold->base_line = 0;
    fold->arrived = fold->coming = 0;
    return again;
}

enum fold_answer fold_offer(struct fold *fold, uint32_t position, uint64_t base_line)
{
    if (base_line != fold->base_line)
        return FOLD_NEED_BASE;
    if (fold->is_made || ((fold->coming | fold->arrived) & 1u << position))
        return FOLD_AGAIN;
    fold->coming |= 1u << position;
    return FOLD_TAKE;
}

bool fold_add(struct fold *fold, uint32_t position, bool is_whole)
{
    if (!is_whole)
        return false;
    fold->coming &= ~(1u << position);
    fold->arrived |= 1u << position;
    if (fold->arrived != fold->expected || fold->is_made)
        return false;
    fold->is_made = true;
    return true;
}

void guard_begin(struct guard_marks *marks, uint32_t holders, bool has_base)
{
    *marks = (struct guard_marks){.awaited = holders, .whole = has_base ? 0 : holders};
}

bool guard_turn_whole(struct guard_marks *marks, uint32_t position)
{
    if (!(marks->awaited & ~marks->whole & 1u << position))
        return false;
    marks->whole |= 1u << position;
    return true;
}

bool guard_is_held(struct guard_marks *marks, uint32_t position)
{
    if (!(marks->awaited & 1u << position))
        return false;
    marks->awaited &= ~(1u << position);
    return marks->awaited == 0;
}
