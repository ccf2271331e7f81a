#include "tests/histories/core/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/world.h"
#include "tests/programs/program.h"

#define COMMON_PERCENT 22
#define SWARM 0x737761726du
#define SWARM_PERCENT 30
#define SKIPS_MAX 2000
#define NAMES_BYTES 8192

static const char *only;
static char without[NAMES_BYTES];

static struct skip {
    long rank, first, last; /* rank -1: all */
} skips[SKIPS_MAX];
static size_t skip_count;

void choice_only(const char *list)
{
    only = list;
}

void choice_without(const char *list)
{
    size_t length = strlen(without);
    if (list)
        snprintf(without + length, sizeof without - length, "%s%s", length ? "," : "", list);
}

bool choice_skip(const char *list)
{
    while (*list) {
        char *end;
        struct skip skip = {.rank = -1, .first = strtol(list, &end, 10)};
        if (*end == ':') {
            skip.rank = skip.first;
            skip.first = strtol(end + 1, &end, 10);
        }
        skip.last = *end == '-' ? strtol(end + 1, &end, 10) : skip.first;
        if ((*end && *end != ',') || end == list || skip_count == SKIPS_MAX)
            return false;
        skips[skip_count++] = skip;
        list = *end ? end + 1 : end;
    }
    return true;
}

static bool is_skipped(int rank, long step)
{
    for (size_t i = 0; i < skip_count; i++)
        if ((skips[i].rank == -1 || skips[i].rank == rank) && skips[i].first <= step && step <= skips[i].last)
            return true;
    return false;
}

/* Is KIND or KIND.OPERATION in the list? */
static bool names(const char *list, const char *kind, const char *operation)
{
    size_t length = strlen(kind);
    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t word = strcspn(at, ",");
        if (word == length && !strncmp(at, kind, length))
            return true;
        if (word > length && !strncmp(at, kind, length) && at[length] == '.' &&
            strlen(operation) == word - length - 1 && !strncmp(at + length + 1, operation, word - length - 1))
            return true;
    }
    return false;
}

bool choice_has(const char *kind, const char *operation)
{
    return (!only || names(only, kind, operation)) && !names(without, kind, operation);
}

/* A part of the kinds, which the seed chooses: so each has more to do with itself and with few others, and
 * some are absent that would hide a fault (A. Groce et al., "Swarm testing", ISSTA 2012). */
static bool is_in_swarm(const struct kind *kind)
{
    uint64_t number = 0;
    digest_add(&number, kind->name, strlen(kind->name));
    return kind->is_common || mix_number(world.seed, number, SWARM) % 100 < SWARM_PERCENT;
}

static int weight_of(const struct kind *kind, const struct operation *operation)
{
    if (only)
        return names(only, kind->name, operation->name) ? operation->weight : 0;
    return is_in_swarm(kind) ? operation->weight : 0;
}

static long weigh_all(bool is_common)
{
    long sum = 0;
    for (size_t i = 0; vocabulary[i]; i++)
        for (const struct operation *o = vocabulary[i]->operations;
             vocabulary[i]->is_common == is_common && o->name; o++)
            sum += weight_of(vocabulary[i], o);
    return sum;
}

static struct choice choose(bool is_common)
{
    long sum = weigh_all(is_common), at = sum > 0 ? (long)pick((size_t)sum) : 0;
    for (size_t i = 0; vocabulary[i] && sum > 0; i++)
        for (const struct operation *o = vocabulary[i]->operations;
             vocabulary[i]->is_common == is_common && o->name; o++)
            if ((at -= weight_of(vocabulary[i], o)) < 0)
                return (struct choice){vocabulary[i], o};
    return (struct choice){NULL, NULL};
}

struct choice choice_of(int rank, long step)
{
    struct choice choice;
    dice_take_common(world.seed, step);
    bool is_common = chance(COMMON_PERCENT) && weigh_all(true) > 0 && !world.is_child;
    if (!is_common)
        dice_take_own(world.seed, rank, step);
    choice = choose(is_common);
    if (is_skipped(rank, step) || (choice.kind && names(without, choice.kind->name, choice.operation->name)))
        choice.kind = NULL;
    return choice;
}

void choice_print(void)
{
    for (size_t i = 0; vocabulary[i]; i++)
        for (const struct operation *o = vocabulary[i]->operations; o->name; o++)
            printf("%s.%s\n", vocabulary[i]->name, o->name);
}
